package socket

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

func TestHandshakeLimiter(t *testing.T) {
	begin := time.Unix(1e9, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	g := newHandshakeLimiter(20, 200)
	for i := range 200 {
		if _, ok := g.Allow(addressKey(a), begin); !ok {
			t.Fatalf("handshake %d of the burst refused", i+1)
		}
	}
	steps := []struct {
		from netip.Addr
		at   time.Duration
		ok   bool
		wait time.Duration
	}{
		{a, 0, false, 50 * time.Millisecond},
		{b, 0, true, 0},
		{a, 30 * time.Millisecond, false, 20 * time.Millisecond},
		{a, 50 * time.Millisecond, true, 0},
		{a, 50 * time.Millisecond, false, 50 * time.Millisecond},
		{a, 200 * time.Millisecond, true, 0},
		{a, 200 * time.Millisecond, true, 0},
		{a, 200 * time.Millisecond, true, 0},
		{a, 200 * time.Millisecond, false, 50 * time.Millisecond},
		{a, 100 * time.Millisecond, false, 50 * time.Millisecond}, // a clock that was set back
	}
	for i, s := range steps {
		wait, ok := g.Allow(addressKey(s.from), begin.Add(s.at))
		if wait != s.wait || ok != s.ok {
			t.Errorf("step %d: %v %v, want %v %v", i, wait, ok, s.wait, s.ok)
		}
	}
	passed := 0
	for range 1000 {
		if _, ok := g.Allow(addressKey(a), begin.Add(time.Hour)); ok {
			passed++
		}
	}
	if passed != 200 {
		t.Errorf("after an hour %d pass, want the burst", passed)
	}
}

// TestHandshakeLimiterIsBounded checks that many addresses do not fill memory.
func TestHandshakeLimiterIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	g := newHandshakeLimiter(20, 200)
	for i := range uint32(3 * maxTracked) {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if _, ok := g.Allow(addressKey(addr), now); !ok {
			t.Fatalf("address %d refused", i)
		}
		now = now.Add(time.Microsecond)
	}
	if n := g.limiter.Len(); n > maxTracked {
		t.Errorf("%d addresses kept", n)
	}
	addr := netip.MustParseAddr("192.0.2.1")
	for range 200 {
		g.Allow(addressKey(addr), now)
	}
	if _, ok := g.Allow(addressKey(addr), now); ok {
		t.Error("a new address is not counted")
	}
}

// TestHandoffsOfAnAddress checks that an address that connects faster than net/http accepts uses
// its part of the queue, except for requests with a token that was minted here. Others have the
// rest.
func TestHandoffsOfAnAddress(t *testing.T) {
	s := newServer(func(c *Config) { c.Env.Minted = func(token string) (string, bool) { return "login", token == "good" } })
	own, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	pass := func(key netip.Prefix, head string) bool {
		return s.requests.handOff(handoff{fd: noFD, key: key}, func() bool { return s.hasMintedToken([]byte(head)) })
	}
	for i := range maxHandoffsPerAddress {
		if !pass(own, "GET / HTTP/1.1\r\n\r\n") {
			t.Fatalf("connection %d of the address", i)
		}
	}
	for _, x := range []struct {
		key  netip.Prefix
		head string
		want bool
	}{
		{own, "GET / HTTP/1.1\r\n\r\n", false},
		{own, "GET / HTTP/1.1\r\nAuthorization: Bearer bad\r\n\r\n", false},
		{own, "POST / HTTP/1.1\r\n\r\nAuthorization: Bearer good\r\n", false}, // in the body
		{own, "GET / HTTP/1.1\r\nHost: x\r\nauthorization:  bearer good \r\nA: b\r\n\r\n", true},
		{other, "GET / HTTP/1.1\r\n\r\n", true},
		{netip.Prefix{}, "a proxy", true},
	} {
		if got := pass(x.key, x.head); got != x.want {
			t.Errorf("%v %q: %v", x.key, x.head, got)
		}
	}
	if err := s.requests.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.requests.queued) != 0 {
		t.Errorf("still counted: %v", s.requests.queued)
	}
}

// TestHandshakesOfNeighbours checks that handshakes without a token, and invalid ones, do not use
// up those of clients whose tokens are known or minted here, and that each login has a limit too.
func TestHandshakesOfNeighbours(t *testing.T) { forEachTransport(t, testHandshakesOfNeighbours) }

func testHandshakesOfNeighbours(t *testing.T, tr transport) {
	s := openServer(t, tr, func(c *Config) {
		c.HandshakeBurst, c.HandshakeRate = 2, 0.01
		c.Env.Known = func(token string) (*session.Identity, *wire.Fault, bool) {
			if token != "known" {
				return nil, nil, false
			}
			id, fault := verify(t.Context(), "ana")
			id.Family = "of known"
			return id, fault, true
		}
		c.Env.Minted = func(token string) (string, bool) { return "of " + token, token == "ana" }
	})
	status := func(handshake string) int {
		r, _ := s.ask(t, handshake+"\r\n")
		return r.StatusCode
	}
	invalid := strings.Replace(goodHandshake, "Version: 13", "Version: 7", 1)
	for _, x := range []struct {
		what, handshake string
		want            []int
	}{
		{"invalid", invalid, []int{426, 426, 429}},
		{"without a token", goodHandshake, []int{101, 101}},
		{"with a known token", goodHandshake + "Authorization: Bearer known\r\n", []int{101}},
		{"with a minted token", goodHandshake + "Authorization: Bearer ana\r\n", []int{101, 101, 429}},
		{"with another token", goodHandshake + "Authorization: Bearer eve\r\n", []int{429}},
	} {
		for i, want := range x.want {
			if got := status(x.handshake); got != want {
				t.Errorf("%s, handshake %d: %d, want %d", x.what, i+1, got, want)
			}
		}
	}
}
