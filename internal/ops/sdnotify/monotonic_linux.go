package sdnotify

import (
	"syscall"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC of clock_gettime(2).
const clockMonotonic = 1

// monotonic returns the time of CLOCK_MONOTONIC in microseconds, which systemd compares with its
// own; 0: unknown.
func monotonic() int64 {
	var t syscall.Timespec
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return 0
	}
	return t.Nano() / 1000
}
