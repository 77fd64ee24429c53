//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package state

import "errors"

// SharedMemory is "": there is no folder of files that are kept in memory.
const SharedMemory = ""

// OpenHighWater has no memory that outlives the process.
func OpenHighWater(memory, folder string, journal [16]byte) (*HighWater, error) {
	return nil, errors.ErrUnsupported
}
