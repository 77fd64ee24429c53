package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// fileKeys keeps the document in a file.
type fileKeys struct {
	path string
}

// FileKeys keeps the keys in the file at path, mode 0600, its folder 0700 where that has to be made. A file that others may
// read is refused: its secrets are no secrets. It is replaced whole or not at all, and by one process at a time.
func FileKeys(path string) KeyStore { return &fileKeys{path} }

const (
	// keysLook is how often a watch looks at the file.
	keysLook = 250 * time.Millisecond
	// keysLockLook is how often one who waits for the lock tries, which others hold for some milliseconds.
	keysLockLook = 5 * time.Millisecond
	// keysLockPatience is how long that may take.
	keysLockPatience = 10 * time.Second
)

// Load reads the document. Its version is a hash of it.
func (f *fileKeys) Load(context.Context) ([]byte, string, error) {
	data, err := readSecretFile(f.path, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	return data, versionOf(data), nil
}

func versionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// String names the file in errors.
func (f *fileKeys) String() string { return "key file " + f.path }

// Save replaces the file where it is still that of version.
func (f *fileKeys) Save(ctx context.Context, data []byte, version string) error {
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	unlock, err := lockKeys(ctx, folder)
	if err != nil {
		return err
	}
	defer unlock()
	switch _, now, err := f.Load(ctx); {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case now != version:
		return ErrConflict
	}
	return replaceFile(path, data)
}

// lockKeys keeps other processes from saving keys into the folder.
func lockKeys(ctx context.Context, folder string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, keysLockPatience)
	defer cancel()
	for {
		if unlock, err = tryLock(folder); err != nil || unlock != nil {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that saves keys: %w", ctx.Err())
		case <-time.After(keysLockLook):
		}
	}
}

// replaceFile puts a file of mode 0600 in the place of another, whole or not at all.
func replaceFile(path string, data []byte) error {
	folder := filepath.Dir(path)
	tmp, err := os.CreateTemp(folder, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(folder)
}

// Watch looks at the file every quarter of a second.
func (f *fileKeys) Watch(ctx context.Context, changed func()) error {
	last, _ := os.Stat(f.path)
	changed() // since it was read, before this
	tick := time.NewTicker(keysLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := os.Stat(f.path)
		if err != nil || last != nil && os.SameFile(last, now) && last.ModTime().Equal(now.ModTime()) && last.Size() == now.Size() {
			continue // one that is not there is waited for
		}
		last = now
		changed()
	}
}

// readSecretFile reads a file, if it is one that nobody else may read.
func readSecretFile(path string, most int64) ([]byte, error) {
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
	data, err := readSecret(f, most)
	return data, errors.Join(err, f.Close())
}

func readSecret(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("mode %04o lets others read it: chmod 600 it, and replace what they may have read", mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("damaged: it is longer than %d bytes", most)
	}
	return data, err
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
