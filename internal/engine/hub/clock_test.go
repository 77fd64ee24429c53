package hub_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestConflationWhenTheClockIsSet checks that each interval still sends the newest quote when the
// wall clock is set back by an hour and later ahead by two hours.
func TestConflationWhenTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{})
		hd := streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.NoBook, in.QuotesFromFeed, in.StartsEmpty = true, true, false })
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		c.Sub.Subscribe([]hub.Item{{wire.Quotes, streamtest.ID("A|M|CI"), hub.Tier{Conflate: 100}}}, subscription.Options{})
		c.Read(1<<20, false)
		received := 0
		wall := func() int64 { return time.Now().UnixNano() }
		for k := range int64(30) {
			h.Mu().Lock()
			h.ApplyEvent(&market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(1+k, 1)}}, wall())
			h.Mu().Unlock()
			time.Sleep(100 * time.Millisecond)
			switch k { // the clock is set while the quote waits
			case 10:
				wall = func() int64 { return time.Now().Add(-time.Hour).UnixNano() }
			case 20:
				wall = func() int64 { return time.Now().Add(time.Hour).UnixNano() }
			}
			h.Mu().Lock()
			wait := h.SendDue(wall())
			h.Mu().Unlock()
			if wait > time.Second { // the longest wait is for the next measurement of memory
				t.Fatalf("quote %d: next wait is %v", k, wait)
			}
			streamtest.Turn(sh)
			if n := len(c.Read(1<<20, false)); n > 1 {
				t.Fatalf("quote %d: %d messages in one interval", k, n)
			} else {
				received += n
			}
		}
		if received != 30 {
			t.Errorf("received %d of 30 quotes", received)
		}
	})
}
