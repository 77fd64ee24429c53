package tlslimit

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// Listen returns a listener of TLS connections that goroutines serve. Where an address has too many
// in their handshake, its oldest is closed. Closing the listener closes inner.
func (l *Limiter) Listen(inner net.Listener, config *tls.Config) net.Listener {
	return &listener{Listener: inner, limiter: l, config: config}
}

type listener struct {
	net.Listener
	limiter *Limiter
	config  *tls.Config
}

// Accept returns the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		t := &transport{Conn: c, limiter: l.limiter, read: l.limiter.Handshake()}
		from := c.RemoteAddr()
		ok := from != nil // otherwise it was reset
		if at, tcp := from.(*net.TCPAddr); tcp {
			t.waiting, ok = l.limiter.Begin(at.AddrPort().Addr().Unmap(), time.Now(), t.evict)
		}
		if !ok {
			_ = c.Close()
			continue
		}
		return &conn{Conn: tls.Server(t, l.config), transport: t}, nil
	}
}

// conn is a TLS connection whose handshake is limited.
type conn struct {
	*tls.Conn
	transport *transport
}

// Read implements net.Conn. The first call does the handshake.
func (c *conn) Read(b []byte) (int, error) {
	if !c.transport.finished() {
		err := c.Handshake() //nolint:noctx // the server has set a deadline
		if c.transport.finish(); err != nil {
			if answer := Plain(err); answer != nil {
				_, _ = c.transport.Conn.Write(answer) // the client may be gone
			}
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.transport.finish()
	return c.Conn.Close()
}

// transport is the connection below a conn.
type transport struct {
	net.Conn
	limiter *Limiter
	waiting *Waiting // nil: not counted

	mu   sync.Mutex // guards what follows: a server may close a connection while it is read
	read Handshake
	done bool
}

// errTooLarge ends a TLS handshake that needs too many bytes.
var errTooLarge = errors.New("the TLS handshake is too large")

// NetConn returns the connection as it was accepted.
func (t *transport) NetConn() net.Conn { return t.Conn }

// Read implements net.Conn.
func (t *transport) Read(b []byte) (int, error) {
	t.mu.Lock()
	if !t.done {
		if b = b[:min(len(b), t.read.Left())]; len(b) == 0 {
			t.mu.Unlock()
			return 0, errTooLarge
		}
	}
	t.mu.Unlock()
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.read.Add(n)
	}
	return n, err
}

func (t *transport) finished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// finish ends the count of the handshake.
func (t *transport) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	t.read.End()
	t.limiter.End(t.waiting)
}

// evict closes a connection that is in its handshake.
func (t *transport) evict() {
	if !t.finished() {
		_ = t.Conn.Close()
	}
}
