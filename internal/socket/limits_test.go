package socket

import (
	"net/netip"
	"testing"
	"time"
)

func TestHandshakeLimiter(t *testing.T) {
	begin := time.Unix(1e9, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	g := newHandshakeLimiter(20, 200)
	for i := range 200 {
		if _, ok := g.Allow(a, begin); !ok {
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
		wait, ok := g.Allow(s.from, begin.Add(s.at))
		if wait != s.wait || ok != s.ok {
			t.Errorf("step %d: %v %v, want %v %v", i, wait, ok, s.wait, s.ok)
		}
	}
	passed := 0
	for range 1000 {
		if _, ok := g.Allow(a, begin.Add(time.Hour)); ok {
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
		if _, ok := g.Allow(addr, now); !ok {
			t.Fatalf("address %d refused", i)
		}
		now = now.Add(time.Microsecond)
	}
	if n := g.limiter.Len(); n > maxTracked {
		t.Errorf("%d addresses kept", n)
	}
	addr := netip.MustParseAddr("192.0.2.1")
	for range 200 {
		g.Allow(addr, now)
	}
	if _, ok := g.Allow(addr, now); ok {
		t.Error("a new address is not counted")
	}
}
