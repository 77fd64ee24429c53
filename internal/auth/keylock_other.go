//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// tryLock makes a lock file, for there is no flock here. unlock is nil where somebody else has made it. One that a process
// left behind when it was killed is for the operator to remove: the error of who waits for it says so by its name.
func tryLock(folder string) (unlock func(), err error) {
	name := filepath.Join(folder, "keys.lock")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _, _ = f.Close(), os.Remove(name) }, nil
}
