package gateway

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

// recorder is a feed.Sink that notes what comes, on the calling goroutine.
type recorder struct {
	ids    []market.InstrumentID
	events []string // identifier and what of it
}

func (r *recorder) Define(in market.Instrument) (market.Handle, error) {
	if i := slices.Index(r.ids, in.ID); i >= 0 {
		return market.Handle(i), nil
	}
	r.ids = append(r.ids, in.ID)
	r.note(in.ID, "listed "+in.Phase.String())
	return market.Handle(len(r.ids) - 1), nil
}

func (r *recorder) Publish(events []market.Event) error {
	for _, e := range events {
		text := "trade"
		if e.Kind == market.KindStatus {
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

func TestSupervisorRestartsAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		runs := 0
		s := newSupervisor(Feed{Name: "test", Source: sourceFunc(func(ctx context.Context, sink feed.Sink) error {
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
			return nil // it has no more
		})}, &rec, slog.New(slog.DiscardHandler))
		began := time.Now()
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > firstPause+2*firstPause {
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
		if s.failing.Load() {
			t.Error("a feed that ended is taken as failing")
		}
	})
}

func TestSupervisorBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		s := newSupervisor(Feed{Name: "test", Source: sourceFunc(func(context.Context, feed.Sink) error {
			starts = append(starts, time.Now())
			return errors.New("refused")
		})}, &recorder{}, slog.New(slog.DiscardHandler))
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
			if gap := starts[i].Sub(starts[i-1]); gap > lastPause {
				t.Errorf("pause of %v", gap)
			}
		}
		if !s.failing.Load() {
			t.Error("a feed that fails is not taken as failing")
		}
	})
}
