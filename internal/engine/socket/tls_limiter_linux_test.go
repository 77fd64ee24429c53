package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/tlslimit"
	"github.com/ruedahq/rueda/wire"
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

// TestPlainRequestOnTLS sends a request without TLS to the event loop: the answer names https://.
func TestPlainRequestOnTLS(t *testing.T) {
	nc := dialFrom(t, openServer(t, overTLS(), nil), "127.0.0.1")
	if _, err := io.WriteString(nc, "GET /time HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(nc)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") || !strings.Contains(string(text), "use https:// or wss://") {
		t.Errorf("%q, %v", text, err)
	}
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
// bounded, and neither those of others nor those of a proxy. A new one takes the place of the
// oldest.
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
	hold := func() {
		nc := dialFrom(t, s, "127.0.0.2")
		if _, err := nc.Write([]byte{22}); err != nil { // the first byte of a record
			t.Fatal(err)
		}
		open = append(open, nc)
	}
	for i := range most {
		hold()
		// Two shards accept connections in any order.
		waitFor(t, "the byte of the connection", func() bool { return s.tlsLimiter.Pending() == int64(i+1) })
	}
	// One more finishes its handshake. It waits for its request and counts until that is read.
	secure := tls.Client(dialFrom(t, s, "127.0.0.2"), s.trust)
	if err := secure.HandshakeContext(t.Context()); err != nil {
		t.Errorf("one more of the address: %v", err)
	}
	open[0].SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := open[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest of the address: %v", err)
	}
	for i, nc := range open[1:] {
		if !isOpen(nc) {
			t.Errorf("connection %d was closed for another one", i+1)
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
}

// TestThreat17TokenCheckOverTLS checks that a connection whose token is being checked does not wait
// for its client: newer TLS connections of its address do not take its place.
func TestThreat17TokenCheckOverTLS(t *testing.T) {
	const most = 2
	began, mayEnd := make(chan struct{}), make(chan struct{})
	s := openServer(t, overTLS(), func(c *Config) {
		c.HeadTimeout, c.HandshakeBurst = time.Hour, most
		c.Env.Verify = func(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
			close(began)
			<-mayEnd
			return verify(ctx, token)
		}
	})
	end := sync.OnceFunc(func() { close(mayEnd) })
	t.Cleanup(end)
	secure := tls.Client(dialFrom(t, s, "127.0.0.2"), s.trust)
	c := newClient(t, secure)
	c.write(goodHandshake + "Authorization: Bearer ana\r\n\r\n")
	<-began
	for range 3 * most { // each takes the place of an earlier one
		if err := tls.Client(dialFrom(t, s, "127.0.0.2"), s.trust).HandshakeContext(t.Context()); err != nil {
			t.Error(err)
		}
	}
	end()
	secure.SetReadDeadline(time.Now().Add(time.Minute))
	if r, err := http.ReadResponse(c.r, nil); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("the connection whose token was checked: %v, %v", r, err)
	}
}
