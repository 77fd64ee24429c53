// Package reload reads a file again when it changes, for a program that requests its content from
// time to time.
//
// # Concurrency
//
// A File is safe for concurrent use. Its lock is held while the file is read.
package reload

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// Interval is the minimum time between two checks of a file.
const Interval = time.Second

// File is the content of a file, which is read again when it changes. If the file cannot be read
// then, the previous content stays in use, unless NewStrict made the File.
type File[T any] struct {
	name   string
	read   func(name string) (T, error)
	logger *slog.Logger
	strict bool // see NewStrict

	mu    sync.Mutex
	value T
	at    time.Time // of the last look
	info  os.FileInfo
	said  string // the last error that was logged
}

// New reads a file with read.
func New[T any](name string, read func(string) (T, error), logger *slog.Logger) (r *File[T], err error) {
	r = &File[T]{name: name, read: read, logger: logger, at: time.Now()}
	r.info, _ = os.Stat(name) // read reports the error
	r.value, err = read(name)
	return r, err
}

// NewStrict is New for a file whose old content must not stay in use, because it says who is
// allowed something. If it cannot be read later, its content is what read returns with the error.
func NewStrict[T any](name string, read func(string) (T, error), logger *slog.Logger) (*File[T], error) {
	r, err := New(name, read, logger)
	r.strict = true
	return r, err
}

// Get returns the current content.
func (r *File[T]) Get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.at) < Interval {
		return r.value
	}
	r.at = now
	info, err := os.Stat(r.name)
	if err == nil && r.info != nil && same(info, r.info) {
		return r.value
	}
	value, err := r.read(r.name)
	if err != nil {
		if r.strict {
			r.value, r.info = value, nil
		}
		if r.said == err.Error() {
			return r.value
		}
		r.said = err.Error()
		if r.strict {
			r.logger.Error("file not read, keeping only what is right in it", "file", r.name, "error", err)
		} else {
			r.logger.Error("file not read, keeping its last content", "file", r.name, "error", err)
		}
		return r.value
	}
	r.value, r.info, r.said = value, info, ""
	r.logger.Info("file read again", "file", r.name)
	return value
}

// same reports whether two looks have seen the same file with the same content and permissions.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
