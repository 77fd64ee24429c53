package journal

import "os"

// system contains the file operations of the journal, except for Config.write. Tests replace them
// with a disk that fails or loses data that was not synced. Nil functions are the real ones.
type system struct {
	open       func(name string, flag int) (*os.File, error) // creates the file if flag says so
	writeAt    func(f *os.File, b []byte, at int64) (int, error)
	truncate   func(name string, size int64) error
	sync       func(f *os.File) error // the data, not the name
	syncFolder func(name string) error
	rename     func(from, to string) error
	remove     func(name string) error
	removeAll  func(name string) error
	mkdir      func(name string) error
}

// fill sets the real functions where there are no others.
func (s *system) fill() {
	if s.open == nil {
		s.open = func(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o600) }
	}
	if s.writeAt == nil {
		s.writeAt = (*os.File).WriteAt
	}
	if s.truncate == nil {
		s.truncate = os.Truncate
	}
	if s.sync == nil {
		s.sync = dataSync
	}
	if s.syncFolder == nil {
		s.syncFolder = syncFolder
	}
	if s.rename == nil {
		s.rename = os.Rename
	}
	if s.remove == nil {
		s.remove = os.Remove
	}
	if s.removeAll == nil {
		s.removeAll = os.RemoveAll
	}
	if s.mkdir == nil {
		s.mkdir = func(name string) error { return os.MkdirAll(name, 0o700) }
	}
}
