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

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/proxy"
)

// connLimiter bounds the connections of a Server, of one address and in total, so that nobody can
// hold all descriptors. Above the limit of an address it closes the new connection. Above the total
// it closes the connection that has waited longest for a request, or the new one if all are active.
// A hijacked connection is not counted.
type connLimiter struct {
	exempt proxy.Trusted // proxies, which bring many clients
	log    *slog.Logger
	panics *atomic.Uint64

	mu         sync.Mutex
	max        int
	perAddress int
	conns      map[net.Conn]*limitedConn
	byAddress  map[netip.Prefix]int
	waiting    list.List // of *limitedConn without a request, the oldest first
	logged     time.Time // last log record
}

// limitedConn is a connection that is counted.
type limitedConn struct {
	conn net.Conn
	key  netip.Prefix  // zero: not counted by address
	elem *list.Element // in waiting; nil: it has a request
}

func newConnLimiter(cfg *ServerConfig, panics *atomic.Uint64) *connLimiter {
	return &connLimiter{
		max: cfg.MaxConns, perAddress: cfg.MaxConnsPerAddress, exempt: cfg.Proxies, log: cfg.Logger, panics: panics,
		conns: make(map[net.Conn]*limitedConn), byAddress: make(map[netip.Prefix]int),
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
		_ = evicted.Close() // which ends its goroutine
	}
}

// update records the state of a connection, and returns the connection to close, if any.
func (l *connLimiter) update(c net.Conn, state http.ConnState) (evicted net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.conns[c]; {
	case state == http.StateNew:
		evicted = l.add(c)
	case known == nil:
	case state == http.StateActive:
		l.stopWaiting(known)
	case state == http.StateIdle:
		l.stopWaiting(known)
		known.elem = l.waiting.PushBack(known)
	case state == http.StateHijacked, state == http.StateClosed:
		l.remove(known)
	}
	return evicted
}

// add counts a connection, and returns the one to close for it, which may be c.
func (l *connLimiter) add(c net.Conn) (evicted net.Conn) {
	added := &limitedConn{conn: c}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && !l.exempt.Has(a.Addr().Unmap()) {
		added.key = clientaddr.Client(a.Addr())
	}
	if added.key.IsValid() && l.byAddress[added.key] >= l.perAddress {
		l.logLimit(added.key)
		return c
	}
	if len(l.conns) >= l.max {
		l.logLimit(added.key)
		oldest := l.waiting.Front()
		if oldest == nil {
			return c
		}
		old := oldest.Value.(*limitedConn)
		l.remove(old)
		evicted = old.conn
	}
	l.conns[c] = added
	l.byAddress[added.key]++
	added.elem = l.waiting.PushBack(added)
	return evicted
}

func (l *connLimiter) stopWaiting(c *limitedConn) {
	if c.elem != nil {
		l.waiting.Remove(c.elem)
		c.elem = nil
	}
}

func (l *connLimiter) remove(c *limitedConn) {
	l.stopWaiting(c)
	delete(l.conns, c.conn)
	if l.byAddress[c.key]--; l.byAddress[c.key] == 0 {
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
