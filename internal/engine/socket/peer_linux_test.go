//go:build !386

package socket

import (
	"crypto/tls"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// noPeer returns a socket without a peer address, as after a reset.
func noPeer(t *testing.T) int32 {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Getpeername(fd); err == nil {
		t.Fatal("the socket has a peer")
	}
	return int32(fd)
}

// TestPeerOfReset hands a connection off to net/http that was reset after it was accepted. It has
// the address it was accepted with.
func TestPeerOfReset(t *testing.T) {
	from := netip.MustParseAddrPort("192.0.2.7:4711")
	for _, secure := range []bool{false, true} {
		l := newHTTPListener(new(kernel))
		h := handoff{fd: noPeer(t), peer: from}
		if secure {
			h.tls = new(tlsConn)
			h.tls.transport.peer = from
			h.tls.conn = tls.Server(&h.tls.transport, new(tls.Config))
		}
		if !l.handOff(h, nil) {
			t.Fatal("not taken")
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, nc := range []net.Conn{c, c.(*httpConn).Conn} {
			if _, tcp := nc.(*net.TCPConn); tcp {
				continue // its own address is not used
			}
			if a := nc.RemoteAddr(); a == nil || a.String() != from.String() {
				t.Errorf("%T of TLS %v: address %v, want %v", nc, secure, a, from)
			}
		}
		c.Close()
		l.Close()
	}
}

// TestNoPeer checks that a socket which was accepted without an address is closed.
func TestNoPeer(t *testing.T) {
	p := openServer(t, transport{name: "loop", loop: true}, raiseLimits)
	before := descriptors(t)
	p.shards[0].loop.assign(time.Now(), noPeer(t), netip.AddrPort{})
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	if n := p.Stats().Open; n != 0 {
		t.Errorf("%d connections", n)
	}
}
