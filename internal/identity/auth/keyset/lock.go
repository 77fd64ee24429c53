package keyset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/base/flock"
)

// tryLock locks a folder by its own descriptor, so that no file is left behind. unlock is nil if
// another process has the lock. The lock ends with the process.
func tryLock(folder string) (unlock func(), err error) {
	if !flock.Supported {
		return tryLockFile(filepath.Join(folder, "keys.lock"))
	}
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := flock.Lock(f); err != nil {
		_ = f.Close()
		if errors.Is(err, flock.ErrLocked) {
			return nil, nil
		}
		return nil, &fs.PathError{Op: "lock", Path: folder, Err: err}
	}
	return func() { _ = f.Close() }, nil
}

// tryLockFile makes a lock file on systems that have no file locks. unlock is nil if the file
// exists. The operator has to remove the file of a killed process. The error of a process that
// waits for the lock names the file.
func tryLockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _, _ = f.Close(), os.Remove(name) }, nil
}
