package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
)

// TempEnding is the extension of incomplete files.
const TempEnding = ".tmp"

// TempFile is a file that gets its final name when it is complete and synced.
type TempFile struct {
	*os.File
	sys  *System
	path string
	Size int64 // written bytes
	Err  error // the first one
}

// CreateTemp creates the file of a path, with TempEnding.
func CreateTemp(sys *System, path string) (*TempFile, error) {
	f, err := sys.Open(path+TempEnding, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("create file: %w", err)
	}
	return &TempFile{File: f, sys: sys, path: path}, nil
}

// Add appends b.
func (t *TempFile) Add(b []byte) {
	if t.Err != nil {
		return
	}
	n, err := t.sys.Write(t.File, b)
	t.Size += int64(n)
	if err != nil {
		t.Err = fmt.Errorf("write %s: %w", t.Name(), err)
	}
}

// Finish renames the file, or removes it after an error.
func (t *TempFile) Finish(err error) error {
	err = cmp.Or(err, t.Err)
	if err == nil {
		err = t.sys.Sync(t.File)
	}
	err = errors.Join(err, t.Close())
	if err == nil {
		err = t.sys.Rename(t.Name(), t.path)
	}
	if err != nil {
		return errors.Join(err, t.sys.Remove(t.Name()))
	}
	return nil
}
