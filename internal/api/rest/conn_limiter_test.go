package rest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ruedahq/rueda/internal/base/proxy"
)

// visitor is a connection of an address.
type visitor struct {
	net.Conn
	from   string
	closed bool
	asks   bool // was accepted with a whole request
}

func (v *visitor) HasRequest() bool { return v.asks }

func (v *visitor) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(v.from))
}
func (v *visitor) Close() error { v.closed = true; return nil }

func newTestLimiter(most, each int, log *bytes.Buffer) *connLimiter {
	cfg := ServerConfig{MaxConns: most, MaxConnsPerAddress: each, Proxies: proxy.Trusted{netip.MustParsePrefix("10.0.0.0/8")}, Logger: slog.New(slog.NewTextHandler(log, nil))}
	return newConnLimiter(&cfg, new(atomic.Uint64))
}

// come opens connections from addresses; pattern has a placeholder for their number.
func (l *connLimiter) come(n int, pattern string) (all []*visitor) {
	for i := range n {
		from := pattern
		if strings.Contains(pattern, "%") {
			from = fmt.Sprintf(pattern, i)
		}
		v := &visitor{from: from}
		l.setState(v, http.StateNew)
		all = append(all, v)
	}
	return all
}

// end does what net/http does with closed connections.
func (l *connLimiter) end(all []*visitor) {
	for _, v := range all {
		l.setState(v, http.StateClosed)
	}
}

func closed(all []*visitor) (n int) {
	for _, v := range all {
		if v.closed {
			n++
		}
	}
	return n
}

// TestConnLimiterOfOneAddress checks the share of one address or /64: above it the oldest of the
// address are closed. Proxies and other addresses have their own. A closed connection becomes
// available again.
func TestConnLimiterOfOneAddress(t *testing.T) {
	var log bytes.Buffer
	g := newTestLimiter(1000, 10, &log)
	for _, c := range []struct {
		pattern string
		over    int
	}{
		{"192.0.2.1:%d", 20}, {"[2001:db8::%x]:80", 20}, {"198.51.100.%d:80", 0}, {"10.1.1.1:%d", 0}, {"[::ffff:10.1.1.1]:%d", 0},
	} {
		all := g.come(30, c.pattern)
		if n := closed(all); n != c.over || closed(all[:c.over]) != c.over {
			t.Errorf("%s: %d of 30 were hung up on, want the %d oldest", c.pattern, n, c.over)
		}
		for _, v := range all[25:] { // hijacked connections are not counted
			g.setState(v, http.StateHijacked)
		}
		g.come(5, c.pattern)
		if n := closed(all); n != c.over {
			t.Errorf("%s: five places were given back, and not five were taken", c.pattern)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log: %s", n, &log)
	}
}

// TestConnLimiterKeepsNewRequests checks that an address does not lose connections that were
// accepted with their request, before it is served, to later ones that have been answered.
func TestConnLimiterKeepsNewRequests(t *testing.T) {
	var log bytes.Buffer
	g := newTestLimiter(1000, 3, &log)
	first := &visitor{from: "192.0.2.1:1", asks: true}
	g.setState(first, http.StateNew)
	idle := g.come(2, "192.0.2.1:2%d")
	for range 20 {
		newest := &visitor{from: "192.0.2.1:3", asks: true}
		g.setState(newest, http.StateNew)
		if first.closed || newest.closed {
			t.Fatal("a connection with a request was closed")
		}
		g.setState(newest, http.StateIdle) // it was answered
	}
	if closed(idle) != 2 {
		t.Error("older connections without a request were kept")
	}
	if hasRequest(&conn{Conn: idle[0]}) || !hasRequest(&conn{Conn: first}) {
		t.Error("the request of a connection is not seen")
	}
}

// TestConnLimiterKeepsRequests checks that an address does not lose connections whose requests are
// served, unless they wait for their client. If all are served, the new one is closed.
func TestConnLimiterKeepsRequests(t *testing.T) {
	var log bytes.Buffer
	g := newTestLimiter(1000, 4, &log)
	all := g.come(4, "192.0.2.1:%d")
	for _, v := range all {
		g.setState(v, http.StateActive) // the first byte of a request
	}
	g.setWaiting(all[0], false)
	g.setWaiting(all[1], false)
	g.setWaiting(all[1], true) // for the rest of its body
	if newer := g.come(2, "192.0.2.1:1%d"); closed(newer) != 0 || all[0].closed || all[1].closed || !all[2].closed || !all[3].closed {
		t.Error("the two that had sent the first byte of a request were not closed")
	} else {
		g.setWaiting(newer[0], false)
		g.setWaiting(newer[1], false)
	}
	if g.come(1, "192.0.2.1:20"); !all[1].closed || all[0].closed {
		t.Error("the one that waited for its body was not closed")
	}
	for c := range g.conns {
		g.setWaiting(c, false)
	}
	if v := g.come(1, "192.0.2.1:30"); !v[0].closed || all[0].closed {
		t.Error("all are served, and one more was taken")
	}
	if v := g.come(1, "192.0.2.2:30"); v[0].closed {
		t.Error("another address was refused")
	}
}

// TestConnLimiterInTotal checks that above the total limit the connection that has been idle
// longest is closed. Active ones stay.
func TestConnLimiterInTotal(t *testing.T) {
	var log bytes.Buffer
	g := newTestLimiter(10, 1000, &log)
	all := g.come(10, "192.0.2.%d:80")
	for _, v := range all[:5] {
		g.setWaiting(v, false)
	}
	g.setState(all[0], http.StateIdle) // now it has waited shorter than the last five
	if newer := g.come(5, "198.51.100.%d:80"); closed(newer) != 0 || closed(all[:5]) != 0 || closed(all[5:]) != 5 {
		t.Errorf("closed: %d new, %d at work, %d idle", closed(newer), closed(all[:5]), closed(all[5:]))
	} else {
		for _, v := range newer {
			g.setWaiting(v, false)
		}
	}
	g.end(all[5:]) // reported late, and counted once
	if g.come(1, "203.0.113.1:80"); !all[0].closed {
		t.Error("who had become idle did not make room")
	}
	g.setState(all[0], http.StateClosed)
	last := g.conns
	for c := range last {
		g.setWaiting(c, false)
	}
	if v := g.come(1, "203.0.113.2:80"); !v[0].closed {
		t.Error("all are at work, and one more was taken")
	}
	for c := range last {
		g.setState(c, http.StateClosed)
	}
	if len(g.conns) != 0 || len(g.byAddress) != 0 || g.waiting.Len() != 0 {
		t.Errorf("left: %d, %d, %d", len(g.conns), len(g.byAddress), g.waiting.Len())
	}
}
