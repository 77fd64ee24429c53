package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// keyFile is the form on disk. In both lists the first is the one in use.
type keyFile struct {
	Version int          `json:"version"`
	Keys    []fileKey    `json:"keys"`
	Refresh []fileSecret `json:"refresh"`
}

type fileKey struct {
	ID        string    `json:"kid"`
	Algorithm string    `json:"alg"`
	Created   time.Time `json:"created"`
	Private   []byte    `json:"private"` // 32 bytes, big endian
}

type fileSecret struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Secret  []byte    `json:"secret"`
}

const (
	keyFileVersion = 1
	maxKeyFile     = 1 << 20
)

// OpenKeySet reads the key file at path, or makes it (mode 0600, its directory
// 0700) if there is none. A file that others may read is refused: its secrets are
// no secrets. Two processes that make the file at once end up with the same one.
func OpenKeySet(path string) (*KeySet, error) {
	k, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if k, err = NewKeySet(); err != nil {
			return nil, err
		}
		err = writeKeyFile(path, k)
		if errors.Is(err, fs.ErrExist) {
			k, err = readKeyFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

func readKeyFile(path string) (*KeySet, error) {
	// To open a named pipe would wait for a writer. A link to a file is good.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := readSecret(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return parseKeyFile(data)
}

// readSecret reads a file, if it is one that nobody else may read.
func readSecret(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("mode %04o lets others read the keys: chmod 600 it, or remove it for new keys if others may have read it", mode)
	}
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}

func parseKeyFile(data []byte) (*KeySet, error) {
	var file keyFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("damaged: more than one JSON value")
	}
	if file.Version != keyFileVersion {
		return nil, fmt.Errorf("version %d is not known here (%d is)", file.Version, keyFileVersion)
	}
	if len(file.Keys) == 0 || len(file.Refresh) == 0 {
		return nil, errors.New("damaged: it needs at least one key and one refresh secret")
	}
	var keys []signingKey
	for i, fk := range file.Keys {
		key, err := fk.key()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	var derivers []deriver
	for i, fs := range file.Refresh {
		if fs.ID == "" || len(fs.Secret) != deriverLength {
			return nil, fmt.Errorf("refresh secret %d: damaged: it needs an id and %d bytes", i+1, deriverLength)
		}
		derivers = append(derivers, deriver{id: fs.ID, created: fs.Created, secret: fs.Secret})
	}
	return newKeySet(keys, derivers)
}

func (fk *fileKey) key() (signingKey, error) {
	if fk.Algorithm != algorithm {
		return signingKey{}, fmt.Errorf("algorithm %q is not known here (%s is)", fk.Algorithm, algorithm)
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), fk.Private)
	if err != nil {
		return signingKey{}, errors.New("damaged: the private key is not one of P-256") // the cause might hold the key
	}
	id, err := thumbprint(&private.PublicKey)
	if err != nil {
		return signingKey{}, err
	}
	if id != fk.ID {
		return signingKey{}, fmt.Errorf("damaged: kid is %q but the key's thumbprint is %q", fk.ID, id)
	}
	return signingKey{id: id, created: fk.Created, private: private}, nil
}

// writeKeyFile makes the file whole or not at all, and fails with fs.ErrExist
// rather than replace one.
func writeKeyFile(path string, k *KeySet) (err error) {
	file := keyFile{Version: keyFileVersion}
	for _, key := range k.keys {
		private, err := key.private.Bytes()
		if err != nil {
			return fmt.Errorf("encode a signing key: %w", err)
		}
		file.Keys = append(file.Keys, fileKey{ID: key.id, Algorithm: algorithm, Created: key.created, Private: private})
	}
	for _, d := range k.derivers {
		file.Refresh = append(file.Refresh, fileSecret{ID: d.id, Created: d.created, Secret: d.secret})
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	_, err = tmp.Write(append(data, '\n'))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process just made.
	if err := os.Link(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in dir durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // it has no such call
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
