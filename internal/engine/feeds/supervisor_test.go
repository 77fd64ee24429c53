package feeds

import (
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

// recorder is a feed.Sink that records events on the calling goroutine.
type recorder struct {
	ids    []market.InstrumentID
	all    []market.Instrument // the first definition of each identifier
	events []string            // identifier and description
}

func (r *recorder) Define(in market.Instrument) (market.Handle, error) {
	if i := slices.Index(r.ids, in.ID); i >= 0 {
		return market.Handle(i), nil
	}
	r.ids, r.all = append(r.ids, in.ID), append(r.all, in)
	r.note(in.ID, "listed "+in.Phase.String())
	return market.Handle(len(r.ids) - 1), nil
}

func (r *recorder) Publish(events []market.Event) error {
	for _, e := range events {
		text := "trade"
		switch e.Kind {
		case market.KindGap:
			text = "gap " + e.Reason
		case market.KindStatus:
			text = strings.TrimSpace(e.Phase.String() + " " + e.Reason)
		}
		r.note(r.ids[e.Handle], text)
	}
	return nil
}

func (r *recorder) note(id market.InstrumentID, text string) {
	r.events = append(r.events, id.String()+" "+text)
}

// sourceFunc is a feed.Source.
type sourceFunc func(ctx context.Context, sink feed.Sink) error

func (f sourceFunc) Run(ctx context.Context, sink feed.Sink) error { return f(ctx, sink) }

func oneTrade(sink feed.Sink) error {
	h, err := sink.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}})
	if err != nil {
		return err
	}
	return sink.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Price: 1, Size: 1}})
}

func TestSupervisorRestartsAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		runs := 0
		s := NewSupervisor("test", sourceFunc(func(ctx context.Context, sink feed.Sink) error {
			runs++
			if err := oneTrade(sink); err != nil {
				return err
			}
			switch runs {
			case 1:
				return errors.New("line broke")
			case 2:
				panic("source is broken")
			}
			return nil // the source has ended
		}), &rec, Checks{}, NewRegistry(neverDown), slog.New(slog.DiscardHandler))
		began := time.Now()
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > firstBackoff+2*firstBackoff {
			t.Errorf("two restarts took %v", took)
		}
		want := []string{
			"GGAL|BYMA|24hs listed ", "*|BYMA|* listed ", "GGAL|BYMA|24hs trade",
			"*|BYMA|* feed_down feed_error", "*|BYMA|* feed_up", "GGAL|BYMA|24hs trade",
			"*|BYMA|* feed_down feed_error", "*|BYMA|* feed_up", "GGAL|BYMA|24hs trade",
			"*|BYMA|* feed_down feed_ended",
		}
		if !slices.Equal(rec.events, want) {
			t.Errorf("events:\n got %q\nwant %q", rec.events, want)
		}
		if s.registry.Live() {
			t.Error("a feed that ended is taken as up")
		}
	})
}

// TestMarketClock checks that a market as a whole has the clock of its first instrument. The end of
// a recording would otherwise have the present time, years after its last event.
func TestMarketClock(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		var rec recorder
		s := NewSupervisor("test", nil, &rec, Checks{}, NewRegistry(neverDown), slog.New(slog.DiscardHandler))
		in := market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, VirtualClock: virtual, Listed: 1e18}
		if _, err := s.Define(in); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if virtual {
			want = 1e18
		}
		if whole := rec.all[1]; !whole.ID.IsPattern() || whole.VirtualClock != virtual || whole.Listed != want {
			t.Errorf("virtual %v: the market is %+v", virtual, whole)
		}
	}
}

func TestSupervisorBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		s := NewSupervisor("test", sourceFunc(func(context.Context, feed.Sink) error {
			starts = append(starts, time.Now())
			return errors.New("refused")
		}), &recorder{}, Checks{}, NewRegistry(neverDown), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		// Half a minute at most, a quarter on average: about 240 in an hour.
		if n := len(starts); n < 150 || n > 400 {
			t.Errorf("%d starts in an hour", n)
		}
		for i := 1; i < len(starts); i++ {
			if gap := starts[i].Sub(starts[i-1]); gap > maxBackoff {
				t.Errorf("pause of %v", gap)
			}
		}
		if s.registry.Live() {
			t.Error("a feed that fails is taken as up")
		}
	})
}

// final is a permanent error.
type final struct{ error }

func (final) Final() bool { return true }

