//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package gateway

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// isOwn says whether a file is of this process's user.
func isOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// removeAbandoned removes the folder of a journal, unless a process has it open or never had.
func removeAbandoned(folder string) {
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.RemoveAll(folder) // what is left is there for the next one
	}
}
