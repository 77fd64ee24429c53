// Package disk has the file operations of the journal, which tests can replace.
package disk

import (
	"fmt"
	"os"
	"path/filepath"
)

// System contains the file operations of the journal. Tests replace them with a disk that fails or
// loses data that was not synced. Nil functions are the real ones.
type System struct {
	Open       func(name string, flag int) (*os.File, error) // flag as for os.OpenFile
	Write      func(f *os.File, b []byte) (int, error)
	WriteAt    func(f *os.File, b []byte, at int64) (int, error)
	Truncate   func(name string, size int64) error
	Sync       func(f *os.File) error // the data, not the name
	SyncFolder func(name string) error
	Rename     func(from, to string) error
	Remove     func(name string) error
	RemoveAll  func(name string) error
	Mkdir      func(name string) error
}

// Fill sets the real function for each one that is nil.
func (s *System) Fill() {
	if s.Open == nil {
		s.Open = func(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o600) }
	}
	if s.Write == nil {
		s.Write = (*os.File).Write
	}
	if s.WriteAt == nil {
		s.WriteAt = (*os.File).WriteAt
	}
	if s.Truncate == nil {
		s.Truncate = os.Truncate
	}
	if s.Sync == nil {
		s.Sync = dataSync
	}
	if s.SyncFolder == nil {
		s.SyncFolder = syncFolder
	}
	if s.Rename == nil {
		s.Rename = os.Rename
	}
	if s.Remove == nil {
		s.Remove = os.Remove
	}
	if s.RemoveAll == nil {
		s.RemoveAll = os.RemoveAll
	}
	if s.Mkdir == nil {
		s.Mkdir = func(name string) error { return os.MkdirAll(name, 0o700) }
	}
}

// syncFolder syncs the entries of a folder.
func syncFolder(path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
