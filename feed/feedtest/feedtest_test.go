package feedtest

import (
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

const (
	one  = market.Scale
	lot  = market.Size(one)
	tick = market.Price(one / 2)
)

func definition() market.Instrument {
	return market.Instrument{
		ID:            market.InstrumentID{Symbol: "X", Market: "M", Term: "CI"},
		PriceDecimals: 2,
		Ticks:         []market.Tick{{From: 0, Step: tick}},
		Lot:           lot,
		StartsEmpty:   true,
	}
}

func levels(pairs ...int64) []market.Level {
	var out []market.Level
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, market.Level{Price: market.Price(pairs[i]) * tick, Size: market.Size(pairs[i+1]) * lot})
	}
	return out
}

// checkerTest holds events and the violation by the last of them.
type checkerTest struct {
	name   string
	in     *market.Instrument // nil: definition, with a book of 10 bid and 20 asked
	opts   Options
	events []market.Event
	want   string // "": none
}

func TestChecker(t *testing.T) {
	trade := market.Event{Kind: market.KindTrade, Price: tick, Size: lot, Side: market.Buy, TradeID: "1"}
	own := definition()
	own.QuotesFromFeed, own.NoBook = true, true
	for _, tt := range []checkerTest{
		{name: "good", events: []market.Event{
			trade,
			{Kind: market.KindUpdate, Bids: levels(10, 0, 9, 3), Asks: levels(19, 1)},
			{Kind: market.KindGap, Reason: "sequence_lost"},
			{Kind: market.KindUpdate, Bids: levels(5, 0)}, // stale: cannot be checked
			{Kind: market.KindSnapshot, Bids: levels(10, 1, 9, 1), Asks: levels(11, 1)},
			{Kind: market.KindCancel, Price: tick, Size: lot, TradeID: "1"},
		}},
		{name: "orders", events: []market.Event{
			{Kind: market.KindOrderAdd, OrderID: 1, Side: market.Buy, Price: tick, Size: 2 * lot},
			{Kind: market.KindOrderFill, OrderID: 1, Size: lot},
			{Kind: market.KindOrderModify, OrderID: 1, Price: 2 * tick, Size: lot},
			{Kind: market.KindOrderDelete, OrderID: 1},
		}},
		{name: "no kind", events: []market.Event{{}}, want: "unknown kind"},
		{name: "handle", events: []market.Event{{Kind: market.KindGap, Handle: 1}}, want: "was not returned by Define"},
		{name: "time", events: []market.Event{{Kind: market.KindGap, Time: 5}, {Kind: market.KindGap, Time: 4}}, want: "goes back by 1 ns"},
		{name: "time slack", opts: Options{TimeSlack: 1}, events: []market.Event{{Kind: market.KindGap, Time: 5}, {Kind: market.KindGap, Time: 4}}},
		{name: "no size", events: []market.Event{{Kind: market.KindTrade, Price: tick}}, want: "not above 0"},
		{name: "tick", events: []market.Event{{Kind: market.KindTrade, Price: 1, Size: lot}}, want: "not on the tick"},
		{name: "lot", events: []market.Event{{Kind: market.KindTrade, Price: tick, Size: 1}}, want: "not a multiple of the lot"},
		{name: "digits", events: []market.Event{{Kind: market.KindTrade, Price: 1e15 + 1, Size: lot}}, want: "more than 15 digits"},
		{name: "trade id", events: []market.Event{trade, trade}, want: "is a duplicate"},
		{name: "cancel of nothing", events: []market.Event{{Kind: market.KindCancel, Price: tick, Size: lot}}, want: "no trade id"},
		{name: "crossed", events: []market.Event{{Kind: market.KindUpdate, Bids: levels(20, 1)}}, want: "book crossed"},
		{name: "crossed in an auction", events: []market.Event{{Kind: market.KindStatus, Phase: market.Auction}, {Kind: market.KindUpdate, Bids: levels(20, 1)}}},
		{name: "unknown delete", events: []market.Event{{Kind: market.KindUpdate, Bids: levels(7, 0)}}, want: "does not exist"},
		{name: "unknown delete allowed", opts: Options{UnknownDeletes: true}, events: []market.Event{{Kind: market.KindUpdate, Bids: levels(7, 0)}}},
		{name: "price twice", events: []market.Event{{Kind: market.KindUpdate, Bids: levels(7, 1, 7, 2)}}, want: "twice"},
		{name: "empty update", events: []market.Event{{Kind: market.KindUpdate}}, want: "no level"},
		{name: "unordered snapshot", events: []market.Event{{Kind: market.KindSnapshot, Asks: levels(9, 1, 8, 1)}}, want: "not best first"},
		{name: "empty level of a snapshot", events: []market.Event{{Kind: market.KindSnapshot, Asks: levels(9, 0)}}, want: "not above 0"},
		{name: "derived quotes", events: []market.Event{{Kind: market.KindQuote, Bids: levels(9, 1)}}, want: "QuotesFromFeed"},
		{name: "own quotes", in: &own, events: []market.Event{{Kind: market.KindQuote, Bids: levels(9, 1), Asks: levels(9, 1)}}, want: "at or above"},
		{name: "no book", in: &own, events: []market.Event{{Kind: market.KindUpdate, Bids: levels(9, 1)}}, want: "NoBook"},
		{name: "unknown order", events: []market.Event{{Kind: market.KindOrderDelete, OrderID: 4}}, want: "unknown order"},
		{name: "phase", events: []market.Event{{Kind: market.KindStatus}}, want: "phase 0"},
		{name: "reason", events: []market.Event{{Kind: market.KindGap, Reason: "Sequence lost"}}, want: "lower_snake_case"},
	} {
		tt.run(t)
	}
}

