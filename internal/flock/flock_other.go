//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package flock

import (
	"io/fs"
	"os"
)

// Supported says whether this system has locks.
const Supported = false

// Lock does nothing: the operator sees to it that nobody else has the file.
func Lock(*os.File) error { return nil }

// Owned returns false: owners are not known here.
func Owned(fs.FileInfo) bool { return false }
