//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Supported reports whether this system has locks.
const Supported = true

// Lock locks an open file or folder without waiting. It returns ErrLocked if another process, or
// another descriptor, has the lock. Closing f ends the lock.
func Lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		}
		return err
	}
}

// Owned reports whether a file belongs to the user of this process.
func Owned(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
