package socket

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"sync"
)

// maxHandoffs bounds the connections that wait for net/http, and maxHandoffsPerAddress those of one
// address, so that it does not keep others out by connecting faster than net/http accepts. An
// address that opens all the connections that it may have by default stays below it.
const (
	maxHandoffs           = 4096
	maxHandoffsPerAddress = 1280
)

// httpListener is the listener of connections that are not for the stream.
type httpListener struct {
	queue chan handoff
	done  chan struct{}
	once  sync.Once
	addr  net.Addr

	kernel *kernel

	mu     sync.Mutex
	queued map[netip.Prefix]int // connections in queue, by client address
}

// handoff is a connection that waits for net/http.
type handoff struct {
	fd    int32
	peer  netip.AddrPort
	key   netip.Prefix // client address; zero: a proxy
	tls   *tlsConn     // nil: no TLS
	early []byte       // input that was read
}

func newHTTPListener(k *kernel) *httpListener {
	return &httpListener{kernel: k, queue: make(chan handoff, maxHandoffs), done: make(chan struct{}), queued: make(map[netip.Prefix]int)}
}

// Requests returns the listener of connections that [Server.Listen] has accepted and that do not
// request the stream in the usual form. An http.Server with this Server as the handler of the
// stream must serve it. Closing it closes the connections that wait.
func (s *Server) Requests() net.Listener { return s.requests }

// TLSListener returns a listener of TLS connections that goroutines serve, with the limits of
// [Server.Listen].
func (s *Server) TLSListener(l net.Listener, config *tls.Config) net.Listener {
	return s.tlsLimiter.Listen(l, config)
}

// handOff queues a connection. It returns false if the queue is full or closed, or has too many of
// the address, unless exempt returns true for this one.
func (l *httpListener) handOff(h handoff, exempt func() bool) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	if l.count(h.key, 1) > maxHandoffsPerAddress && h.key.IsValid() && !exempt() {
		l.count(h.key, -1)
		return false
	}
	select {
	case l.queue <- h:
	default:
		l.count(h.key, -1)
		return false
	}
	select {
	case <-l.done: // closed and emptied in between
		l.closeQueued()
	default:
	}
	return true
}

// count adds n to the queued connections of an address and returns their number.
func (l *httpListener) count(key netip.Prefix, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n += l.queued[key]
	if l.queued[key] = n; n == 0 {
		delete(l.queued, key)
	}
	return n
}

// Accept returns the next connection.
func (l *httpListener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.done:
			return nil, net.ErrClosed
		case h := <-l.queue:
			l.count(h.key, -1)
			if nc, err := h.open(l.kernel); err == nil { // else no descriptors are left
				return &httpConn{Conn: nc, peer: h.peer, early: h.early, hasRequest: hasRequest(h.early)}, nil
			}
		}
	}
}

// open creates the net.Conn of a socket. It takes six system calls, so the shard does not do it.
func (h *handoff) open(k *kernel) (net.Conn, error) {
	f := os.NewFile(uintptr(h.fd), "")
	defer func() { _ = f.Close() }() // nc has its own descriptor
	if errno := k.inject(callDuplicate, h.fd); errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	nc, err := net.FileConn(f)
	if err != nil || h.tls == nil {
		return nc, err
	}
	h.tls.transport.Conn, h.tls.transport.handedOff = nc, true
	return h.tls.conn, nil
}

// Close implements net.Listener.
func (l *httpListener) Close() error {
	l.once.Do(func() { close(l.done) })
	l.closeQueued()
	return nil
}

// closeQueued closes the connections in the queue.
func (l *httpListener) closeQueued() {
	for {
		select {
		case h := <-l.queue:
			l.count(h.key, -1)
			l.kernel.close(h.fd, false)
		default:
			return
		}
	}
}

// Addr implements net.Listener. It returns nil before Listen.
func (l *httpListener) Addr() net.Addr { return l.addr }

// httpConn is a net.Conn that returns the input that was read before, then that of its socket. It
// has the address it was accepted with, which a socket that was reset no longer knows.
type httpConn struct {
	net.Conn
	peer       netip.AddrPort
	early      []byte
	hasRequest bool // early began with a whole request
}

// HasRequest reports whether the connection was accepted with a whole request.
func (c *httpConn) HasRequest() bool { return c.hasRequest }

// RemoteAddr implements net.Conn.
func (c *httpConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// Read implements net.Conn.
func (c *httpConn) Read(b []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil
	}
	return n, nil
}

// NetConn returns the connection below it, whose options may be set.
func (c *httpConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending half. net/http calls it before it closes a connection that is still
// sending.
func (c *httpConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
