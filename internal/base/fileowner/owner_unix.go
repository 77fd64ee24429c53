//go:build unix

package fileowner

import (
	"io/fs"
	"syscall"
)

// Of returns the user id of a file's owner.
func Of(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
