//go:build !386

package socket

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	listenBacklog = 4096 // the kernel lowers it to net.core.somaxconn

	// maxAccepts bounds the connections that one iteration of the event loop accepts.
	maxAccepts = 64

	// loadSlack is by how many connections, in addition to an eighth, a shard may exceed the least
	// loaded one before it passes new ones on.
	loadSlack = 64

	// acceptRetry is the pause of a listener after it has failed to accept.
	acceptRetry = 100 * time.Millisecond
)

// Listen opens a listener on address for every shard. Run serves its connections without a
// goroutine each. Connections that do not request the stream go to [Server.Requests], which must be
// served too. Call it at most once, before Run. Without epoll it returns errors.ErrUnsupported.
func (s *Server) Listen(ctx context.Context, address string, secure *tls.Config) (net.Addr, error) {
	if secure != nil {
		secure = secure.Clone()
		secure.DynamicRecordSizingDisabled = true // small first records help only pages
	}
	where, err := resolve(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	fail := func(err error) (net.Addr, error) {
		for _, sh := range s.shards {
			if sh.loop != nil {
				sh.loop.close()
			}
			sh.loop, sh.wheel.exact = nil, true
		}
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(where), Err: err}
	}
	for i, sh := range s.shards {
		fd, at, err := openListener(where, i == 0, s.cfg.SendBuffer)
		if err != nil {
			return fail(err)
		}
		where = at // with the port that the kernel chose
		poller, err := newPoller(&s.kernel)
		if err != nil {
			_ = syscall.Close(fd)
			return fail(err)
		}
		sh.loop = &eventLoop{
			shard: sh, poller: poller, listener: fd, reserveFD: openReserve(), tlsConfig: secure,
			headReader: newHeadReader(s.cfg.Path), buffer: make([]byte, readBufferSize),
		}
		sh.wheel.exact = false
		if s.cfg.IOUring {
			sh.flusher.openBatch()
		}
		if err := poller.watch(fd, idListener, watchListener); err != nil {
			return fail(err)
		}
	}
	s.requests.addr = net.TCPAddrFromAddrPort(where)
	return s.requests.addr, nil
}

// resolve returns the address that net.Listen would use: no host means all addresses.
func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		if probe, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err == nil {
			_ = syscall.Close(probe)
			return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), nil
		}
		return netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)), nil
	}
	if a, err := netip.ParseAddr(host); err == nil { // the resolver adds 0.0.0.0 to ::
		return netip.AddrPortFrom(a.Unmap(), uint16(port)), nil
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(list) == 0 {
		return netip.AddrPort{}, &net.AddrError{Err: "no address", Addr: host}
	}
	a := list[0].Unmap()
	for _, other := range list {
		if other = other.Unmap(); a.Is6() && other.Is4() {
			a = other
		}
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

// openListener opens one of the listeners that share an address. The first one binds without
// sharing, so that an address that another process uses is an error.
func openListener(where netip.AddrPort, first bool, sendBuffer int) (fd int, at netip.AddrPort, err error) {
	family := syscall.AF_INET
	if where.Addr().Is6() {
		family = syscall.AF_INET6
	}
	fd, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, at, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(fd)
		}
	}()
	set := func(level, option, value int) {
		if err == nil {
			err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, level, option, value))
		}
	}
	set(syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	// Accepted connections inherit these.
	set(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	set(syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
	if family == syscall.AF_INET6 && where.Addr().IsUnspecified() {
		set(syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	}
	if !first {
		set(syscall.SOL_SOCKET, soReusePort, 1)
	}
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, sockaddr(where)))
	}
	if first {
		set(syscall.SOL_SOCKET, soReusePort, 1)
	}
	if err == nil {
		err = os.NewSyscallError("listen", syscall.Listen(fd, listenBacklog))
	}
	if err != nil {
		return 0, at, err
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, at, os.NewSyscallError("getsockname", err)
	}
	_, port := addressOf(sa)
	return fd, netip.AddrPortFrom(where.Addr(), port), nil
}

const soReusePort = 15 // SO_REUSEPORT on all architectures of Go

func sockaddr(a netip.AddrPort) syscall.Sockaddr {
	if a.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	sa := &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		if i, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(i.Index)
		}
	}
	return sa
}

func addressOf(sa syscall.Sockaddr) (netip.Addr, uint16) {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr), uint16(sa.Port)
	case *syscall.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)
	}
	return netip.Addr{}, 0
}

