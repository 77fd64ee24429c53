//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package flock

import (
	"io/fs"
	"os"
)

// Supported reports whether this system has locks.
const Supported = false

// Lock does nothing: the operator must make sure that no other process uses the file.
func Lock(*os.File) error { return nil }

// Owned returns false, because owners are unknown on this system.
func Owned(fs.FileInfo) bool { return false }
