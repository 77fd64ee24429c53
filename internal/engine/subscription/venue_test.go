package subscription_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestMarketStatusIsResumed checks a resume by position of the statuses of a market as a whole. The
// missed statuses are sent once, before the client is caught up.
func TestMarketStatusIsResumed(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	whole, err := h.Define(market.Instrument{ID: streamtest.ID("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	send := func(p market.Phase) {
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: p})
	}
	send(market.PreOpen)
	sh := subscription.NewShard(h, func(bool) {})
	_, position := h.Position()
	for _, p := range []market.Phase{market.Auction, market.Open} {
		send(p)
	}
	c := streamtest.NewClient(t, sh)
	out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("*|M|CI")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	if out.Fault != nil {
		t.Fatal(out.Fault)
	}
	send(market.Halt) // before it is gathered
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	send(market.Closed)
	streamtest.Turn(sh)
	var received []string
	for _, m := range c.Read(1<<20, false) {
		switch {
		case m.Type == "CaughtUp":
			received = append(received, m.Type)
		case m.I == "*|M|*":
			received = append(received, m.E)
		}
	}
	if want := []string{"auction", "open", "halt", "CaughtUp", "closed"}; !slices.Equal(received, want) {
		t.Errorf("told %v, not %v", received, want)
	}
}

// TestMarketStatusIsSentOnce checks several subscribes to status in a market, with and without
// snapshots. The status of the market as a whole is sent once, and only to a client that requests
// snapshots. A feed that is down is reported without that.
func TestMarketStatusIsSentOnce(t *testing.T) {
	h := hub.New(hub.Config{})
	for _, s := range []string{"A|M|CI", "B|M|CI", "C|L|CI"} {
		streamtest.Define(t, h, s, nil)
	}
	for _, s := range []string{"*|M|*", "*|L|*"} {
		whole, err := h.Define(market.Instrument{ID: streamtest.ID(s)})
		if err != nil {
			t.Fatal(err)
		}
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Open})
		if s == "*|L|*" {
			streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.FeedDown})
		}
	}
	type step struct {
		channel wire.Channel
		id      string
		o       subscription.Options
		want    string // statuses of markets as a whole that come
	}
	bare := subscription.Options{NoSnapshot: true}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"two instruments", []step{{wire.Status, "A|M|CI", subscription.Options{}, "M open"}, {wire.Status, "B|M|CI", subscription.Options{}, ""}}},
		{"an instrument, then a pattern", []step{{wire.Status, "A|M|CI", subscription.Options{}, "M open"}, {wire.Status, "*|M|*", subscription.Options{}, ""}}},
		{"an instrument, then all markets", []step{{wire.Status, "A|M|CI", subscription.Options{}, "M open"}, {wire.Status, "*|*|*", subscription.Options{}, "L open, L feed_down"}}},
		{"trades first", []step{{wire.Trades, "A|M|CI", subscription.Options{}, ""}, {wire.Status, "A|M|CI", subscription.Options{}, "M open"}, {wire.Status, "B|M|CI", subscription.Options{}, ""}}},
		{"no snapshot", []step{{wire.Status, "A|M|CI", bare, ""}}},
		{"no snapshot, trades first", []step{{wire.Trades, "A|M|CI", subscription.Options{}, ""}, {wire.Status, "A|M|CI", bare, ""}}},
		{"no snapshot, then one", []step{{wire.Status, "A|M|CI", bare, ""}, {wire.Status, "B|M|CI", subscription.Options{}, "M open"}, {wire.Status, "*|M|CI", subscription.Options{}, ""}}},
		{"a set replaced", []step{{wire.Status, "A|M|CI", subscription.Options{}, "M open"}, {wire.Status, "B|M|CI", subscription.Options{Replace: true}, ""}}},
		{"a feed that is down", []step{{wire.Status, "C|L|CI", bare, "L feed_down"}}},
		{"a feed that is down, trades", []step{{wire.Trades, "C|L|CI", bare, "L feed_down"}, {wire.Status, "C|L|CI", bare, ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
			for _, s := range c.steps {
				if out := cl.Sub.Subscribe([]hub.Item{{Channel: s.channel, ID: streamtest.ID(s.id)}}, s.o); out.Fault != nil {
					t.Fatal(out.Fault)
				}
				var received []string
				for _, m := range cl.Read(1<<20, false) {
					if strings.HasPrefix(m.I, "*") {
						received = append(received, m.I[2:3]+" "+m.E)
					}
				}
				if got := strings.Join(received, ", "); got != s.want {
					t.Errorf("%v %s %+v: %q, not %q", s.channel, s.id, s.o, got, s.want)
				}
			}
		})
	}
}

// TestMarketStatusWithoutSnapshot checks that a status is sent if it is published between a
// subscribe without snapshots and the next output.
func TestMarketStatusWithoutSnapshot(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	whole, err := h.Define(market.Instrument{ID: streamtest.ID("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Open})
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Turn(sh)
	if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("A|M|CI")}}, subscription.Options{NoSnapshot: true}); out.Fault != nil {
		t.Fatal(out.Fault)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Closed})
	streamtest.Turn(sh)
	if list := c.Read(1<<20, false); len(list) != 1 || list[0].E != "closed" || list[0].R {
		t.Errorf("got %+v, not the status that came after", list)
	}
}
