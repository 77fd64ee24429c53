package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// onceFeed publishes a batch, sends the error, and stays silent.
type onceFeed struct {
	events []market.Event
	err    chan error
}

func (f onceFeed) Run(ctx context.Context, sink feed.Sink) error {
	h, err := sink.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}, PriceDecimals: 2})
	if err != nil {
		return err
	}
	for i := range f.events {
		f.events[i].Handle = h
	}
	f.err <- sink.Publish(f.events)
	<-ctx.Done()
	return nil
}

// TestFeedChecks checks that a gateway counts what looks wrong, and refuses it only if it is
// configured so.
func TestFeedChecks(t *testing.T) {
	trade := func(price market.Price, at time.Time) market.Event {
		return market.Event{Kind: market.KindTrade, Price: price * market.Scale, Size: market.Scale, Time: at.UnixNano()}
	}
	for _, c := range []struct {
		rule    string
		checks  FeedChecks
		refused int
		jumps   uint64
		future  uint64
	}{
		{"by default all is counted", FeedChecks{}, 0, 1, 1},
		{"no check", FeedChecks{PriceBand: -1, MaxAhead: -1}, 0, 0, 0},
		{"refused", FeedChecks{Refuse: []string{"price_jump", "future_time"}}, 2, 1, 1},
		{"wider limits", FeedChecks{PriceBand: 1000, MaxAhead: 24 * time.Hour, Refuse: []string{"price_jump", "future_time"}}, 0, 0, 0},
	} {
		now := time.Now()
		source := onceFeed{[]market.Event{trade(100, now), trade(200, now), trade(101, now.Add(time.Hour)), trade(102, now)}, make(chan error, 1)}
		g, err := New(t.Context(), Config{Listen: "127.0.0.1:0", Feeds: []Feed{{Name: "byma", Source: source, Checks: c.checks}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		published := <-source.err
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		refused := 0
		if joined, ok := published.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if r := (*market.Refused)(nil); errors.As(e, &r) {
					refused++
				}
			}
		}
		found := g.supervisors()[0].Stats().Suspect
		if refused != c.refused || found["price_jump"] != c.jumps || found["future_time"] != c.future {
			t.Errorf("%s: refused %d, found %v, %v", c.rule, refused, found, published)
		}
	}
	_, err := New(t.Context(), Config{Feeds: []Feed{{Name: "byma", Source: onceFeed{}, Checks: FeedChecks{Refuse: []string{"stall"}}}}})
	if err == nil || !strings.Contains(err.Error(), `feed "byma": "stall" cannot be refused`) {
		t.Errorf("an unknown kind: %v", err)
	}
}
