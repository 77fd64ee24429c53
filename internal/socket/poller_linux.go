//go:build !386

package socket

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// What a descriptor is watched for. Edges, both ways at once: a connection costs one
// call when it comes and none later. The kernel looks for room to write only
// after a write found none, so asking for it always is free.
const (
	watchLine     = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | epollET
	watchListener = syscall.EPOLLIN
	watchBell     = syscall.EPOLLIN | epollET // never read: every ring is an edge

	epollET = 1 << 31

	anyRoom  = syscall.EPOLLOUT
	anyInput = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	anyEnd   = syscall.EPOLLRDHUP | anyLoss
	anyLoss  = syscall.EPOLLHUP | syscall.EPOLLERR
)

// eventsAtOnce bounds what one wait brings, and so the time between two looks at
// the rest of a shard's work.
const eventsAtOnce = 256

// A pollEvent names a descriptor by its id.
type pollEvent = syscall.EpollEvent

// A poller is a shard's epoll instance, with a bell by which others wake it.
type poller struct {
	epoll  int
	events [eventsAtOnce]syscall.EpollEvent

	mu   sync.Mutex
	bell int // eventfd; -1: closed, and the number may be something else's by now
}

// Ids of events that are not a connection's.
const (
	idBell     = -1
	idListener = -2
)

func newPoller() (*poller, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		_ = syscall.Close(epoll)
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	p := &poller{epoll: epoll, bell: int(bell)}
	if err := p.watch(p.bell, idBell, watchBell); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// watch has the events of a descriptor reported with an id.
func (p *poller) watch(fd int, id int32, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: id}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(p.epoll), syscall.EPOLL_CTL_ADD,
		uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// forget takes a descriptor off that lives on elsewhere. One that is closed needs no forgetting.
func (p *poller) forget(fd int) {
	var unused syscall.EpollEvent
	_, _, _ = syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(p.epoll), syscall.EPOLL_CTL_DEL,
		uintptr(fd), uintptr(unsafe.Pointer(&unused)), 0, 0)
}

// peek gives the events that are there.
func (p *poller) peek() []pollEvent {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.events)), eventsAtOnce, 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// wait gives events once there are any, or none when the time is over or a signal came.
func (p *poller) wait(timeout time.Duration) []pollEvent {
	// Rounded up: who wakes a little early only finds nothing to do.
	ms := (timeout + time.Millisecond - 1) / time.Millisecond
	n, _, errno := syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.events)), eventsAtOnce, uintptr(ms), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// ring ends a wait, or the next one. Any goroutine may.
func (p *poller) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bell < 0 {
		return
	}
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.bell), uintptr(unsafe.Pointer(&one)), 8)
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Close(p.bell)
	p.bell = -1
	_ = syscall.Close(p.epoll)
}
