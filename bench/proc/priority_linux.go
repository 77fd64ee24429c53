package proc

import (
	"syscall"
	"unsafe"
)

// GiveWay makes the calling thread, which must be locked, run only when no other thread is ready.
func GiveWay() {
	const schedIdle = 5
	var none struct{ priority int32 }
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, schedIdle, uintptr(unsafe.Pointer(&none)))
}
