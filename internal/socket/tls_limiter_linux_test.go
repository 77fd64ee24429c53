package socket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/proxy"
	"github.com/ruedahq/rueda/internal/tlslimit"
)

// overTLS is the event loop with TLS.
func overTLS() transport { return transport{name: "loop-tls", loop: true, secure: true} }

// dialFrom opens a TCP connection from an address of this machine.
func dialFrom(t *testing.T, s *testServer, from string) net.Conn {
	t.Helper()
	nc, err := tryDialFrom(t, s, from)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

func tryDialFrom(t *testing.T, s *testServer, from string) (net.Conn, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.DialContext(t.Context(), "tcp", s.address)
	if err == nil {
		t.Cleanup(func() { nc.Close() })
	}
	return nc, err
}

// TestThreat17HandshakeMemory sends a ClientHello of 64,000 bytes in pieces: the server ends the
// connection after 16 KiB, and other handshakes work meanwhile.
func TestThreat17HandshakeMemory(t *testing.T) {
	s := openServer(t, overTLS(), func(c *Config) { c.HeadTimeout = time.Hour })
	// a record with the beginning of a handshake message of 64,000 bytes
	const record = 4096
	hello := []byte{22, 3, 1, record >> 8, record & 0xff, 1, 0, 64000 >> 8, 64000 & 0xff}
	hello = append(hello, make([]byte, 5+record-len(hello))...)
	more := append([]byte{22, 3, 1, record >> 8, record & 0xff}, make([]byte, record)...)
	for range 8 {
		nc := dialFrom(t, s, "127.0.0.1")
		if _, err := nc.Write(hello); err != nil {
			t.Fatal(err)
		}
		s.connect("").auth("ana")
		for sent := len(hello); ; sent += len(more) {
			if sent > 200<<10 {
				t.Fatal("200 KiB of a handshake were taken")
			}
			if _, err := nc.Write(more); err != nil {
				break
			}
			nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := io.ReadAll(nc); !errors.Is(err, os.ErrDeadlineExceeded) {
				if sent+len(more) > 2*tlslimit.MaxRead {
					t.Errorf("the end came after %d bytes", sent)
				}
				break
			}
		}
	}
	waitFor(t, "handshakes to end", func() bool { return s.tlsLimiter.Pending() == 0 })
}

// TestThreat17HandshakesOfAnAddress checks that unfinished TLS connections of an address are
// bounded, and neither those of others nor those of a proxy.
func TestThreat17HandshakesOfAnAddress(t *testing.T) {
	const most = 5
	s := openServer(t, overTLS(), func(c *Config) {
		c.HeadTimeout, c.HandshakeBurst = time.Hour, most
		c.Proxies = proxy.Trusted{netip.MustParsePrefix("127.0.0.9/32")}
	})
	isOpen := func(nc net.Conn) bool {
		nc.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, err := nc.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	var open []net.Conn
	for range most {
		nc := dialFrom(t, s, "127.0.0.2")
		if _, err := nc.Write([]byte{22}); err != nil { // the first byte of a record
			t.Fatal(err)
		}
		open = append(open, nc)
	}
	// Two shards accept connections in any order.
	waitFor(t, "the byte of each connection", func() bool { return s.tlsLimiter.Pending() == most })
	if nc, err := tryDialFrom(t, s, "127.0.0.2"); err == nil {
		nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := nc.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("one more of the address")
		}
	}
	for i, nc := range open {
		if !isOpen(nc) {
			t.Errorf("connection %d was closed for another one", i)
		}
	}
	if !isOpen(dialFrom(t, s, "127.0.0.3")) {
		t.Error("another address")
	}
	for range 3 * most {
		open = append(open, dialFrom(t, s, "127.0.0.9"))
	}
	if !isOpen(open[len(open)-1]) {
		t.Error("a proxy is limited")
	}
	// Those that have ended or finished do not count.
	_ = open[0].Close()
	waitFor(t, "the place of a connection that has ended", func() bool {
		nc, err := tryDialFrom(t, s, "127.0.0.2")
		return err == nil && tls.Client(nc, s.trust).HandshakeContext(t.Context()) == nil
	})
}
