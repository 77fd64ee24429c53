package subscription_test

import (
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestCutOffWithoutStatus requires that clients can decode the states of a hub that is cut off,
// when the market has had no status: a client that cannot would connect again and again.
func TestCutOffWithoutStatus(t *testing.T) {
	h := hub.New(hub.Config{Following: true})
	for number, name := range []string{"*|M|*", "A|M|CI"} {
		if err := streamtest.FollowDefinition(h, uint32(number)+1, market.Instrument{ID: streamtest.ID(name)}); err != nil {
			t.Fatal(err)
		}
	}
	sh := subscription.NewShard(h, func(bool) {})
	check := func(what string, c *streamtest.Client, phase market.Phase, reason string) {
		t.Helper()
		streamtest.Turn(sh)
		frame := c.Sub.Gather(nil, 1<<16, wire.JSON, false)
		if len(frame) < 2 || len(frame) != 2+int(frame[1]) {
			t.Fatalf("%s: %q", what, frame)
		}
		var d stream.Decoder
		var m stream.Message
		if err := d.Decode(frame[2:], &m); err != nil {
			t.Fatalf("%s: %v in %s", what, err, frame[2:])
		}
		if m.Kind != stream.Status || m.N != 0 || m.Time == 0 || !m.Snapshot || m.Phase != phase || m.Reason != reason {
			t.Errorf("%s: %s", what, frame[2:])
		}
	}
	subscribe := func() *streamtest.Client {
		c := streamtest.NewClient(t, sh)
		streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
		return c
	}
	early := subscribe()
	h.SetCurrent(false)
	check("a subscriber", early, market.FeedDown, "cut_off")
	check("a late subscriber", subscribe(), market.FeedDown, "cut_off")
	if s, ok := h.MarketStatus("M"); !ok || s.Phase != market.FeedDown {
		t.Errorf("the status of the market is %+v, %v", s, ok)
	}
	h.SetCurrent(true)
	check("a subscriber of a current hub", early, market.FeedUp, "")
}
