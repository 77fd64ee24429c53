package feeds

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// usual are the checks of these tests.
var usual = Checks{Band: 0.5, Ahead: 5 * time.Second, Stall: time.Minute}

// checkedFeed is a Supervisor with the handle of one instrument, and what reaches the sink.
type checkedFeed struct {
	*Supervisor
	rec    recorder
	log    bytes.Buffer
	handle market.Handle
}

func newCheckedFeed(t *testing.T, checks Checks, change func(*market.Instrument)) *checkedFeed {
	t.Helper()
	f := &checkedFeed{}
	f.Supervisor = NewSupervisor("byma", nil, &f.rec, checks, NewRegistry(neverDown), slog.New(slog.NewTextHandler(&f.log, nil)))
	in := market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}, PriceDecimals: 2}
	if change != nil {
		change(&in)
	}
	var err error
	if f.handle, err = f.Define(in); err != nil {
		t.Fatal(err)
	}
	f.rec.events = nil
	return f
}

// trade returns a trade at a price in hundredths.
func (f *checkedFeed) trade(price int64) market.Event {
	return market.Event{Kind: market.KindTrade, Handle: f.handle, Price: market.Price(price * market.Scale / 100), Size: 1}
}

// suspects returns the counts above 0, without those of other kinds.
func (f *checkedFeed) suspects(kind Suspect) uint64 {
	all := f.Stats().Suspect
	n := all[kind.String()]
	all[kind.String()] = 0
	for _, other := range all {
		n += 1000 * other
	}
	return n
}

func TestPriceJumps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule   string
		prices []int64 // hundredths
		jumps  uint64
		passed int // if they are refused
	}{
		{"within the band", []int64{1000, 1500, 750, 1125}, 0, 4},
		{"one wrong trade is a jump, and the next right one is none", []int64{1000, 1501, 1000, 1010}, 1, 3},
		{"a second trade confirms the new price", []int64{1000, 2000, 2100, 2000}, 1, 3},
		{"two wrong trades at different prices", []int64{1000, 2000, 4000, 1000}, 2, 2},
		{"down", []int64{1000, 499}, 1, 1},
		{"ten steps of the last decimal are no jump", []int64{5, 15, 5}, 0, 3},
		{"eleven are", []int64{5, 16}, 1, 1},
		{"negative prices", []int64{-1000, -1400, 100}, 1, 2},
		{"nothing is known after a price of 0", []int64{0, 5000}, 0, 2},
	} {
		for _, refuse := range [][]string{nil, {"price_jump"}} {
			checks := usual
			checks.Refuse = refuse
			f := newCheckedFeed(t, checks, nil)
			var events []market.Event
			for _, p := range c.prices {
				events = append(events, f.trade(p))
			}
			err := f.Publish(events)
			if n := f.suspects(PriceJump); n != c.jumps {
				t.Errorf("%s: %d jumps, want %d", c.rule, n, c.jumps)
			}
			want := len(events)
			if refuse != nil {
				want = c.passed
			}
			if len(f.rec.events) != want || (err != nil) != (want < len(events)) {
				t.Errorf("%s, refuse %q: %d of %d events passed, error %v", c.rule, refuse, len(f.rec.events), len(events), err)
			}
		}
	}
}

func TestFutureTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		batch := func(f *checkedFeed) []market.Event {
			near, far := f.trade(100), f.trade(100)
			near.Time, far.Time = now.Add(5*time.Second).UnixNano(), now.Add(5*time.Second+1).UnixNano()
			book := market.Event{Kind: market.KindUpdate, Handle: f.handle, Time: now.Add(time.Hour).UnixNano()}
			return []market.Event{near, far, book, f.trade(100)}
		}
		f := newCheckedFeed(t, usual, nil)
		if err := f.Publish(batch(f)); err != nil || f.suspects(FutureTime) != 2 || len(f.rec.events) != 4 {
			t.Errorf("%v, found %d, passed %q", err, f.suspects(FutureTime), f.rec.events)
		}
		checks := usual
		checks.Refuse = []string{"future_time"}
		f = newCheckedFeed(t, checks, nil)
		err := f.Publish(batch(f))
		if want := []string{"GGAL|BYMA|CI trade", "GGAL|BYMA|CI gap future_time", "GGAL|BYMA|CI trade"}; !slices.Equal(f.rec.events, want) {
			t.Errorf("passed %q, want %q", f.rec.events, want)
		}
		var refused []int
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			if r := (*market.Refused)(nil); errors.As(e, &r) && r.Reason == "future_time" && strings.Contains(r.Detail, "ahead") {
				refused = append(refused, r.Index)
			}
		}
		if !slices.Equal(refused, []int{1, 2}) {
			t.Errorf("refused %v of %v", refused, err)
		}
		f = newCheckedFeed(t, checks, func(in *market.Instrument) { in.VirtualClock = true })
		if err := f.Publish(batch(f)); err != nil || f.suspects(FutureTime) != 0 {
			t.Errorf("a recording: %v, found %d", err, f.suspects(FutureTime))
		}
		f = newCheckedFeed(t, Checks{}, nil)
		if err := f.Publish(batch(f)); err != nil || f.suspects(FutureTime) != 0 {
			t.Errorf("without the check: %v, found %d", err, f.suspects(FutureTime))
		}
	})
}