// accept accepts the pending connections.
func (l *eventLoop) accept(now time.Time) {
	failed := 0
	for range maxAccepts {
		fd, from, errno := l.shard.kernel.accept(l.listener)
		switch errno {
		case 0:
			l.assign(now, fd, from)
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
			l.acceptFailed(now, errno)
			return
		case syscall.EAGAIN:
			return
		default: // such as a connection that was reset before
			if failed++; failed == maxAccepts {
				l.acceptFailed(now, errno)
			}
		}
	}
}

// accept accepts the next connection and returns its peer's address, which a socket that was reset
// later no longer has.
func (k *kernel) accept(listener int) (fd int32, from netip.AddrPort, errno syscall.Errno) {
	var sa syscall.RawSockaddrInet6 // large enough for both families
	size := uint32(unsafe.Sizeof(sa))
	if errno := k.inject(callAccept, int32(listener)); errno != 0 {
		return noFD, from, errno
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&sa)),
		uintptr(unsafe.Pointer(&size)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return noFD, from, errno
	}
	switch sa.Family {
	case syscall.AF_INET:
		from = netip.AddrPortFrom(netip.AddrFrom4((*syscall.RawSockaddrInet4)(unsafe.Pointer(&sa)).Addr), networkOrder(&sa.Port))
	case syscall.AF_INET6:
		from = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), networkOrder(&sa.Port))
	}
	return int32(n), from, 0
}

// networkOrder reads a port; its offset is the same in both families.
func networkOrder(port *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:])
}

// assign adds a new socket to this shard, or to the least loaded one if that has far fewer
// connections. A socket without an address is closed.
func (l *eventLoop) assign(now time.Time, fd int32, from netip.AddrPort) {
	sh := l.shard
	if !from.IsValid() {
		sh.kernel.close(fd, true)
		return
	}
	lightest := sh.server.leastLoaded()
	least := lightest.load.Load()
	if sh.load.Load() <= least+least/8+loadSlack {
		l.addSocket(now, fd, from)
		return
	}
	lightest.post(input{kind: inputSocket, n: int(fd), from: from})
}

// acceptFailed pauses the listener. If no descriptors are left, it uses the reserve descriptor to
// accept and close the connection that has waited longest.
func (l *eventLoop) acceptFailed(now time.Time, errno syscall.Errno) {
	sh := l.shard
	if l.reserveFD >= 0 && (errno == syscall.EMFILE || errno == syscall.ENFILE) {
		_ = syscall.Close(l.reserveFD)
		if fd, _, e := sh.kernel.accept(l.listener); e == 0 {
			sh.kernel.close(fd, true)
		}
		l.reserveFD = openReserve()
	}
	if now.Sub(l.loggedAt) >= time.Second {
		l.loggedAt = now
		sh.log.Error("accepting connections failed", "error", fmt.Errorf("accept4: %w", errno), "sockets", sh.load.Load())
	}
	l.poller.unwatch(l.listener)
	l.retryAccept = sh.server.deadline(now.Add(acceptRetry))
}

// resumeAccept watches the listener again after its pause.
func (l *eventLoop) resumeAccept(now time.Time) {
	sh := l.shard
	if l.retryAccept == 0 || sh.server.deadline(now) < l.retryAccept {
		return
	}
	l.retryAccept = 0
	if l.reserveFD < 0 {
		l.reserveFD = openReserve() // another user took the descriptor
	}
	if err := l.poller.watch(l.listener, idListener, watchListener); err != nil && !errors.Is(err, syscall.EEXIST) {
		l.retryAccept = sh.server.deadline(now.Add(acceptRetry))
	}
}

func openReserve() int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// closeListener closes the listener.
func (l *eventLoop) closeListener() {
	if l.listener >= 0 {
		_ = syscall.Close(l.listener)
		l.listener, l.retryAccept = -1, 0
	}
}

// close closes everything that Listen opened, and all remaining connections.
func (l *eventLoop) close() {
	sh := l.shard
	l.closeListener()
	sh.flusher.closeBatch()
	for _, c := range sh.conns.byID {
		if c != nil {
			sh.end(c, true)
		}
	}
	for _, in := range sh.inbox.close() {
		if in.kind == inputSocket {
			sh.kernel.close(int32(in.n), true)
		}
	}
	if l.reserveFD >= 0 {
		_ = syscall.Close(l.reserveFD)
	}
	l.poller.close()
}
