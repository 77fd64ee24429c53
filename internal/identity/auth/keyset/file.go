package keyset

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

// fileKeys stores the document in a file.
type fileKeys struct {
	path string
}

// FileStore returns a store in the file at path with mode 0600. It creates the folder with mode
// 0700. A file that others may read is an error. The file is replaced atomically, by one process at
// a time.
func FileStore(path string) Store { return &fileKeys{path} }

const (
	// keysLook is the interval between two checks of the file.
	keysLook = 250 * time.Millisecond
	// keysLockLook is the interval between two attempts to get the lock. Others hold it for some
	// milliseconds.
	keysLockLook = 5 * time.Millisecond
	// keysLockPatience is the longest wait for the lock.
	keysLockPatience = 10 * time.Second
)

// Load implements Store. The version is a hash of the document.
func (f *fileKeys) Load(context.Context) ([]byte, string, error) {
	data, err := readSecretFile(f.path, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrNoDocument
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

// String returns the name of the file for errors.
func (f *fileKeys) String() string { return "key file " + f.path }

// Save implements Store.
func (f *fileKeys) Save(ctx context.Context, data []byte, version string) error {
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // keep a symbolic link
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
	case err != nil && !errors.Is(err, ErrNoDocument):
		return err
	case now != version:
		return ErrConflict
	}
	return replaceFile(path, data)
}

// lockKeys excludes other processes from saving keys in the folder.
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

// replaceFile replaces a file atomically by one with mode 0600.
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

// Watch implements Store. It checks the file every quarter of a second.
func (f *fileKeys) Watch(ctx context.Context, changed func()) error {
	last, _ := os.Stat(f.path)
	changed() // for changes between the caller's load and the first check
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
			continue // wait until the file exists
		}
		last = now
		changed()
	}
}

// readSecretFile reads a file. One that others may read is an error.
func readSecretFile(path string, most int64) ([]byte, error) {
	// Opening a named pipe would wait for a writer. A symbolic link to a file is allowed.
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
		return nil, fmt.Errorf("mode %04o lets others read it: run chmod 600, and replace the secrets that they may have read", mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("damaged: it is longer than %d bytes", most)
	}
	return data, err
}

// syncDir makes a new directory entry durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // Windows has no such call
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