func TestSequencesThatGoBack(t *testing.T) {
	t.Parallel()
	type step struct {
		kind     market.Kind
		sequence uint64
	}
	trade, update, snapshot, gap := market.KindTrade, market.KindUpdate, market.KindSnapshot, market.KindGap
	for _, c := range []struct {
		rule    string
		steps   []step
		counted uint64
		refused uint64 // if they are
	}{
		{"rising, equal, and without a number", []step{{trade, 5}, {trade, 6}, {trade, 6}, {trade, 0}, {trade, 9}}, 0, 0},
		{"back", []step{{trade, 5}, {trade, 4}, {trade, 5}, {trade, 6}}, 1, 1},
		{"a restart is counted once, and refused until it has caught up", []step{{trade, 5}, {trade, 1}, {trade, 2}, {trade, 5}}, 1, 2},
		{"channels count alone", []step{{trade, 5}, {update, 1}, {market.KindQuote, 1}, {market.KindCancel, 4}}, 1, 1},
		{"a snapshot restarts the numbers of the book", []step{{update, 5}, {snapshot, 1}, {update, 2}}, 0, 0},
		{"a gap restarts all", []step{{trade, 5}, {update, 5}, {gap, 0}, {trade, 1}, {update, 1}}, 0, 0},
	} {
		for _, refuse := range [][]string{nil, {"sequence_back"}} {
			f := newCheckedFeed(t, Checks{Refuse: refuse}, nil)
			for _, s := range c.steps {
				_ = f.Publish([]market.Event{{Kind: s.kind, Handle: f.handle, Sequence: s.sequence, Price: 1, Size: 1}})
			}
			want, passed := c.counted, len(c.steps)
			if refuse != nil {
				want, passed = c.refused, len(c.steps)-int(c.refused)
			}
			if n := f.suspects(SequenceBack); n != want || len(f.rec.events) != passed {
				t.Errorf("%s, refuse %q: %d, want %d; passed %q", c.rule, refuse, n, want, f.rec.events)
			}
		}
	}
	// A new connection defines its instruments again, and a new run of the source restarts all.
	f := newCheckedFeed(t, Checks{}, nil)
	publish := func(n uint64) {
		t.Helper()
		if err := f.Publish([]market.Event{{Kind: trade, Handle: f.handle, Sequence: n, Size: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	publish(5)
	if _, err := f.Define(market.Instrument{ID: f.rec.ids[f.handle]}); err != nil {
		t.Fatal(err)
	}
	publish(1)
	f.source = sourceFunc(func(context.Context, feed.Sink) error { publish(0); return nil })
	if err := f.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(1)
	if n := f.suspects(SequenceBack); n != 0 {
		t.Errorf("%d after a restart", n)
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule  string
		every time.Duration // between two events
		phase func(since time.Duration) market.Phase
		end   bool // the source ends after the first event
		want  uint64
	}{
		{"events come", 59 * time.Second, nil, false, 0},
		{"a stall is counted once", 3 * time.Minute, nil, false, 3},
		{"the market is closed", 3 * time.Minute, func(time.Duration) market.Phase { return market.Closed }, false, 0},
		{"the market opens", time.Hour, func(d time.Duration) market.Phase {
			if d < 5*time.Minute {
				return market.Closed
			}
			return market.Open
		}, false, 1},
		{"the market opens and closes within the limit", time.Hour, func(d time.Duration) market.Phase {
			if d < 5*time.Minute || d > 5*time.Minute+50*time.Second {
				return market.Closed
			}
			return market.Open
		}, false, 0},
		{"the feed has ended", time.Minute, nil, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			phase := neverDown
			if c.phase != nil {
				phase = func(string) market.Phase { return c.phase(time.Since(began)) }
			}
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute+30*time.Second)
			defer cancel()
			var log bytes.Buffer
			s := NewSupervisor("byma", sourceFunc(func(ctx context.Context, sink feed.Sink) error {
				for {
					if err := oneTrade(sink); err != nil || c.end {
						return err
					}
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(c.every):
					}
				}
			}), &recorder{}, usual, NewRegistry(phase), slog.New(slog.NewTextHandler(&log, nil)))
			if err := s.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if n := s.Stats().Suspect["stall"]; n != c.want || strings.Count(log.String(), "reason=stall") != int(c.want) {
				t.Errorf("%s: %d stalls, want %d\n%s", c.rule, n, c.want, &log)
			}
		})
	}
}

// TestSuspectLogged checks that each kind has one line a minute, with the count since the one
// before.
func TestSuspectLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCheckedFeed(t, usual, nil)
		for i := range 100 {
			late := f.trade(100)
			late.Time = time.Now().Add(time.Hour).UnixNano()
			if err := f.Publish([]market.Event{f.trade(100 << (i % 2 * 4)), late}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for _, want := range []string{
			`msg="feed looks wrong" feed=byma instrument=GGAL|BYMA|CI reason=future_time error="its time is 1h0m0s ahead" count=1`,
			"reason=future_time error=\"its time is 1h0m0s ahead\" count=60",
			`reason=price_jump error="a trade at 16 came after one at 1" count=1`,
		} {
			if !strings.Contains(f.log.String(), want) {
				t.Errorf("the log does not have %s", want)
			}
		}
		if n := strings.Count(f.log.String(), "\n"); n != 4 {
			t.Errorf("%d lines\n%s", n, &f.log)
		}
	})
}

func TestChecksOfUnknownKinds(t *testing.T) {
	for _, word := range []string{"stall", "price", ""} {
		c := Checks{Refuse: []string{word}}
		if err := c.Check(); err == nil {
			t.Errorf("%q is accepted", word)
		}
	}
	c := Checks{Refuse: Refusable()}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkChecks is the cost of the checks for an event, in batches of 1 and 64, with the trades
// of 512 instruments.
func BenchmarkChecks(b *testing.B) {
	for name, size := range map[string]int{"batch of 1": 1, "batch of 64": 64} {
		b.Run(name, func(b *testing.B) {
			c := newChecker(usual)
			events := make([]market.Event, 512)
			for i := range events {
				c.define(market.Handle(i), &market.Instrument{ID: market.InstrumentID{Symbol: "S", Market: "BYMA", Term: "CI"}})
				events[i] = market.Event{Kind: market.KindTrade, Handle: market.Handle(i), Price: 1e8, Size: 1e8, Time: 1, Sequence: 7}
			}
			now := time.Now()
			b.ReportAllocs()
			for i := 0; i < b.N; i += size {
				at := i % len(events)
				if list := c.check(events[at:at+size], now); list != nil {
					b.Fatal(list)
				}
			}
		})
	}
}