func (tt checkerTest) run(t *testing.T) {
	c := newChecker(tt.opts)
	in := definition()
	if tt.in != nil {
		in = *tt.in
	}
	h, err := c.Define(in)
	if err != nil {
		t.Fatal(err)
	}
	events := tt.events
	if tt.in == nil {
		events = append([]market.Event{{Kind: market.KindUpdate, Bids: levels(10, 1), Asks: levels(20, 1)}}, events...)
	}
	for i := range events {
		if events[i].Handle == 0 {
			events[i].Handle = h
		}
	}
	err = c.Publish(events)
	switch {
	case tt.want == "" && (len(c.faults) > 0 || err != nil):
		t.Errorf("%s: %v, error %v, want no fault", tt.name, c.faults, err)
	case tt.want != "" && (len(c.faults) != 1 || !strings.Contains(c.faults[0], tt.want) || err == nil):
		t.Errorf("%s: %v, error %v, want %q", tt.name, c.faults, err, tt.want)
	}
	if err != nil {
		var refused *market.Refused
		if !errors.As(err, &refused) || refused.Index != len(events)-1 {
			t.Errorf("%s: error %v is not about the last event", tt.name, err)
		}
	}
}

func TestCheckerOpenGap(t *testing.T) {
	c := newChecker(Options{})
	h, err := c.Define(definition())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish([]market.Event{{Kind: market.KindGap, Handle: h}}); err != nil {
		t.Fatal(err)
	}
	c.finish()
	if len(c.faults) != 1 || !strings.Contains(c.faults[0], "no snapshot followed") {
		t.Errorf("faults %v", c.faults)
	}
}

// sourceFunc converts a function to a source.
type sourceFunc func(ctx context.Context, sink feed.Sink) error

func (f sourceFunc) Run(ctx context.Context, sink feed.Sink) error { return f(ctx, sink) }

func TestRun(t *testing.T) {
	Run(t, func(*testing.T) feed.Source {
		return sourceFunc(func(ctx context.Context, sink feed.Sink) error {
			h, err := sink.Define(definition())
			if err != nil {
				return err
			}
			for at := int64(1); ctx.Err() == nil; at++ {
				if err := sink.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Time: at, Price: tick, Size: lot}}); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}, Options{Events: 10})
}

