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
	backlog = 4096 // the kernel lowers it to net.core.somaxconn

	// acceptsAtOnce bounds the new connections of one turn.
	acceptsAtOnce = 64

	// A shard that has so many connections more than the lightest, beyond an eighth,
	// passes new ones on.
	unevenBy = 64

	// Without descriptors, the listener rests for so long.
	acceptAgain = 100 * time.Millisecond
)

// Listen opens an address for every shard and has Run serve it without a goroutine a
// connection. A connection that does not ask for the stream goes to [Server.Requests], which
// must be served too. It is called before Run, once. Where the system has no
// epoll it returns errors.ErrUnsupported.
func (s *Server) Listen(ctx context.Context, address string, secure *tls.Config) (net.Addr, error) {
	if secure != nil {
		secure = secure.Clone()
		secure.DynamicRecordSizingDisabled = true // small records first are for pages that render
	}
	where, err := resolve(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	fail := func(err error) (net.Addr, error) {
		for _, sh := range s.shards {
			sh.closeDoor()
			sh.door, sh.wheel.exact = nil, true
		}
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(where), Err: err}
	}
	for i, sh := range s.shards {
		fd, at, err := openListener(where, i == 0, s.cfg.SendBuffer)
		if err != nil {
			return fail(err)
		}
		where = at // the port that was free
		poller, err := newPoller(&s.kernel)
		if err != nil {
			_ = syscall.Close(fd)
			return fail(err)
		}
		sh.door = &door{
			poller: poller, listener: fd, spare: openSpare(), secure: secure,
			reader: newHeadReader(s.cfg.Path), buffer: make([]byte, readAtOnce),
		}
		sh.wheel.exact = false
		if s.cfg.IOUring {
			sh.openBundle()
		}
		if err := poller.watch(fd, idListener, watchListener); err != nil {
			return fail(err)
		}
	}
	s.requests.addr = net.TCPAddrFromAddrPort(where)
	return s.requests.addr, nil
}

// resolve finds what net.Listen would open: no host means all addresses.
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

// openListener opens one of the sockets that share an address. The first claims it:
// sharing is allowed only once it is bound, so that an address that somebody else has,
// another server of the same kind too, is an error.
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
	// Connections inherit these.
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
		err = os.NewSyscallError("listen", syscall.Listen(fd, backlog))
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

const soReusePort = 15 // SO_REUSEPORT of every architecture but a few that Go does not serve

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

// accept takes the connections that have come.
func (sh *shard) accept(now time.Time) {
	failed := 0
	for range acceptsAtOnce {
		fd, from, errno := sh.kernel.accept(sh.door.listener)
		switch errno {
		case 0:
			sh.place(now, fd, from)
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
			sh.turnAway(now, errno)
			return
		case syscall.EAGAIN:
			return
		default: // of a connection that broke off before it was taken, among others
			if failed++; failed == acceptsAtOnce {
				sh.turnAway(now, errno)
			}
		}
	}
}

// accept takes the next connection, with its peer's address: asked for later, a socket that was
// reset has none.
func (k *kernel) accept(listener int) (fd int32, from netip.AddrPort, errno syscall.Errno) {
	var sa syscall.RawSockaddrInet6 // has room for both families
	size := uint32(unsafe.Sizeof(sa))
	if errno := k.fails(callAccept, int32(listener)); errno != 0 {
		return noLine, from, errno
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&sa)),
		uintptr(unsafe.Pointer(&size)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return noLine, from, errno
	}
	switch sa.Family {
	case syscall.AF_INET:
		from = netip.AddrPortFrom(netip.AddrFrom4((*syscall.RawSockaddrInet4)(unsafe.Pointer(&sa)).Addr), networkOrder(&sa.Port))
	case syscall.AF_INET6:
		from = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), networkOrder(&sa.Port))
	}
	return int32(n), from, 0
}

// networkOrder reads a port, which lies at the same place in the addresses of both families.
func networkOrder(port *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:])
}

// place gives a new socket to a shard: this one, unless it is much fuller than another. A socket
// without an address is closed, since everything after this counts on having one.
func (sh *shard) place(now time.Time, fd int32, from netip.AddrPort) {
	if !from.IsValid() {
		sh.kernel.close(fd, true)
		return
	}
	lightest := sh.server.lighter()
	least := lightest.load.Load()
	if sh.load.Load() <= least+least/8+unevenBy {
		sh.arrive(now, fd, from)
		return
	}
	lightest.post(input{kind: inputLine, n: int(fd), from: from})
}

// turnAway is called when connections cannot be accepted. Where descriptors are used up, the one
// kept in reserve serves to hang up on who waits longest. Then the listener rests for a while: it
// would report the others again and again.
func (sh *shard) turnAway(now time.Time, errno syscall.Errno) {
	d := sh.door
	if d.spare >= 0 && (errno == syscall.EMFILE || errno == syscall.ENFILE) {
		_ = syscall.Close(d.spare)
		if fd, _, e := sh.kernel.accept(d.listener); e == 0 {
			sh.kernel.close(fd, true)
		}
		d.spare = openSpare()
	}
	if now.Sub(d.logged) >= time.Second {
		d.logged = now
		sh.log.Error("no more connections can be taken", "error", fmt.Errorf("accept4: %w", errno), "sockets", sh.load.Load())
	}
	d.poller.forget(d.listener)
	d.again = sh.server.moment(now.Add(acceptAgain))
}

// openAgain has the listener looked at again once it has rested.
func (sh *shard) openAgain(now time.Time) {
	d := sh.door
	if d == nil || d.again == 0 || sh.server.moment(now) < d.again {
		return
	}
	d.again = 0
	if d.spare < 0 {
		d.spare = openSpare() // somebody else took the descriptor meanwhile
	}
	if err := d.poller.watch(d.listener, idListener, watchListener); err != nil && !errors.Is(err, syscall.EEXIST) {
		d.again = sh.server.moment(now.Add(acceptAgain))
	}
}

func openSpare() int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// closeListener takes no more connections.
func (sh *shard) closeListener() {
	if d := sh.door; d != nil && d.listener >= 0 {
		_ = syscall.Close(d.listener)
		d.listener, d.again = -1, 0
	}
}

// closeDoor gives back everything that Listen opened, and what is left of the connections.
func (sh *shard) closeDoor() {
	d := sh.door
	if d == nil {
		return
	}
	sh.closeListener()
	sh.closeBundle()
	for _, c := range sh.table {
		if c != nil {
			sh.end(c, true)
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, in := range sh.inbox {
		if in.kind == inputLine {
			sh.kernel.close(int32(in.n), true)
		}
	}
	sh.inbox, sh.shut = nil, true
	if d.spare >= 0 {
		_ = syscall.Close(d.spare)
	}
	d.poller.close()
}
