//go:build linux || darwin

package diskspace

import "syscall"

// Of returns the free space for this process and the size of the file system with a folder, in
// bytes.
func Of(folder string) (free, size uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, 0, err
	}
	unit := uint64(s.Bsize) //nolint:unconvert // its type differs between systems
	return s.Bavail * unit, s.Blocks * unit, nil
}
