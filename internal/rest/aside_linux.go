package rest

import (
	"syscall"
	"unsafe"
)

// schedIdle is SCHED_IDLE: the thread runs when no other has something to do, and whatever wakes
// takes its place at once. A mere niceness does not do that: a thread that woke would wait
// until the other's slice is over, some milliseconds.
const schedIdle = 5

// giveWay makes the calling thread give way to all others: on Linux such policies are those of
// threads. A collection that has to wait for it stops the others, and so lets it run.
func giveWay() {
	var none struct{ priority int32 }
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, schedIdle, uintptr(unsafe.Pointer(&none)))
}
