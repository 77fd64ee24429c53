//go:build unix

package marketdata

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// interruptible returns another descriptor of a file, of which reads can have a deadline if they
// can wait.
func interruptible(f *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open standard input: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("open standard input: %w", err), syscall.Close(fd))
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
