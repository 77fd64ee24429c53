package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// opened returns an exchange of a few instruments some time after the opening.
func opened(t *testing.T) *exchange {
	t.Helper()
	source := newSource(t, Config{Clock: Virtual, Start: friday(), Instruments: 3})
	hours, err := source.hours()
	if err != nil {
		t.Fatal(err)
	}
	x := newExchange(4, source.listings, 0, hours)
	x.markets[venueBYMA], x.markets[venueSIM] = 98, 99
	for i := range x.instruments {
		x.instruments[i].handle = market.Handle(i)
	}
	x.beginDay()
	x.runTo(x.world.open + 30*minute)
	return x
}

// runTo runs up to a virtual time and discards the events.
func (x *exchange) runTo(at int64) {
	for x.next() <= at {
		x.step()
		x.clear()
	}
}

// story returns the phases of an instrument from now on, for a while.
func (x *exchange) story(handle market.Handle, length int64) string {
	var out strings.Builder
	for end := x.now + length; x.next() <= end; {
		x.step()
		for _, e := range x.events {
			if e.Kind == market.KindStatus && e.Handle == handle {
				fmt.Fprintf(&out, "%s %s, ", e.Phase, e.Reason)
			}
		}
		x.clear()
	}
	return out.String()
}

// TestBandsE2E moves a value too far: trading is interrupted on the way, and at the last band it
// ends for the day, except for the settlement.
func TestBandsE2E(t *testing.T) {
	x := opened(t)
	in := &x.instruments[1]
	in.underlying.value += .045
	if got := x.story(1, 10*minute); got != "auction volatility_auction, open , " {
		t.Errorf("4.5 %%: %s", got)
	}
	in.underlying.value += .30
	got := x.story(1, 30*minute)
	if !strings.HasPrefix(got, "auction volatility_auction, open , auction volatility_auction, ") || !strings.HasSuffix(got, "halt price_limit, ") {
		t.Errorf("30 %% more: %s", got)
	}
	got = x.story(1, x.day.ends-x.now-1)
	if got != "closed outside_hours, " {
		t.Errorf("the rest of the day: %s", got)
	}
	if in.settled == 0 || in.settled != in.last {
		t.Errorf("settled at %d, the last price is %d", in.settled, in.last)
	}
	if got := x.story(1, x.world.length); !strings.HasPrefix(got, "pre_open , auction opening_auction, open , ") {
		t.Errorf("the next day: %s", got)
	}
}

// TestQuietDay checks that on an ordinary day no leading share is interrupted.
func TestQuietDay(t *testing.T) {
	x := opened(t)
	for _, phase := range strings.Split(x.story(1, x.day.ends-x.now-1), ", ") {
		if strings.Contains(phase, reasonVolatility) || strings.Contains(phase, reasonLimit) {
			t.Errorf("an ordinary day has %s", phase)
		}
	}
}

// TestAmendments corrects a trade, and then cancels the corrected trade.
func TestAmendments(t *testing.T) {
	x := opened(t)
	in := &x.instruments[0]
	for in.lastTrade.id == "" {
		x.step()
	}
	x.clear()
	trade := in.lastTrade
	if !x.amend(in, market.KindCorrect) || !x.amend(in, market.KindCancel) || x.amend(in, market.KindCancel) {
		t.Fatal("a trade is corrected, and then cancelled once")
	}
	e, gone := x.events[0], x.events[1]
	if gone.Kind != market.KindCancel || gone.TradeID != e.TradeID || gone.Price != e.Price || gone.Size != e.Size {
		t.Errorf("cancelled %+v", gone)
	}
	if len(x.events) != 2 || e.TradeID != trade.id || e.OldPrice != trade.price || e.OldSize != trade.size {
		t.Errorf("%+v", x.events)
	}
	if step := in.listing.definition.TickSize(e.Price); e.Price%step != 0 || e.Size%in.listing.lot != 0 || e.Price == e.OldPrice && e.Size == e.OldSize {
		t.Errorf("corrected to %s, %s", e.Price, e.Size)
	}
}
