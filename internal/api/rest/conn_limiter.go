package rest

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/proxy"
)

// connLimiter bounds the connections of a Server, in total and for each address, so that nobody can
// use up all descriptors. A new connection above a limit makes it close the connection that has
// waited longest for its client: among those of the same address, or among all. If none waits, it
// closes the new connection. An address that holds unused connections therefore loses its own.
// Hijacked connections do not count.
//
// A connection waits while the server needs its client to send a request or to read an answer, and
// no valid token is known for the request.
type connLimiter struct {
	exempt proxy.Trusted // proxies, whose connections serve many clients
	log    *slog.Logger
	panics *atomic.Uint64

	mu         sync.Mutex
	max        int
	perAddress int
	conns      map[net.Conn]*limitedConn
	byAddress  map[netip.Prefix]*addressConns
	waiting    list.List // of *limitedConn that wait, the oldest first
	logged     time.Time // last log record
}

// addressConns counts the connections of one address.
type addressConns struct {
	count   int
	waiting list.List // those of connLimiter.waiting that have this address
}

// limitedConn is a connection that counts against the limits.
type limitedConn struct {
	conn    net.Conn
	key     netip.Prefix  // zero: not counted by address
	address *addressConns // connections with the same key
	elem    *list.Element // in connLimiter.waiting; nil: it does not wait
	same    *list.Element // in addressConns.waiting
}

func newConnLimiter(cfg *ServerConfig, panics *atomic.Uint64) *connLimiter {
	return &connLimiter{
		max: cfg.MaxConns, perAddress: cfg.MaxConnsPerAddress, exempt: cfg.Proxies, log: cfg.Logger, panics: panics,
		conns: make(map[net.Conn]*limitedConn), byAddress: make(map[netip.Prefix]*addressConns),
	}
}

// setLimits replaces the limits. Connections that are already open stay open.
func (l *connLimiter) setLimits(most, perAddress int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.perAddress = most, perAddress
}

// setState is the ConnState hook of an http.Server. It recovers a panic and closes the connection,
// because net/http calls it for new connections on the goroutine that accepts all of them.
func (l *connLimiter) setState(c net.Conn, state http.ConnState) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(l.log, l.panics, v)
			_ = c.Close()
		}
	}()
	if evicted := l.update(c, state); evicted != nil {
		_ = rawConn(evicted).Close() // this ends its goroutine; closing TLS may wait for the peer
	}
}

// update records the state of a connection, and returns the connection that must be closed, or nil.
// A connection still waits while the head of a request arrives; it stops waiting in serve.
func (l *connLimiter) update(c net.Conn, state http.ConnState) (evicted net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.conns[c]; {
	case state == http.StateNew:
		evicted = l.add(c)
	case known == nil:
	case state == http.StateIdle:
		l.stopWaiting(known)
		l.startWaiting(known)
	case state == http.StateHijacked, state == http.StateClosed:
		l.remove(known)
	}
	return evicted
}

// serve wraps h so that a connection stops waiting when its request reaches the handler.
func (l *connLimiter) serve(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.setWaiting(connOf(r), false)
		h.ServeHTTP(w, r)
	})
}

// setWaiting records whether a connection with a request waits for its client. It ignores a
// connection that is not counted.
func (l *connLimiter) setWaiting(c net.Conn, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.conns[c]
	if known == nil {
		return
	}
	l.stopWaiting(known)
	if waits {
		l.startWaiting(known)
	}
}

// add counts a new connection. It returns nil, or the connection that must be closed because a
// limit is exceeded, which may be c.
func (l *connLimiter) add(c net.Conn) (evicted net.Conn) {
	added := &limitedConn{conn: c}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && !l.exempt.Has(a.Addr().Unmap()) {
		added.key = clientaddr.Client(a.Addr())
	}
	full := &l.waiting
	own := l.byAddress[added.key]
	ownFull := added.key.IsValid() && own != nil && own.count >= l.perAddress
	if ownFull {
		full = &own.waiting
	}
	if ownFull || len(l.conns) >= l.max {
		l.logLimit(added.key)
		oldest := full.Front()
		if oldest == nil {
			return c
		}
		old := oldest.Value.(*limitedConn)
		l.remove(old)
		evicted = old.conn
	}
	if added.address = l.byAddress[added.key]; added.address == nil {
		added.address = new(addressConns)
		l.byAddress[added.key] = added.address
	}
	added.address.count++
	l.conns[c] = added
	if !hasRequest(c) {
		l.startWaiting(added)
	}
	return evicted
}

// hasRequest reports whether a new connection has already received a whole request. Such a
// connection does not wait for its client.
func hasRequest(c net.Conn) bool {
	if own, ok := c.(*conn); ok {
		c = own.Conn
	}
	accepted, ok := c.(interface{ HasRequest() bool })
	return ok && accepted.HasRequest()
}

func (l *connLimiter) startWaiting(c *limitedConn) {
	c.elem, c.same = l.waiting.PushBack(c), c.address.waiting.PushBack(c)
}

func (l *connLimiter) stopWaiting(c *limitedConn) {
	if c.elem != nil {
		l.waiting.Remove(c.elem)
		c.address.waiting.Remove(c.same)
		c.elem, c.same = nil, nil
	}
}

func (l *connLimiter) remove(c *limitedConn) {
	l.stopWaiting(c)
	delete(l.conns, c.conn)
	if c.address.count--; c.address.count == 0 {
		delete(l.byAddress, c.key)
	}
}

// logLimit logs that an address has exceeded a limit, at most once a minute for all addresses.
func (l *connLimiter) logLimit(key netip.Prefix) {
	if now := time.Now(); now.Sub(l.logged) >= time.Minute {
		l.logged = now
		l.log.Warn("too many connections for requests, some are hung up on", "address", key)
	}
}
