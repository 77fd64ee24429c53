package journal

import "os"

// system is how the journal changes files, besides Config.write: tests put a disk in its place that fails, or loses
// what was not synced. A function that is nil is that of the real system.
type system struct {
	open       func(name string, flag int) (*os.File, error) // makes the file where flag says so
	writeAt    func(f *os.File, b []byte, at int64) (int, error)
	truncate   func(name string, size int64) error
	sync       func(f *os.File) error // what was written, not the name
	syncFolder func(name string) error
	rename     func(from, to string) error
	remove     func(name string) error
	removeAll  func(name string) error
	mkdir      func(name string) error
}

// fill puts in the real system where nothing else is.
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
