package stream

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestMarketStatusIsResumed comes back with a position: what the market as a whole told since is sent
// again, once and before the client is caught up.
func TestMarketStatusIsResumed(t *testing.T) {
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	whole, err := h.Define(market.Instrument{ID: id("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(p market.Phase) {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: p})
	}
	tell(market.PreOpen)
	sh := h.NewShard(func(bool) {})
	_, position := h.Position()
	for _, p := range []market.Phase{market.Auction, market.Open} {
		tell(p)
	}
	c := newClient(t, sh)
	out := c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id("*|M|CI")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	if out.Fault != nil {
		t.Fatal(out.Fault)
	}
	tell(market.Halt) // before it is gathered
	c.sub.AfterReplay(wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), nil)
	tell(market.Closed)
	turn(sh)
	var told []string
	for _, m := range c.read(1<<20, false) {
		switch {
		case m.Type == "CaughtUp":
			told = append(told, m.Type)
		case m.I == "*|M|*":
			told = append(told, m.E)
		}
	}
	if want := []string{"auction", "open", "halt", "CaughtUp", "closed"}; !slices.Equal(told, want) {
		t.Errorf("told %v, not %v", told, want)
	}
}