// TestGoroutines checks that goroutines that a source leaves behind are detected.
func TestGoroutines(t *testing.T) {
	const label = `TestGoroutines "quoted"`
	stop, stopped := make(chan struct{}), make(chan struct{})
	pprof.Do(t.Context(), pprof.Labels("feedtest", label), func(context.Context) {
		go func() {
			defer close(stopped)
			<-stop
		}()
	})
	if got := goroutines(label); !strings.Contains(got, "TestGoroutines.func") {
		t.Errorf("the goroutine was not found: %q", got)
	}
	if got := goroutines("another"); got != "" {
		t.Errorf("found for another label: %q", got)
	}
	close(stop)
	<-stopped
}

func TestRecorder(t *testing.T) {
	var r Recorder
	h, err := r.Define(definition())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Define(definition()); err != nil || again != h {
		t.Errorf("defined again: handle %d, %v, want %d", again, err, h)
	}
	whole := market.Instrument{ID: market.InstrumentID{Symbol: "*", Market: "M", Term: "*"}}
	if _, err := r.Define(whole); err != nil {
		t.Errorf("a market as a whole: %v", err)
	}
	if _, err := r.Define(market.Instrument{ID: market.InstrumentID{Symbol: "*", Market: "M", Term: "CI"}}); err == nil {
		t.Error("a pattern was defined")
	}
	bids := levels(1, 1)
	if err := r.Publish([]market.Event{{Kind: market.KindSnapshot, Handle: h, Bids: bids}}); err != nil {
		t.Fatal(err)
	}
	bids[0].Size = 0 // the source reuses its memory
	if got := r.Of(definition().ID); len(got) != 1 || !slices.Equal(got[0].Bids, levels(1, 1)) {
		t.Errorf("recorded %v", got)
	}
	if err := r.Publish([]market.Event{{Handle: h + 1}}); err == nil {
		t.Error("a handle that was not given out was taken")
	}
	if r.ID(h) != definition().ID || r.ID(0) != (market.InstrumentID{}) || r.Batches() != 1 || len(r.Definitions()) != 3 {
		t.Errorf("ID %v, %d batches, %d definitions", r.ID(h), r.Batches(), len(r.Definitions()))
	}
}

func TestRecorderWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		h, err := r.Define(definition())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- r.Wait(t.Context(), func(events []market.Event) bool { return len(events) >= 3 })
		}()
		for range 3 {
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatal("Wait returned too early")
			}
			if err := r.Publish([]market.Event{{Handle: h}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Wait(ctx, func([]market.Event) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait for ever: %v", err)
		}
	})
}

func TestHashSink(t *testing.T) {
	sum := func(base int64, batches ...[]market.Event) string {
		s := HashSink{Base: base}
		h, err := s.Define(definition())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			for i := range b {
				b[i].Handle = h
			}
			if err := s.Publish(b); err != nil {
				t.Fatal(err)
			}
		}
		if s.Events() == 0 {
			t.Error("no events counted")
		}
		return s.Sum()
	}
	a := market.Event{Kind: market.KindTrade, Time: 105, Price: tick, Size: lot, TradeID: "1", Reason: "2"}
	b := market.Event{Kind: market.KindUpdate, Time: 106, Bids: levels(1, 1)}
	want := sum(100, []market.Event{a, b})
	later := a
	later.Time, later.Receive = 205, 7
	laterB := b
	laterB.Time = 206
	for name, got := range map[string]string{
		"another batch": sum(100, []market.Event{a}, []market.Event{b}),
		"another base":  sum(200, []market.Event{later, laterB}),
	} {
		if got != want {
			t.Errorf("%s gives another sum", name)
		}
	}
	moved := a
	moved.TradeID, moved.Reason = "12", ""
	onAsks := b
	onAsks.Bids, onAsks.Asks = nil, b.Bids
	for name, got := range map[string]string{
		"another order":       sum(100, []market.Event{b, a}),
		"a letter moved over": sum(100, []market.Event{moved, b}),
		"the other side":      sum(100, []market.Event{a, onAsks}),
		"one less":            sum(100, []market.Event{a}),
	} {
		if got == want {
			t.Errorf("%s gives the same sum", name)
		}
	}
}
