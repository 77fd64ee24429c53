package disk

import (
	"errors"
	"os"
	"syscall"
)

// dataSync syncs the data of a file, without its times.
func dataSync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
