package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// trial runs an exchange in a bubble and lets a test inject faults.
type trial struct {
	t      *testing.T
	source *Source
	sink   feedtest.Recorder
	ended  chan error
}

// try runs a test on a running exchange, 2 s after its start.
func try(t *testing.T, config Config, test func(*trial)) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, source: newSource(t, config), ended: make(chan error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { x.ended <- x.source.Run(ctx, &x.sink) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		test(x)
		cancel()
		if err := <-x.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// after injects a fault and returns the following events of an instrument, for a while.
func (x *trial) after(fault string, id market.InstrumentID, wait time.Duration) []market.Event {
	x.t.Helper()
	before := len(x.sink.Of(id))
	if _, err := x.source.Trigger(fault, id); err != nil {
		x.t.Fatal(err)
	}
	time.Sleep(wait)
	synctest.Wait()
	return x.sink.Of(id)[before:]
}

// index returns the index of the first event of a kind, or -1.
func index(events []market.Event, kind market.Kind) int {
	for i := range events {
		if events[i].Kind == kind {
			return i
		}
	}
	return -1
}

// rebuild applies events to an empty book and reports whether it is crossed at the end.
func rebuild(t *testing.T, events []market.Event) (crossed, snapshot bool) {
	t.Helper()
	var b market.Book
	for _, e := range events {
		if e.Kind == market.KindSnapshot {
			b.Reset()
			snapshot = true
		}
		for _, l := range e.Bids {
			b.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			b.Set(market.Sell, l)
		}
	}
	return b.Crossed(), snapshot
}

// TestFaults injects every fault and checks its effect and its end.
func TestFaults(t *testing.T) {
	tests := map[string]func(*trial){
		"gap": func(x *trial) {
			events := x.after("gap", fakeID, 3*time.Second)
			if events[0].Kind != market.KindGap || events[0].Reason != "simulated_gap" || events[1].Kind != market.KindSnapshot {
				x.t.Fatalf("%v, then %v", events[0], events[1])
			}
			if lost := time.Duration(events[1].Time - events[0].Time); lost != 2*time.Second {
				x.t.Errorf("the gap lasts %v", lost)
			}
			if index(events, market.KindTrade) < 0 {
				x.t.Error("no trade after it")
			}
		},
		"sequence_reset": func(x *trial) {
			events := x.after("sequence_reset", fakeID, time.Second)
			if events[0].Kind != market.KindGap || events[1].Kind != market.KindSnapshot || events[0].Time != events[1].Time {
				x.t.Errorf("%v, then %v", events[0], events[1])
			}
		},
		"stall": func(x *trial) {
			if events := x.after("stall", fakeID, 9*time.Second); len(events) != 0 {
				x.t.Errorf("%d events in a stall", len(events))
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if last := x.sink.Of(fakeID); last[len(last)-1].Time < time.Now().Add(-time.Second).UnixNano() {
				x.t.Error("nothing after the stall")
			}
		},
		"halt": func(x *trial) {
			events := x.after("halt", fakeID, 12*time.Second)
			first := events[0]
			if first.Kind != market.KindStatus || first.Phase != market.Halt || first.Reason != "triggered" || first.Until-first.Time != 10*second {
				x.t.Fatalf("first %v", first)
			}
			if second := events[1]; second.Kind != market.KindStatus || second.Phase != market.Open || second.Time != first.Until {
				x.t.Errorf("then %v", second)
			}
		},
		"auction": func(x *trial) {
			events := x.after("auction", fakeID, 22*time.Second)
			first := events[0]
			if first.Kind != market.KindStatus || first.Phase != market.Auction || first.Reason != "triggered" || first.Until-first.Time != 20*second {
				x.t.Fatalf("first %v", first)
			}
			end := first.Until
			indicative, crossing := 0, 0
			for _, e := range events {
				switch {
				case e.Kind == market.KindQuote:
					indicative++
				case e.Kind == market.KindTrade && e.Time < end:
					x.t.Fatalf("a trade in the auction: %v", e)
				case e.Kind == market.KindTrade && slices.Equal(e.Conditions, []string{"reopening_auction"}):
					crossing++
					if e.Time != end {
						x.t.Errorf("%v, and the auction ended at %d", e, end)
					}
				}
			}
			if indicative == 0 || crossing == 0 {
				x.t.Errorf("%d indicative prices, %d trades at the end", indicative, crossing)
			}
			if crossed, _ := rebuild(x.t, x.sink.Of(fakeID)); crossed {
				x.t.Error("the book is crossed after the auction")
			}
			last := events[len(events)-1]
			if i := index(events[1:], market.KindStatus) + 1; events[i].Phase != market.Open || events[i].Time != end || last.Time <= end {
				x.t.Errorf("then %v, at the end %v", events[i], last)
			}
		},
		"open": func(x *trial) {
			for _, before := range []string{"halt", "auction", "close"} {
				x.after(before, fakeID, 3*time.Second)
				events := x.after("open", fakeID, 40*time.Second)
				i := index(events, market.KindStatus)
				if i < 0 || events[i].Phase != market.Open || index(events[i+1:], market.KindStatus) >= 0 || index(events[i:], market.KindTrade) < 0 {
					x.t.Errorf("after %s: %v", before, events[max(i, 0)])
				}
			}
			whole := x.sink.Of(market.InstrumentID{Symbol: market.Any, Market: venueSIM, Term: market.Any})
			if len(whole) != 3 || whole[1].Phase != market.Closed || whole[2].Phase != market.Open || whole[2].Time-whole[1].Time != 3*second {
				x.t.Errorf("market: %v", whole)
			}
			if _, err := x.source.Trigger("open", fakeID); !errors.Is(err, ErrNotNow) {
				x.t.Errorf("of an open instrument: %v", err)
			}
		},
		"correction": func(x *trial) {
			events := x.after("correction", fakeID, time.Second)
			e := events[0]
			if e.Kind != market.KindCorrect || e.OldPrice == e.Price && e.OldSize == e.Size {
				x.t.Errorf("%v", e)
			}
		},
		"cancel": func(x *trial) {
			var newest market.Event
			for _, e := range x.sink.Of(fakeID) {
				if e.Kind == market.KindTrade {
					newest = e
				}
			}
			e := x.after("cancel", fakeID, time.Second)[0]
			if e.Kind != market.KindCancel || e.TradeID != newest.TradeID || e.Price != newest.Price || e.Size != newest.Size {
				x.t.Errorf("%v, the newest trade is %v", e, newest)
			}
		},
		"burst": func(x *trial) {
			events := x.after("burst", fakeID, time.Millisecond)
			if len(events) < burstActions/2 || events[0].Time != events[len(events)-1].Time {
				x.t.Errorf("%d events", len(events))
			}
		},
		"crossed": func(x *trial) {
			events := x.after("crossed", fakeID, 2*time.Second)
			all := x.sink.Of(fakeID)
			if crossed, _ := rebuild(x.t, all[:len(all)-len(events)+1]); !crossed {
				x.t.Error("the book is not crossed")
			}
			if events[1].Kind != market.KindSnapshot || events[1].Time-events[0].Time != second {
				x.t.Errorf("%v, then %v", events[0], events[1])
			}
			if crossed, _ := rebuild(x.t, all); crossed {
				x.t.Error("the book stays crossed")
			}
		},
		"one_sided": func(x *trial) {
			x.after("one_sided", fakeID, 5*time.Second)
			sellers := func() (n int) {
				var b market.Book
				for _, e := range x.sink.Of(fakeID) {
					for _, l := range e.Asks {
						b.Set(market.Sell, l)
					}
				}
				return b.Len(market.Sell)
			}
			if n := sellers(); n != 0 {
				x.t.Errorf("%d levels of sellers", n)
			}
			time.Sleep(7 * time.Second)
			synctest.Wait()
			if sellers() == 0 {
				x.t.Error("they don't come back")
			}
		},
		"jump": func(x *trial) {
			price := func() float64 {
				last := 0.0
				for _, e := range x.sink.Of(fakeID) {
					if e.Kind == market.KindTrade {
						last = float64(e.Price)
					}
				}
				return last
			}
			before := price()
			x.after("jump", fakeID, 2*time.Second)
			if change := price()/before - 1; change < .02 && change > -.02 {
				x.t.Errorf("the price moved by %v", change)
			}
		},
		"list": func(x *trial) {
			id := market.InstrumentID{Symbol: "NEW1", Market: venueSIM, Term: spot}
			events := x.after("list", market.InstrumentID{}, 3*time.Second)
			if len(events) != 0 {
				x.t.Error("events of nobody") // the zero identifier is not an instrument's
			}
			own := x.sink.Of(id)
			if index(own, market.KindTrade) < 0 || index(own, market.KindUpdate) < 0 {
				x.t.Fatalf("%d events of the new instrument", len(own))
			}
			definitions := x.sink.Definitions()
			listed := definitions[len(definitions)-1].Listed
			if at := time.Now().Add(-3 * time.Second).UnixNano(); listed != at || own[0].Time != listed {
				x.t.Errorf("listed %d ns after it was asked for, and the first event is %d ns after that", listed-at, own[0].Time-listed)
			}
		},
		"close": func(x *trial) {
			x.after("close", fakeID, 31*time.Second)
			whole := x.sink.Of(market.InstrumentID{Symbol: market.Any, Market: venueSIM, Term: market.Any})
			if len(whole) != 3 || whole[1].Phase != market.Closed || whole[2].Phase != market.Open || whole[2].Time-whole[1].Time != 30*second {
				x.t.Errorf("market: %v", whole)
			}
			for _, e := range x.sink.Of(fakeID) {
				if e.Kind == market.KindTrade && e.Time > whole[1].Time && e.Time < whole[2].Time {
					x.t.Fatal("a trade while the market is closed")
				}
			}
		},
		"clock_skew": func(x *trial) {
			events := x.after("clock_skew", fakeID, 12*time.Second)
			back := 0
			for i := 1; i < len(events); i++ {
				if events[i].Time < events[i-1].Time {
					back++
				}
			}
			if ahead := time.Duration(events[0].Time - time.Now().Add(-12*time.Second).UnixNano()); ahead < 5*time.Second || back != 1 {
				x.t.Errorf("%v ahead, times go back %d times", ahead, back)
			}
		},
	}
	for _, f := range Faults() {
		test, ok := tests[f.Name]
		if !ok {
			t.Errorf("no test of %s", f.Name)
			continue
		}
		t.Run(f.Name, func(t *testing.T) { try(t, Config{Seed: 5, Instruments: 3}, test) })
	}
}

// TestFaultsWithHoursE2E injects faults in the middle of the day of a market with hours: a jump
// leaves the band, a halt leads to an auction.
func TestFaultsWithHoursE2E(t *testing.T) {
	ggal := market.InstrumentID{Symbol: "GGAL", Market: venueBYMA, Term: nextDay}
	config := Config{Seed: 5, Instruments: 3, Clock: Virtual, Speed: 3600, Start: friday()} // an hour in a second
	phases := func(events []market.Event) (out string) {
		for _, e := range events {
			if e.Kind == market.KindStatus {
				out += fmt.Sprintf("%s %s, ", e.Phase, e.Reason)
			}
		}
		return out
	}
	try(t, config, func(x *trial) {
		// 20 standard deviations of a minute are about 3 %: the band of a minute ends there.
		got := ""
		for range 3 {
			if got = phases(x.after("jump", ggal, 100*time.Millisecond)); got != "" {
				break
			}
		}
		if got != "auction volatility_auction, open , " {
			t.Errorf("jump: %s", got)
		}
	})
	try(t, config, func(x *trial) {
		if got := phases(x.after("halt", ggal, 100*time.Millisecond)); got != "halt triggered, auction reopening_auction, open , " {
			t.Errorf("halt: %s", got)
		}
	})
}

// TestListedVirtual checks that the listing time of an instrument comes from the virtual clock.
func TestListedVirtual(t *testing.T) {
	config := Config{Seed: 5, Instruments: 3, Clock: Virtual, Speed: 60, Start: friday()}
	try(t, config, func(x *trial) {
		all := x.sink.Events()
		x.after("list", market.InstrumentID{}, time.Second)
		definitions := x.sink.Definitions()
		listed := definitions[len(definitions)-1].Listed
		own := x.sink.Of(market.InstrumentID{Symbol: "NEW1", Market: venueSIM, Term: spot})
		if before := all[len(all)-1].Time; listed < before || len(own) == 0 || own[0].Time != listed {
			x.t.Errorf("listed %d ns after the newest event, and %d events of it", listed-before, len(own))
		}
	})
}

func TestTriggerErrors(t *testing.T) {
	s := newSource(t, Config{Seed: 1, Instruments: 1})
	if _, err := s.Trigger("gap", fakeID); !errors.Is(err, ErrNotRunning) {
		t.Errorf("not running: %v", err)
	}
	try(t, Config{Seed: 1, Instruments: 1}, func(x *trial) {
		if _, err := x.source.Trigger("flood", fakeID); !errors.Is(err, ErrUnknownFault) {
			t.Errorf("unknown fault: %v", err)
		}
		if _, err := x.source.Trigger("gap", market.InstrumentID{Symbol: "X", Market: "Y", Term: "Z"}); !errors.Is(err, market.ErrUnknownInstrument) {
			t.Errorf("unknown instrument: %v", err)
		}
	})
	busy := newSource(t, Config{Seed: 1, Instruments: 1})
	exchange := newExchange(1, busy.listings, 0, nil)
	busy.runs[&run{x: exchange, wake: make(chan struct{}, 1)}] = struct{}{} // one that has no time
	for range maxPending {
		if _, err := busy.Trigger("gap", fakeID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := busy.Trigger("gap", fakeID); !errors.Is(err, ErrTooMany) {
		t.Errorf("too many: %v", err)
	}
}

// TestFaultsNotNow checks that faults without effect are rejected.
func TestFaultsNotNow(t *testing.T) {
	ggal := market.InstrumentID{Symbol: "GGAL", Market: venueBYMA, Term: nextDay}
	refused := func(x *trial, id market.InstrumentID, faults ...string) {
		x.t.Helper()
		for _, f := range faults {
			if _, err := x.source.Trigger(f, id); !errors.Is(err, ErrNotNow) {
				x.t.Errorf("%s on %s: %v", f, id, err)
			}
		}
	}
	// A minute before its day begins.
	try(t, Config{Seed: 5, Instruments: 3, Clock: Virtual, Speed: 60, Start: friday()}, func(x *trial) {
		refused(x, ggal, "correction", "cancel", "halt", "auction", "open", "burst", "crossed", "one_sided", "close")
		if _, err := x.source.Trigger("jump", ggal); err != nil {
			x.t.Error(err)
		}
	})
	try(t, Config{Seed: 5, Instruments: 3}, func(x *trial) {
		x.after("cancel", fakeID, 0)
		refused(x, fakeID, "correction", "cancel")
		x.after("halt", fakeID, 0)
		refused(x, fakeID, "halt", "auction", "burst")
		x.after("close", ggal, 0)
		refused(x, ggal, "close", "halt")
	})
	try(t, Config{Seed: 5, Instruments: 1}, func(x *trial) {
		for i := range maxListed {
			if id, err := x.source.Trigger("list", fakeID); err != nil || id.Symbol != fmt.Sprintf("NEW%d", i+1) {
				x.t.Fatalf("listing %d: %s, %v", i+1, id, err)
			}
		}
		refused(x, fakeID, "list")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(x.sink.Definitions()); n != 2+maxListed {
			x.t.Errorf("%d definitions", n)
		}
	})
}

// TestFaultsOfListed injects every fault into an instrument that was listed on request.
func TestFaultsOfListed(t *testing.T) {
	listed := market.InstrumentID{Symbol: "NEW1", Market: venueSIM, Term: spot}
	try(t, Config{Seed: 5, Instruments: 1}, func(x *trial) {
		if _, err := x.source.Trigger("halt", listed); !errors.Is(err, market.ErrUnknownInstrument) {
			x.t.Errorf("before it is listed: %v", err)
		}
		x.after("list", market.InstrumentID{}, 10*time.Second)
		for _, f := range Faults() {
			if f.Name == "open" {
				x.after("halt", listed, time.Second)
			}
			events := len(x.sink.Of(listed))
			id, err := x.source.Trigger(f.Name, listed)
			if err != nil || f.Name != "list" && id != listed {
				x.t.Errorf("%s: strikes %v, %v", f.Name, id, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(x.sink.Of(listed)) == events {
				x.t.Errorf("%s: nothing happened", f.Name)
			}
		}
		if id, err := x.source.Trigger("list", listed); err != nil {
			x.t.Error(err)
		} else if _, err := x.source.Trigger("halt", id); err != nil && !errors.Is(err, ErrNotNow) {
			x.t.Errorf("while it is being listed: %v", err) // nil if the exchange has listed it already
		}
	})
}
