package stream

import (
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestMarketStatusIsResumed checks a resume by position of the statuses of a market as a whole. The
// missed statuses are sent once, before the client is caught up.
func TestMarketStatusIsResumed(t *testing.T) {
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	whole, err := h.Define(market.Instrument{ID: id("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	send := func(p market.Phase) {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: p})
	}
	send(market.PreOpen)
	sh := h.NewShard(func(bool) {})
	_, position := h.Position()
	for _, p := range []market.Phase{market.Auction, market.Open} {
		send(p)
	}
	c := newClient(t, sh)
	out := c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id("*|M|CI")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	if out.Fault != nil {
		t.Fatal(out.Fault)
	}
	send(market.Halt) // before it is gathered
	c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	send(market.Closed)
	turn(sh)
	var received []string
	for _, m := range c.read(1<<20, false) {
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
	h := New(Config{})
	for _, s := range []string{"A|M|CI", "B|M|CI", "C|L|CI"} {
		define(t, h, s, nil)
	}
	for _, s := range []string{"*|M|*", "*|L|*"} {
		whole, err := h.Define(market.Instrument{ID: id(s)})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Open})
		if s == "*|L|*" {
			publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.FeedDown})
		}
	}
	type step struct {
		channel wire.Channel
		id      string
		o       Options
		want    string // statuses of markets as a whole that come
	}
	bare := Options{NoSnapshot: true}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"two instruments", []step{{wire.Status, "A|M|CI", Options{}, "M open"}, {wire.Status, "B|M|CI", Options{}, ""}}},
		{"an instrument, then a pattern", []step{{wire.Status, "A|M|CI", Options{}, "M open"}, {wire.Status, "*|M|*", Options{}, ""}}},
		{"an instrument, then all markets", []step{{wire.Status, "A|M|CI", Options{}, "M open"}, {wire.Status, "*|*|*", Options{}, "L open, L feed_down"}}},
		{"trades first", []step{{wire.Trades, "A|M|CI", Options{}, ""}, {wire.Status, "A|M|CI", Options{}, "M open"}, {wire.Status, "B|M|CI", Options{}, ""}}},
		{"no snapshot", []step{{wire.Status, "A|M|CI", bare, ""}}},
		{"no snapshot, trades first", []step{{wire.Trades, "A|M|CI", Options{}, ""}, {wire.Status, "A|M|CI", bare, ""}}},
		{"no snapshot, then one", []step{{wire.Status, "A|M|CI", bare, ""}, {wire.Status, "B|M|CI", Options{}, "M open"}, {wire.Status, "*|M|CI", Options{}, ""}}},
		{"a set replaced", []step{{wire.Status, "A|M|CI", Options{}, "M open"}, {wire.Status, "B|M|CI", Options{Replace: true}, ""}}},
		{"a feed that is down", []step{{wire.Status, "C|L|CI", bare, "L feed_down"}}},
		{"a feed that is down, trades", []step{{wire.Trades, "C|L|CI", bare, "L feed_down"}, {wire.Status, "C|L|CI", bare, ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newClient(t, h.NewShard(func(bool) {}))
			for _, s := range c.steps {
				if out := cl.sub.Subscribe([]Item{{Channel: s.channel, ID: id(s.id)}}, s.o); out.Fault != nil {
					t.Fatal(out.Fault)
				}
				var received []string
				for _, m := range cl.read(1<<20, false) {
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
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	whole, err := h.Define(market.Instrument{ID: id("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Open})
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	turn(sh)
	if out := c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id("A|M|CI")}}, Options{NoSnapshot: true}); out.Fault != nil {
		t.Fatal(out.Fault)
	}
	publish(t, h, market.Event{Kind: market.KindStatus, Handle: whole, Phase: market.Closed})
	turn(sh)
	if list := c.read(1<<20, false); len(list) != 1 || list[0].E != "closed" || list[0].R {
		t.Errorf("got %+v, not the status that came after", list)
	}
}
