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

// transport is a transport of connections, with or without TLS.
type transport struct {
	name   string
	secure bool
	loop   bool
	uring  bool // writes by io_uring if available
}

func transports() []transport {
	list := []transport{{name: "netconn"}, {name: "netconn-tls", secure: true}}
	if runtime.GOOS == "linux" {
		list = append(list, transport{name: "loop", loop: true}, transport{name: "loop-tls", loop: true, secure: true}, transport{name: "loop-uring", loop: true, uring: true})
	}
	return list
}

// forEachTransport runs a test on every transport.
func forEachTransport(t *testing.T, f func(t *testing.T, p transport)) {
	t.Helper()
	for _, p := range transports() {
		t.Run(p.name, func(t *testing.T) { f(t, p) })
	}
}

// forAllTransports runs a test on all transports at the same time, for tests that mostly wait.
func forAllTransports(t *testing.T, f func(t *testing.T, p transport)) {
	t.Helper()
	var all sync.WaitGroup
	for _, p := range transports() {
		all.Go(func() { t.Run(p.name, func(t *testing.T) { f(t, p) }) })
	}
	all.Wait()
}

// testServer is a server that can be dialed.
type testServer struct {
	*Server
	t       testing.TB
	address string
	trust   *tls.Config // nil: no TLS
}

// listenOn opens an address for a server that does not run yet. net/http must serve the listener.
func listenOn(t testing.TB, s *Server, p transport) (*testServer, net.Listener) {
	return listenWrapped(t, s, p, func(l net.Listener) net.Listener { return l })
}

// listenWrapped is listenOn with a wrapper of the listener if there is no event loop.
func listenWrapped(t testing.TB, s *Server, p transport, wrap func(net.Listener) net.Listener) (*testServer, net.Listener) {
	t.Helper()
	pl := &testServer{Server: s, t: t}
	var serve *tls.Config
	if p.secure {
		serve, pl.trust = certificates(t)
	}
	if p.loop {
		s.cfg.IOUring = p.uring
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

// openServer runs a server on a transport until the test ends.
func openServer(t testing.TB, p transport, change func(*Config)) *testServer {
	t.Helper()
	return runServer(t, p, newServer(change))
}

// runServer runs a server and net/http until the test ends.
func runServer(t testing.TB, p transport, s *Server) *testServer {
	t.Helper()
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
func (p *testServer) tryDial() (net.Conn, error) {
	if p.trust != nil {
		return tls.Dial("tcp", p.address, p.trust)
	}
	return net.Dial("tcp", p.address)
}

// dial opens a connection; the test closes it at its end.
func (p *testServer) dial() net.Conn {
	p.t.Helper()
	nc, err := p.tryDial()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	return nc
}

// connect opens a connection and sends the handshake followed by more.
func (p *testServer) connect(more string) *client {
	p.t.Helper()
	return upgradeOn(p.t, p.dial(), more)
}

// tcpConn returns the TCP connection below nc.
func tcpConn(nc net.Conn) *net.TCPConn {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	return nc.(*net.TCPConn)
}

// listen serves the endpoint on 127.0.0.1 with net/http.
func listen(t testing.TB, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveHTTP(t, s, l)
	return l.Addr().String()
}
