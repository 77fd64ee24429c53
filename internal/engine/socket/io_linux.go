//go:build !386

package socket

import (
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// Reads and writes are raw system calls: for non-blocking sockets the notice to the Go scheduler
// costs more than a tenth of the call.

// read returns the number of bytes read, 0 at the end, or ioEmpty or ioFailed.
func (k *kernel) read(fd int32, b []byte) int {
	if len(b) == 0 {
		return ioEmpty
	}
	for {
		n, errno := uintptr(0), k.inject(callRead, fd)
		if errno == 0 {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		}
		switch errno {
		case 0:
			return int(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return ioEmpty
		default:
			return ioFailed
		}
	}
}

// write returns the number of bytes written, which is less than len(b) if the socket is full, or
// ioFailed.
func (k *kernel) write(fd int32, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	for {
		n, errno := uintptr(0), k.inject(callWrite, fd)
		if errno == 0 {
			n, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		}
		switch errno {
		case 0:
			return int(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0
		default:
			return ioFailed
		}
	}
}

// adopt returns a copy of the descriptor of nc, which is closed.
func (k *kernel) adopt(nc net.Conn) (fd int32, ok bool) {
	tcp, is := nc.(*net.TCPConn)
	if !is {
		return noFD, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return noFD, false
	}
	var copied uintptr
	errno := syscall.EBADF
	err = raw.Control(func(fd uintptr) {
		if errno = k.inject(callDuplicate, int32(fd)); errno == 0 {
			copied, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err != nil || errno != 0 {
		return noFD, false
	}
	_ = tcp.Close() // the copy stays open
	return int32(copied), true
}

// close closes a socket. With reset, unsent output is discarded. The descriptor is free afterwards,
// even after an error.
func (k *kernel) close(fd int32, reset bool) {
	if reset && k.inject(callOption, fd) == 0 {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	_ = k.inject(callClose, fd) // close(2) has closed the descriptor even if it fails
	_ = syscall.Close(int(fd))
}

// shutdown closes the sending half of a socket.
func (k *kernel) shutdown(fd int32) {
	if k.inject(callShutdown, fd) == 0 {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_WR)
	}
}

// peer returns the address of the peer; the zero Addr if the socket was reset.
func (k *kernel) peer(fd int32) netip.Addr {
	if k.inject(callPeer, fd) != 0 {
		return netip.Addr{}
	}
	sa, err := syscall.Getpeername(int(fd))
	if err != nil {
		return netip.Addr{}
	}
	from, _ := addressOf(sa)
	return from
}
