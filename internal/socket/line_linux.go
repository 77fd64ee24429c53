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

// readLine reads what is there. 0 is the end.
func readLine(fd int32, b []byte) int {
	if len(b) == 0 {
		return lineEmpty
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
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

// writeLine writes as much as there is room for.
func writeLine(fd int32, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
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

// adoptLine takes the socket out of a net.Conn, which is closed if that worked.
func adoptLine(nc net.Conn) (fd int32, ok bool) {
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
		copied, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil || errno != 0 {
		return noLine, false
	}
	_ = tcp.Close() // the copy lives on
	return int32(copied), true
}

// closeLine closes a socket; with reset, what its peer has not taken is thrown away.
func closeLine(fd int32, reset bool) {
	if reset {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	_ = syscall.Close(int(fd))
}

// shutLine tells the peer that nothing more comes.
func shutLine(fd int32) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) }

// peerOfLine is the address of a socket's other end.
func peerOfLine(fd int32) netip.Addr {
	sa, err := syscall.Getpeername(int(fd))
	if err != nil {
		return netip.Addr{}
	}
	from, _ := addressOf(sa)
	return from
}
