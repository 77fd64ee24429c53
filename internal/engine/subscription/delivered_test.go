package subscription_test

import (
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestDeliveredIsBounded checks that Delivered names only those instruments of a large pattern of
// which a message waits, in the ring or in a replay. It names no more than requested, and does not
// take the hub's lock, which the test holds.
func TestDeliveredIsBounded(t *testing.T) {
	for _, replays := range []bool{false, true} {
		h := hub.New(hub.Config{})
		list := many(t, h, 500)
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		_, start := h.Position()
		if !replays {
			streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|*")
		}
		for round := range 2 {
			for i, hd := range list {
				if round == 0 || i < 100 {
					streamtest.Publish(t, h, streamtest.Trade(hd, round))
				}
			}
			if round == 0 && !replays {
				streamtest.Turn(sh)
				c.Read(1<<20, false)
			}
		}
		streamtest.Turn(sh)
		if replays {
			c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: start}})
			c.Sub.Gather(nil, 1, wire.JSON, false)
		}
		ask := func(most int) (named map[string]uint64) {
			named = map[string]uint64{}
			sh.Port().Lock()
			defer sh.Port().Unlock()
			if n := c.Sub.Delivered(wire.Trades, most, func(id market.InstrumentID, n uint64) { named[id.String()] = n }); n != len(named) {
				t.Errorf("says %d of %d", n, len(named))
			}
			return named
		}
		want, first := 100, idOf(h, list[0]).String()
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
