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

// guests bound the connections of a Server, of one address and in all, so that nobody takes all descriptors by
// holding some for as long as each may be held. Of one address, what comes beyond the bound is hung up on. In all, the one
// that has waited longest for a request makes room, and the new one goes only if all are at work. A connection that
// was hijacked is its new owner's to count.
type guests struct {
	most, each int
	exempt     proxy.Trusted // bring many clients
	log        *slog.Logger
	panics     *atomic.Uint64

	mu      sync.Mutex
	in      map[net.Conn]*guest
	of      map[netip.Prefix]int
	waiting list.List // of *guest, who waited longest first
	told    time.Time // of the last line in the log
}

// A guest is a connection.
type guest struct {
	conn net.Conn
	key  netip.Prefix  // zero: not counted by address
	seat *list.Element // nil: at work
}

func newGuests(cfg *ServerConfig, panics *atomic.Uint64) *guests {
	return &guests{
		most: cfg.MaxConns, each: cfg.MaxConnsPerAddress, exempt: cfg.Proxies, log: cfg.Logger, panics: panics,
		in: make(map[net.Conn]*guest), of: make(map[netip.Prefix]int),
	}
}

// follow is an http.Server's ConnState. Of a new connection it is told on the goroutine that
// accepts all of them, so that a panic ends the connection.
func (g *guests) follow(c net.Conn, state http.ConnState) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(g.log, g.panics, v)
			_ = c.Close()
		}
	}()
	if over := g.change(c, state); over != nil {
		_ = over.Close() // its goroutine ends by that
	}
}

// change takes note of a connection's state, and says which has to go.
func (g *guests) change(c net.Conn, state http.ConnState) (over net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch at := g.in[c]; {
	case state == http.StateNew:
		over = g.enter(c)
	case at == nil:
	case state == http.StateActive:
		g.rise(at)
	case state == http.StateIdle:
		g.rise(at)
		at.seat = g.waiting.PushBack(at)
	case state == http.StateHijacked, state == http.StateClosed:
		g.leave(at)
	}
	return over
}

// enter counts a connection, and says which has to go for it, perhaps itself.
func (g *guests) enter(c net.Conn) (over net.Conn) {
	at := &guest{conn: c}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && !g.exempt.Has(a.Addr().Unmap()) {
		at.key = clientaddr.Client(a.Addr())
	}
	if at.key.IsValid() && g.of[at.key] >= g.each {
		g.tell(at.key)
		return c
	}
	if len(g.in) >= g.most {
		g.tell(at.key)
		oldest := g.waiting.Front()
		if oldest == nil {
			return c
		}
		gone := oldest.Value.(*guest)
		g.leave(gone)
		over = gone.conn
	}
	g.in[c] = at
	g.of[at.key]++
	at.seat = g.waiting.PushBack(at)
	return over
}

func (g *guests) rise(at *guest) {
	if at.seat != nil {
		g.waiting.Remove(at.seat)
		at.seat = nil
	}
}

func (g *guests) leave(at *guest) {
	g.rise(at)
	delete(g.in, at.conn)
	if g.of[at.key]--; g.of[at.key] == 0 {
		delete(g.of, at.key)
	}
}

// tell logs who it was that came when there were too many, once a minute.
func (g *guests) tell(key netip.Prefix) {
	if now := time.Now(); now.Sub(g.told) >= time.Minute {
		g.told = now
		g.log.Warn("too many connections for requests, some are hung up on", keyAddress, key)
	}
}
