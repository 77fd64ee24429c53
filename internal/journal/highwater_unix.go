//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// sharedMemory is the folder of files that are kept in memory. It is there on Linux alone.
const sharedMemory = "/dev/shm"

// openHighWater opens the file of a journal, or makes it. It belongs to this process alone, as the
// journal does: that of a copy of the journal which another process writes is refused.
func openHighWater(folder string, journal [16]byte) (*highWater, error) {
	path := highWaterPath(folder, journal)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open high-water mark: %w", err)
	}
	page, err := mapHighWater(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open high-water mark %s: %w", path, err), f.Close())
	}
	w := &highWater{page: page, release: func(remove bool) error {
		err := syscall.Munmap(page)
		if remove {
			err = errors.Join(err, os.Remove(path))
		}
		return errors.Join(err, f.Close())
	}}
	w.parse(journal)
	return w, nil
}

// mapHighWater maps the file, if it is this user's and nobody else has it.
func mapHighWater(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The folder is one that everybody may write.
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || !info.Mode().IsRegular() {
		return nil, errors.New("the file is not of this user")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, err
	}
	if info.Size() < highWaterSize {
		// Written, not only made longer: its memory is taken now.
		if _, err := f.WriteAt(make([]byte, highWaterSize), 0); err != nil {
			return nil, err
		}
	}
	return syscall.Mmap(int(f.Fd()), 0, highWaterSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}
