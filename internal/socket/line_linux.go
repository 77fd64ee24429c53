//go:build !386

package socket

import (
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// Reads and writes are raw: on a socket that does not block, telling the Go
// scheduler of the call costs more than a tenth of it.

// read reads what is there. 0 is the end.
func (k *kernel) read(fd int32, b []byte) int {
	if len(b) == 0 {
		return lineEmpty
	}
	for {
		n, errno := uintptr(0), k.fails(callRead, fd)
		if errno == 0 {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		}
		switch errno {
		case 0:
			return int(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return lineEmpty
		default:
			return lineBroken
		}
	}
}

// write writes as much as there is room for.
func (k *kernel) write(fd int32, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	for {
		n, errno := uintptr(0), k.fails(callWrite, fd)
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
			return lineBroken
		}
	}
}

// adopt takes the socket out of a net.Conn, which is closed if that worked.
func (k *kernel) adopt(nc net.Conn) (fd int32, ok bool) {
	tcp, is := nc.(*net.TCPConn)
	if !is {
		return noLine, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return noLine, false
	}
	var copied uintptr
	errno := syscall.EBADF
	err = raw.Control(func(fd uintptr) {
		if errno = k.fails(callDuplicate, int32(fd)); errno == 0 {
			copied, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err != nil || errno != 0 {
		return noLine, false
	}
	_ = tcp.Close() // the copy lives on
	return int32(copied), true
}

// close closes a socket; with reset, what its peer has not taken is thrown away. The descriptor
// is free afterwards, whatever the calls say.
func (k *kernel) close(fd int32, reset bool) {
	if reset && k.fails(callOption, fd) == 0 {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	_ = k.fails(callClose, fd) // close(2) has closed what it reports an error of
	_ = syscall.Close(int(fd))
}

// shutdown tells the peer that nothing more comes.
func (k *kernel) shutdown(fd int32) {
	if k.fails(callShutdown, fd) == 0 {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_WR)
	}
}

// peer is the address of a socket's other end; the zero Addr where it has none any more.
func (k *kernel) peer(fd int32) netip.Addr {
	if k.fails(callPeer, fd) != 0 {
		return netip.Addr{}
	}
	sa, err := syscall.Getpeername(int(fd))
	if err != nil {
		return netip.Addr{}
	}
	from, _ := addressOf(sa)
	return from
}
