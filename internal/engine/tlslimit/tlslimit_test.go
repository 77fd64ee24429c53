package tlslimit

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/proxy"
)

// TestThreat17OldestGoes checks that a new connection takes the place of the oldest one of its
// address that still waits, and of no other address.
func TestThreat17OldestGoes(t *testing.T) {
	now := time.Unix(1, 0)
	l := New(2, 1, 5, proxy.Trusted{netip.MustParsePrefix("127.0.0.9/32")})
	var evicted []string
	begin := func(from, name string) *Waiting {
		t.Helper()
		w, ok := l.Begin(netip.MustParseAddr(from), now, func() { evicted = append(evicted, name) })
		if !ok {
			t.Fatalf("%s was refused", name)
		}
		return w
	}
	check := func(want ...string) {
		t.Helper()
		if !slices.Equal(evicted, want) {
			t.Fatalf("evicted: %q, want %q", evicted, want)
		}
	}
	other := begin("127.0.0.3", "other")
	a, b := begin("127.0.0.2", "a"), begin("127.0.0.2", "b")
	check()
	c := begin("127.0.0.2", "c")
	check("a")
	l.End(a) // has no place any more
	l.End(b)
	d := begin("127.0.0.2", "d")
	check("a")
	e := begin("127.0.0.2", "e")
	check("a", "c")
	if _, ok := l.Begin(netip.MustParseAddr("127.0.0.2"), now, nil); ok {
		t.Error("more than the burst")
	}
	for range 10 {
		if w := begin("127.0.0.9", "proxy"); w != nil {
			t.Error("a proxy is counted")
		}
	}
	check("a", "c")
	for _, w := range []*Waiting{other, c, d, e, nil} {
		l.End(w)
	}
	if len(l.byAddress) != 0 {
		t.Errorf("%d addresses are left over", len(l.byAddress))
	}
}

// TestTotal checks that handshakes which need many bytes have a limit together, and usual ones do
// not wait for them.
func TestTotal(t *testing.T) {
	l := New(1, 1, 1, nil)
	l.read.Store(MaxTotal)
	h := l.Handshake()
	h.Add(FreeRead - 1)
	if h.Left() == 0 {
		t.Error("a usual handshake waits for large ones")
	}
	h.Add(1)
	if h.Left() != 0 {
		t.Error("a large handshake may go on above the limit")
	}
	h.End()
	l.read.Store(0)
	h = l.Handshake()
	h.Add(FreeRead)
	if left := h.Left(); left != MaxRead-FreeRead {
		t.Errorf("%d bytes left", left)
	}
	h.Add(MaxRead - FreeRead)
	if h.Left() != 0 {
		t.Error("a handshake may be of any size")
	}
	h.End()
	if l.Pending() != 0 {
		t.Errorf("%d bytes are left over", l.Pending())
	}
}
