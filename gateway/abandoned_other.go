//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package gateway

import "io/fs"

// isOwn is false: there is no lock here by which to know whether anybody has a folder open.
func isOwn(fs.FileInfo) bool { return false }

// removeAbandoned is never called.
func removeAbandoned(string) {}