func TestSupervisorEndsAfterFinalError(t *testing.T) {
	var rec recorder
	runs := 0
	s := NewSupervisor("test", sourceFunc(func(_ context.Context, sink feed.Sink) error {
		runs++
		return errors.Join(oneTrade(sink), final{errors.New("damaged")})
	}), &rec, Checks{}, NewRegistry(neverDown), slog.New(slog.DiscardHandler))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := rec.events[len(rec.events)-1]; runs != 1 || last != "*|BYMA|* feed_down feed_error" || s.registry.Live() {
		t.Errorf("%d runs, in the end %q, up %v", runs, last, s.registry.Live())
	}
}

// TestTwoFeedsOfAMarket checks that a market is down when all of its feeds are, and that an
// instrument has one feed.
func TestTwoFeedsOfAMarket(t *testing.T) {
	var rec recorder
	b := NewRegistry(neverDown)
	var feeds [2]*Supervisor
	var handles [2]market.Handle
	for i, symbol := range []string{"GGAL", "AL30"} {
		feeds[i] = NewSupervisor("feed of "+symbol, nil, &rec, Checks{}, b, slog.New(slog.DiscardHandler))
		h, err := feeds[i].Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "BYMA", Term: "CI"}})
		if err != nil {
			t.Fatal(err)
		}
		handles[i] = h
	}
	ggal := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}
	if _, err := feeds[1].Define(market.Instrument{ID: ggal}); !errors.Is(err, errOwned) || !strings.Contains(err.Error(), "feed of GGAL") {
		t.Errorf("an instrument of another feed: %v", err)
	}
	whole, err := feeds[0].Define(wholeMarket("BYMA"))
	if err != nil {
		t.Fatal(err)
	}
	say := func(i int, p market.Phase) {
		t.Helper()
		err := feeds[i].Publish([]market.Event{
			{Kind: market.KindStatus, Handle: whole, Phase: p},
			{Kind: market.KindTrade, Handle: handles[i]},
		})
		if err != nil {
			t.Fatal(err)
		}
		if up := feeds[i].Stats().Up; up != (p == market.FeedUp && !feeds[i].down.Load()) {
			t.Errorf("feed %d is up after %s: %t", i, p, up)
		}
	}
	rec.events = nil
	say(1, market.FeedDown)
	say(1, market.FeedUp)
	feeds[0].markDown(reasonFeedError)
	say(1, market.FeedDown)
	say(1, market.FeedUp)
	say(1, market.FeedDown)
	say(0, market.FeedUp)
	want := []string{
		"AL30|BYMA|CI trade", "AL30|BYMA|CI trade",
		"GGAL|BYMA|CI gap feed_error",
		"*|BYMA|* feed_down", "AL30|BYMA|CI trade",
		"*|BYMA|* feed_up", "AL30|BYMA|CI trade",
		"*|BYMA|* feed_down", "AL30|BYMA|CI trade",
		"*|BYMA|* feed_up", "GGAL|BYMA|CI trade",
	}
	if !slices.Equal(rec.events, want) {
		t.Errorf("events:\n got %q\nwant %q", rec.events, want)
	}
}

// TestFeedUpAfterRestart checks that feed_up follows if the journal ends with feed_down. Clients
// that follow the market over the restart would otherwise wait for it forever.
func TestFeedUpAfterRestart(t *testing.T) {
	for _, down := range []bool{true, false} {
		var rec recorder
		b := NewRegistry(func(string) market.Phase {
			if down {
				return market.FeedDown
			}
			return market.NoPhase
		})
		s := NewSupervisor("feed", nil, &rec, Checks{}, b, slog.New(slog.DiscardHandler))
		for _, symbol := range []string{"GGAL", "AL30"} {
			if _, err := s.Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "BYMA", Term: "CI"}}); err != nil {
				t.Fatal(err)
			}
		}
		if notified := slices.Contains(rec.events, "*|BYMA|* feed_up"); notified != down {
			t.Errorf("down before: %v: %q", down, rec.events)
		}
	}
}

// refuser rejects every event.
type refuser struct{ recorder }

func (refuser) Publish(events []market.Event) error {
	var errs []error
	for i := range events {
		errs = append(errs, &market.Refused{Index: i})
	}
	return errors.Join(errs...)
}

func TestRefusedKeepTheirIndexes(t *testing.T) {
	events := make([]market.Event, 4)
	i := 0
	err := publishFiltered((&refuser{}).Publish, events, func(*market.Event) bool { i++; return i%2 == 0 })
	var places []int
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var r *market.Refused
		if errors.As(e, &r) {
			places = append(places, r.Index)
		}
	}
	if !slices.Equal(places, []int{1, 3}) {
		t.Errorf("refused at %v", places)
	}
}

// neverDown returns the status of a market that was never down.
func neverDown(string) market.Phase { return market.NoPhase }
