//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import "errors"

// sharedMemory is "": there is no folder of files that are kept in memory.
const sharedMemory = ""

// openHighWater has no memory that outlives the process.
func openHighWater(memory, folder string, journal [16]byte) (*highWater, error) {
	return nil, errors.ErrUnsupported
}
