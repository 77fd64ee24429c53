package socket

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A way is one of those that a connection takes to its session.
type way struct {
	name   string
	secure bool
	loop   bool
	bundle bool // writes by io_uring, where the machine has it
}

func ways() []way {
	list := []way{{name: "pump"}, {name: "pump-tls", secure: true}}
	if runtime.GOOS == "linux" {
		list = append(list, way{name: "loop", loop: true}, way{name: "loop-tls", loop: true, secure: true}, way{name: "loop-uring", loop: true, bundle: true})
	}
	return list
}

// onEachWay runs a test on every way.
func onEachWay(t *testing.T, f func(t *testing.T, p way)) {
	t.Helper()
	for _, p := range ways() {
		t.Run(p.name, func(t *testing.T) { f(t, p) })
	}
}

// onWaysAtOnce runs a test on all ways at the same time: one that mostly waits.
func onWaysAtOnce(t *testing.T, f func(t *testing.T, p way)) {
	t.Helper()
	var all sync.WaitGroup
	for _, p := range ways() {
		all.Go(func() { t.Run(p.name, func(t *testing.T) { f(t, p) }) })
	}
	all.Wait()
}

// A place is a server that can be dialed.
type place struct {
	*Server
	t       testing.TB
	address string
	trust   *tls.Config // nil: in the clear
}

// listenOn opens an address for a server that does not run yet. What comes to the listener is
// net/http's.
func listenOn(t testing.TB, s *Server, p way) (*place, net.Listener) {
	return listenWrapped(t, s, p, func(l net.Listener) net.Listener { return l })
}

// listenWrapped is listenOn with something around the listener of a way without a loop.
func listenWrapped(t testing.TB, s *Server, p way, wrap func(net.Listener) net.Listener) (*place, net.Listener) {
	t.Helper()
	pl := &place{Server: s, t: t}
	var serve *tls.Config
	if p.secure {
		serve, pl.trust = certificates(t)
	}
	if p.loop {
		s.cfg.IOUring = p.bundle
		addr, err := s.Listen(t.Context(), "127.0.0.1:0", serve)
		if err != nil {
			t.Fatal(err)
		}
		pl.address = addr.String()
		return pl, s.Requests()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pl.address = l.Addr().String()
	l = wrap(l)
	if serve != nil {
		l = tls.NewListener(l, serve)
	}
	return pl, l
}

// open runs a server on a way of its own until the test ends.
func open(t testing.TB, p way, change func(*Config)) *place {
	t.Helper()
	s := newServer(change)
	pl, l := listenOn(t, s, p)
	mux := http.NewServeMux()
	mux.Handle("/stream", s)
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("HTTP server: %v", err)
		}
	}()
	t.Cleanup(func() { h.Close(); <-done })
	run(t, s)
	return pl
}

// tryDial opens a connection.
func (p *place) tryDial() (net.Conn, error) {
	if p.trust != nil {
		return tls.Dial("tcp", p.address, p.trust)
	}
	return net.Dial("tcp", p.address)
}

// dial opens a connection that ends with the test.
func (p *place) dial() net.Conn {
	p.t.Helper()
	nc, err := p.tryDial()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	return nc
}

// connect makes a connection and sends the handshake with more right after it.
func (p *place) connect(more string) *client {
	p.t.Helper()
	return upgradeOn(p.t, p.dial(), more)
}

// raw is the TCP connection under a client's.
func raw(nc net.Conn) *net.TCPConn {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	return nc.(*net.TCPConn)
}

// listen serves the endpoint on 127.0.0.1 by net/http.
func listen(t testing.TB, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveHTTP(t, s, l)
	return l.Addr().String()
}
