package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errNotFile means that a path names a folder, a pipe or a device.
var errNotFile = errors.New("not a file")

// OpenFile opens a regular file for reading. It never waits, as the opening of a named pipe does.
func OpenFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: %w", path, errNotFile)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
