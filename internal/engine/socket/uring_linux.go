//go:build !386

package socket

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// uring sends to many sockets with one system call (io_uring, Linux 5.6 and later). No send is in
// flight when flush returns. One goroutine uses it.
type uring struct {
	fd      int
	kernel  *kernel
	ring    []byte // both queues and the completions
	entries []byte // submissions

	sqTail, cqHead, cqTail *uint32
	sqMask, cqMask         uint32
	completions            unsafe.Pointer
	sends                  []send
}

// Numbers of the kernel's interface, include/uapi/linux/io_uring.h.
const (
	sysUringSetup = 425
	sysUringEnter = 426

	uringSubmitAll   = 1 << 7 // continue after a submission that fails
	uringCoopTaskrun = 1 << 8 // no interrupt of this thread for completions
	uringSingleMmap  = 1 << 0 // feature
	uringOffEntries  = 0x10000000
	uringEntrySize   = 64
	uringOpNothing   = 0
	uringOpSend      = 26
)

// uringDepth is the number of sends in one call: enough to spread its cost, and few enough to take
// about 0.1 ms.
const uringDepth = 64

// uringTries bounds the calls without progress.
const uringTries = 8

// uringParams is struct io_uring_params.
type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq, cq                                                                 uringOffsets
}

// uringOffsets is struct io_sqring_offsets, and the equal part of io_cqring_offsets, whose cqes are
// at array.
type uringOffsets struct {
	head, tail, mask, entries, four, five, six, _ uint32
	_                                             uint64
}

// uringEntry is struct io_uring_sqe.
type uringEntry struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	length        uint32
	msgFlags      uint32
	userData      uint64
	_             [3]uint64
}

// uringCompletion is struct io_uring_cqe.
type uringCompletion struct {
	userData uint64
	res      int32
	flags    uint32
}

func newUring(k *kernel) (*uring, error) {
	p := uringParams{flags: uringSubmitAll | uringCoopTaskrun}
	fd, _, errno := syscall.RawSyscall(sysUringSetup, uringDepth, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	u := &uring{fd: int(fd), kernel: k, sends: make([]send, 0, uringDepth)}
	if p.features&uringSingleMmap == 0 {
		u.close()
		return nil, fmt.Errorf("io_uring of this kernel is too old: %w", syscall.ENOSYS)
	}
	size := max(p.sq.six+p.sqEntries*4, p.cq.five+p.cqEntries*uint32(unsafe.Sizeof(uringCompletion{})))
	var err error
	const prot, flags = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_SHARED | syscall.MAP_POPULATE
	if u.ring, err = syscall.Mmap(u.fd, 0, int(size), prot, flags); err == nil {
		u.entries, err = syscall.Mmap(u.fd, uringOffEntries, int(p.sqEntries)*uringEntrySize, prot, flags)
	}
	if err != nil {
		u.close()
		return nil, os.NewSyscallError("mmap", err)
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.ring[off])) }
	u.sqTail, u.cqHead, u.cqTail = word(p.sq.tail), word(p.cq.head), word(p.cq.tail)
	u.sqMask, u.cqMask = *word(p.sq.mask), *word(p.cq.mask)
	u.completions = unsafe.Pointer(&u.ring[p.cq.five])
	for i := range p.sqEntries { // submission i always uses entry i
		*word(p.sq.six + 4*i) = i
	}
	return u, nil
}

// full reports whether flush must be called before add.
func (u *uring) full() bool { return len(u.sends) == uringDepth }

// add queues a send. data must not change until flush.
func (u *uring) add(c *conn, data []byte) {
	i := uint32(len(u.sends))
	u.sends = append(u.sends, send{conn: c, data: data})
	at := (*u.sqTail + i) & u.sqMask
	e := (*uringEntry)(unsafe.Pointer(&u.entries[at*uringEntrySize]))
	*e = uringEntry{
		opcode: uringOpSend, fd: c.fd,
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data)))), length: uint32(len(data)),
		msgFlags: syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL, userData: uint64(i),
	}
	if errno := u.kernel.inject(callCompletion, c.fd); errno != 0 {
		e.opcode, u.sends[i].fault = uringOpNothing, errno
	}
}

// flush makes all queued sends and calls f for each. After an error the ring must not be used
// again.
func (u *uring) flush(f func(*send)) error {
	n := uint32(len(u.sends))
	if n == 0 {
		return nil
	}
	atomic.StoreUint32(u.sqTail, *u.sqTail+n)
	var err error
	left := n
	for tries := 0; left > 0 && err == nil; {
		done, errno := uintptr(0), u.kernel.inject(callSubmit, int32(u.fd))
		if errno == 0 {
			done, _, errno = syscall.RawSyscall6(sysUringEnter, uintptr(u.fd), uintptr(left), 0, 0, 0, 0)
		}
		switch {
		case errno == 0 && done > 0:
			left -= uint32(done)
		case tries < uringTries && (errno == 0 || errno == syscall.EINTR || errno == syscall.EAGAIN):
			tries++
		default:
			err = os.NewSyscallError("io_uring_enter", errno)
			if errno == 0 {
				err = io.ErrNoProgress
			}
		}
	}
	for i := range u.sends {
		u.sends[i].written = ioFailed // unless there is a completion
		if uint32(i) >= n-left {
			u.sends[i].written = ioUntried
		}
	}
	if u.complete() != n-left && err == nil {
		err = fmt.Errorf("io_uring lost completions: %w", io.ErrUnexpectedEOF) // a late one would be assigned to another send
	}
	runtime.KeepAlive(u.sends)
	for i := range u.sends {
		f(&u.sends[i])
	}
	clear(u.sends)
	u.sends = u.sends[:0]
	return err
}

// complete reads the completion queue and returns the number of sends that it reports.
func (u *uring) complete() (reported uint32) {
	head := *u.cqHead
	for tail := atomic.LoadUint32(u.cqTail); head != tail; head++ {
		c := (*uringCompletion)(unsafe.Add(u.completions, uintptr(head&u.cqMask)*unsafe.Sizeof(uringCompletion{})))
		if c.userData >= uint64(len(u.sends)) {
			continue
		}
		s := &u.sends[c.userData]
		res := c.res
		if s.fault != 0 {
			res = -int32(s.fault)
		}
		switch {
		case res >= 0:
			s.written = int(res)
		case res == -int32(syscall.EAGAIN):
			s.written = 0
		case res == -int32(syscall.EINTR):
			s.written = ioUntried
		}
		reported++
	}
	atomic.StoreUint32(u.cqHead, head)
	return reported
}

func (u *uring) close() {
	if u.entries != nil {
		_ = syscall.Munmap(u.entries)
	}
	if u.ring != nil {
		_ = syscall.Munmap(u.ring)
	}
	_ = syscall.Close(u.fd)
}
