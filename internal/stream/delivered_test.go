package stream

import (
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestDeliveredIsBounded checks that Delivered names only those instruments of a large pattern of
// which a message waits, in the ring or in a replay. It names no more than requested, and does not
// take the hub's lock, which the test holds.
func TestDeliveredIsBounded(t *testing.T) {
	for _, replays := range []bool{false, true} {
		h := New(Config{})
		list := many(t, h, 500)
		sh := h.NewShard(func(bool) {})
		c := newClient(t, sh)
		_, start := h.Position()
		if !replays {
			subscribe(t, c.sub, wire.Trades, "*|M|*")
		}
		for round := range 2 {
			for i, hd := range list {
				if round == 0 || i < 100 {
					publish(t, h, trade(hd, round))
				}
			}
			if round == 0 && !replays {
				turn(sh)
				c.read(1<<20, false)
			}
		}
		turn(sh)
		if replays {
			c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: start}})
			c.sub.Gather(nil, 1, wire.JSON, false)
		}
		ask := func(most int) (named map[string]uint64) {
			named = map[string]uint64{}
			h.mu.Lock()
			defer h.mu.Unlock()
			if n := c.sub.Delivered(wire.Trades, most, func(id market.InstrumentID, n uint64) { named[id.String()] = n }); n != len(named) {
				t.Errorf("says %d of %d", n, len(named))
			}
			return named
		}
		want, first := 100, h.handles[list[0]].id.String()
		if replays {
			want = 1 // no message of the others was sent
		}
		if got := ask(1000); len(got) != want || got[first] != 1 {
			t.Errorf("replays %v: named %d, %d of %s", replays, len(got), got[first], first)
		}
		if got := ask(7); len(got) != min(7, want) {
			t.Errorf("replays %v: named %d", replays, len(got))
		}
	}
}
