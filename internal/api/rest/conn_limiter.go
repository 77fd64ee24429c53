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

// connLimiter bounds the connections of a Server, of one address and in total, so that nobody can
// hold all descriptors. Above a limit it closes the connection that has waited longest for its
// client, of the address or of all, or the new one if none waits. So an address that keeps
// connections without using them closes its own. A hijacked connection is not counted.
//
// A connection waits while the server needs its client to send a request or to read an answer, and
// no token is known that permits the request.
type connLimiter struct {
	exempt proxy.Trusted // proxies, which bring many clients
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

// addressConns are the connections of one address.
type addressConns struct {
	count   int
	waiting list.List // the part of connLimiter.waiting
}

// limitedConn is a connection that is counted.
type limitedConn struct {
	conn    net.Conn
	key     netip.Prefix  // zero: not counted by address
	address *addressConns // of key
	elem    *list.Element // in connLimiter.waiting; nil: it does not wait
	same    *list.Element // in addressConns.waiting
}

func newConnLimiter(cfg *ServerConfig, panics *atomic.Uint64) *connLimiter {
	return &connLimiter{
		max: cfg.MaxConns, perAddress: cfg.MaxConnsPerAddress, exempt: cfg.Proxies, log: cfg.Logger, panics: panics,
		conns: make(map[net.Conn]*limitedConn), byAddress: make(map[netip.Prefix]*addressConns),
	}
}

// setLimits replaces the limits. Connections above them stay open.
func (l *connLimiter) setLimits(most, perAddress int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.perAddress = most, perAddress
}

// setState is the ConnState of an http.Server. A panic ends the connection; net/http calls it for
// new connections on the goroutine that accepts all of them.
func (l *connLimiter) setState(c net.Conn, state http.ConnState) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(l.log, l.panics, v)
			_ = c.Close()
		}
	}()
	if evicted := l.update(c, state); evicted != nil {
		_ = rawConn(evicted).Close() // which ends its goroutine; a close of TLS may wait for the peer
	}
}

// update records the state of a connection, and returns the connection to close, if any. A
// connection is active from the first byte of a request on, but it waits until serve has the whole
// head.
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

// serve returns h, whose connections do not wait unless setWaiting says so.
func (l *connLimiter) serve(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.setWaiting(connOf(r), false)
		h.ServeHTTP(w, r)
	})
}

// setWaiting records whether a connection with a request waits for its client.
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

// add counts a connection, and returns the one to close for it, which may be c.
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

// hasRequest reports whether a new connection already has a whole request, so that it waits for the
// server and not for its client.
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

// logLimit logs the address of a connection above a limit, once a minute.
func (l *connLimiter) logLimit(key netip.Prefix) {
	if now := time.Now(); now.Sub(l.logged) >= time.Minute {
		l.logged = now
		l.log.Warn("too many connections for requests, some are hung up on", "address", key)
	}
}
