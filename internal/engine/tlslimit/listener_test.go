package tlslimit

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

// echoServer is a limited server that sends back what it reads.
type echoServer struct {
	*testing.T
	limiter  *Limiter
	address  string
	trust    *tls.Config
	accepted chan net.Conn
}

func newEchoServer(t *testing.T, most int) *echoServer {
	t.Helper()
	files := certtest.Write(t, t.TempDir(), "server")
	pair, err := certificate.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &echoServer{T: t, limiter: New(most, 1000, 1000, nil), accepted: make(chan net.Conn, 2000)}
	if s.trust, err = certificate.ClientConfig("", "", files.Certificate); err != nil {
		t.Fatal(err)
	}
	s.trust.ServerName = "127.0.0.1"
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = inner.Addr().String()
	l := s.limiter.Listen(inner, pair.Config())
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted <- c
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return s
}

func (s *echoServer) dial() net.Conn {
	s.Helper()
	nc, err := net.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

// released waits until no handshake is counted.
func (s *echoServer) released() {
	s.Helper()
	for range 1000 {
		if s.limiter.Pending() == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	s.Errorf("%d bytes are left over", s.limiter.Pending())
}

// TestThreat17LargeHello checks that a hello which is too large ends the connection, whatever its
// sender does.
func TestThreat17LargeHello(t *testing.T) {
	t.Parallel()
	s := newEchoServer(t, 10)
	large := s.dial()
	record := append([]byte{22, 3, 1, 16, 0, 1, 0, 250, 0}, make([]byte, 4096-4)...)
	for range 8 {
		_, _ = large.Write(record) // the server may have closed the connection
		record = append(record[:5], make([]byte, 4096)...)
	}
	if answer, err := io.ReadAll(large); len(answer) > 100 {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
	s.released()
}

// TestThreat17HandshakesOfGoroutines checks that unfinished connections of an address are bounded,
// that a new one takes the place of the oldest, and that a finished or closed one does not count.
func TestThreat17HandshakesOfGoroutines(t *testing.T) {
	t.Parallel()
	const most = 3
	s := newEchoServer(t, most)
	var silent []net.Conn
	for range most {
		silent = append(silent, s.dial())
		<-s.accepted
	}
	if _, err := s.handshake(); err != nil {
		t.Fatalf("one more of the address: %v", err)
	}
	if n, err := silent[0].Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest one: %d bytes, %v, want the end", n, err)
	}
	for range 2 * most { // all of these are open at a time
		secure, err := s.handshake()
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 40_000)
		go func() { _, _ = secure.Write(text) }()
		if _, err := io.ReadFull(secure, text); err != nil {
			t.Error(err)
		}
	}
	for _, nc := range silent[1:] {
		if _, err := nc.Write([]byte{22}); err != nil { // the first byte of a record
			t.Errorf("a silent connection was closed for finished ones: %v", err)
		}
		_ = nc.Close()
	}
	s.released()
}

// handshake connects.
func (s *echoServer) handshake() (*tls.Conn, error) {
	s.Helper()
	secure := tls.Client(s.dial(), s.trust)
	return secure, secure.Handshake()
}
