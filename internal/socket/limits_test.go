package socket

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestGate(t *testing.T) {
	begin := time.Unix(1e9, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	g := newGate(20, 200)
	for i := range 200 {
		if _, ok := g.pass(a, begin); !ok {
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
		{a, 100 * time.Millisecond, false, 150 * time.Millisecond}, // a clock read before another's
	}
	for i, s := range steps {
		wait, ok := g.pass(s.from, begin.Add(s.at))
		if wait != s.wait || ok != s.ok {
			t.Errorf("step %d: %v %v, want %v %v", i, wait, ok, s.wait, s.ok)
		}
	}
	passed := 0
	for range 1000 {
		if _, ok := g.pass(a, begin.Add(time.Hour)); ok {
			passed++
		}
	}
	if passed != 200 {
		t.Errorf("after an hour %d pass, want the burst", passed)
	}
}

// TestGateIsBounded shows that a crowd of addresses does not fill memory.
func TestGateIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	g := newGate(20, 200)
	for i := range uint32(3 * maxTracked) {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if _, ok := g.pass(addr, now); !ok {
			t.Fatalf("address %d refused", i)
		}
		now = now.Add(time.Microsecond)
	}
	if n := len(g.full); n > maxTracked {
		t.Errorf("%d addresses kept", n)
	}
	now = now.Add(time.Minute)
	addr := netip.MustParseAddr("192.0.2.1")
	g.pass(addr, now)
	if _, kept := g.full[addr]; !kept {
		t.Error("a new address is not counted though the others are done")
	}
}

func TestLimitKey(t *testing.T) {
	cases := []struct{ address, key string }{
		{"192.0.2.1", "192.0.2.1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"2001:db8:1:2::", "2001:db8:1:2::"},
		{"fe80::1%eth0", "fe80::"},
		{"::1", "::"},
	}
	for _, c := range cases {
		if got := limitKey(netip.MustParseAddr(c.address)); got != netip.MustParseAddr(c.key) {
			t.Errorf("%s counts as %s, want %s", c.address, got, c.key)
		}
	}
	if got := limitKey(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}

// TestTimers compares the heap with a plain list.
func TestTimers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Unix(1e9, 0)
	var heap timers
	conns := make([]*conn, 50)
	for i := range conns {
		conns[i] = &conn{slot: noSlot}
	}
	want := map[*conn]time.Time{}
	for step := range 20_000 {
		c := conns[r.IntN(len(conns))]
		deadline := begin.Add(time.Duration(r.IntN(1000)))
		if r.IntN(4) == 0 {
			deadline = time.Time{}
		}
		heap.set(c, deadline)
		if want[c] = deadline; deadline.IsZero() {
			delete(want, c)
		}
		if step%10 == 0 {
			now := begin.Add(time.Duration(r.IntN(300)))
			for due := heap.due(now); due != nil; due = heap.due(now) {
				if deadline, ok := want[due]; !ok || deadline.After(now) {
					t.Fatalf("step %d: a connection came due at %v, before %v", step, now, deadline)
				}
				delete(want, due)
			}
			for _, deadline := range want {
				if !deadline.After(now) {
					t.Fatalf("step %d: a deadline of %v was missed at %v", step, deadline, now)
				}
			}
		}
		next, ok := heap.next()
		if ok != (len(want) > 0) || len(heap) != len(want) {
			t.Fatalf("step %d: %d in the heap, want %d", step, len(heap), len(want))
		}
		for _, deadline := range want {
			if deadline.Before(next) {
				t.Fatalf("step %d: next is %v, but there is %v", step, next, deadline)
			}
		}
		if i := slices.IndexFunc(heap, func(c *conn) bool { return heap[c.slot] != c }); i >= 0 {
			t.Fatalf("step %d: place %d is wrong", step, i)
		}
	}
}
