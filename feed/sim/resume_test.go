package sim

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// TestGoOnE2E runs days after others: neither times nor trade ids repeat.
func TestGoOnE2E(t *testing.T) {
	loc := buenosAires(t)
	config := Config{Seed: 3, Clock: Virtual, Speed: -1, Start: friday(), Days: 1, Instruments: 5, Calendar: brief()}
	hours := func(s *Source) (first, last int64, ids map[string]bool) {
		t.Helper()
		var r feedtest.Recorder
		if err := s.Run(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		ids = map[string]bool{}
		for _, e := range r.Events() {
			if first == 0 {
				first = e.Time
			}
			last = max(last, e.Time)
			if e.Kind == market.KindTrade {
				ids[r.ID(e.Handle).String()+" "+e.TradeID] = true
			}
		}
		return first, last, ids
	}
	_, last, ids := hours(newSource(t, config))
	config.Start = time.Time{}
	for _, want := range []string{"2026-11-24 10:25", "2026-11-25 10:25"} {
		s := newSource(t, config)
		if err := s.ResumeAfter(time.Unix(0, last)); err != nil {
			t.Fatal(err)
		}
		begin, end, own := hours(s)
		if at := time.Unix(0, begin).In(loc).Format("2006-01-02 15:04"); at != want || begin < last {
			t.Errorf("it goes on at %s, want %s", at, want)
		}
		if len(own) < 100 {
			t.Errorf("only %d trades", len(own))
		}
		for id := range own {
			if ids[id] {
				t.Fatalf("trade %s comes again", id)
			}
			ids[id] = true
		}
		last = end
	}
	// Interrupted in the middle of a day.
	s := newSource(t, config)
	if err := s.ResumeAfter(time.Date(2026, 11, 25, 10, 40, 0, 0, loc)); err != nil {
		t.Fatal(err)
	}
	if begin, _, _ := hours(s); time.Unix(0, begin).In(loc).Format(time.DateTime) != "2026-11-26 10:25:00" {
		t.Errorf("after a broken day it goes on at %s", time.Unix(0, begin).In(loc))
	}
}

// TestResumeAfterReversed checks that market time cannot go back.
func TestResumeAfterReversed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, c := range []struct {
			name   string
			config Config
			after  time.Time
			behind bool
		}{
			{"a day that was", Config{Clock: Virtual, Start: friday()}, friday().Add(time.Hour), true},
			{"the day after it", Config{Clock: Virtual, Start: friday().AddDate(0, 0, 1)}, friday().Add(time.Hour), false},
			{"real time", Config{}, now.Add(-time.Hour), false},
			{"real time, set back a little", Config{}, now.Add(time.Second), false},
			{"real time behind virtual days", Config{}, now.Add(48 * time.Hour), true},
			{"a speed of its own", Config{Speed: 20}, now.Add(48 * time.Hour), false},
			{"a speed of its own, from a start", Config{Speed: 20, Start: now}, now.Add(48 * time.Hour), true},
		} {
			s := newSource(t, c.config)
			if err := s.ResumeAfter(c.after); errors.Is(err, ErrTimeReversed) != c.behind || err != nil && !c.behind {
				t.Errorf("%s: %v", c.name, err)
				continue
			} else if err != nil {
				continue
			}
			if first := s.config.FirstTradeID; int64(first) < c.after.UnixMilli() {
				t.Errorf("%s: trade ids begin with %d", c.name, first)
			}
			if c.config.Speed > 1 && !s.config.Start.Equal(c.after) {
				t.Errorf("%s: begins at %s", c.name, s.config.Start)
			}
		}
	})
}

// TestListedTradeIDs checks that the trade ids of an instrument listed by a fault also follow the
// earlier ones.
func TestListedTradeIDs(t *testing.T) {
	try(t, Config{Seed: 5, Instruments: 1, FirstTradeID: 1_000_000}, func(x *trial) {
		x.after("list", fakeID, 3*time.Second)
		trades := 0
		for _, e := range x.sink.Of(market.InstrumentID{Symbol: "NEW1", Market: venueSIM, Term: spot}) {
			if e.Kind != market.KindTrade {
				continue
			}
			trades++
			if n, err := strconv.Atoi(e.TradeID); err != nil || n < 1_000_000 {
				x.t.Fatalf("trade id %q", e.TradeID)
			}
		}
		if trades == 0 {
			x.t.Error("no trade")
		}
	})
}
