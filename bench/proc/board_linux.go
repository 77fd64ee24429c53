package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

const boardSize = 4096

// MakeBoard creates the file of a board.
func MakeBoard(name string) error {
	return os.WriteFile(name, make([]byte, boardSize), 0o600)
}

// OpenBoard maps the board of a file until the process ends.
func OpenBoard(name string) (*Board, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, boardSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	return (*Board)(unsafe.Pointer(&b[0])), nil
}
