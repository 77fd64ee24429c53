package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

var fakeID = market.InstrumentID{Symbol: "FAKE", Market: "SIM", Term: "CI"}

func newSource(t *testing.T, config Config) *Source {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		opts   feedtest.Options
	}{
		"fast for ever": {Config{Seed: 1, Speed: -1}, feedtest.Options{Events: 100_000}},
		"fast":          {Config{Seed: 2, Speed: math.Inf(1), Duration: 4 * time.Minute}, feedtest.Options{Finite: true}},
		"real time":     {Config{Seed: 3}, feedtest.Options{Events: 100}},
		"many":          {Config{Seed: 4, Speed: 1000, Instruments: 612, Duration: 20 * time.Second}, feedtest.Options{Finite: true}},
	} {
		t.Run(name, func(t *testing.T) {
			feedtest.Run(t, func(t *testing.T) feed.Source { return newSource(t, test.config) }, test.opts)
		})
	}
}

func hashOf(t *testing.T, config Config, base time.Time) (sum string, events int) {
	t.Helper()
	sink := feedtest.HashSink{Base: base.UnixNano()}
	if err := newSource(t, config).Run(t.Context(), &sink); err != nil {
		t.Fatal(err)
	}
	return sink.Sum(), sink.Events()
}

// TestDeterministicE2E checks that the same seed gives the same events at any speed and start, and
// another seed others.
func TestDeterministicE2E(t *testing.T) {
	start := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	config := Config{Seed: 7, Speed: -1, Start: start, Duration: 3 * time.Minute}
	want, events := hashOf(t, config, start)
	if events < 1000 {
		t.Fatalf("only %d events", events)
	}
	if got, _ := hashOf(t, config, start); got != want {
		t.Error("another run differs")
	}
	later := config
	later.Start = start.AddDate(0, 3, 0)
	if got, _ := hashOf(t, later, later.Start); got != want {
		t.Error("another start differs")
	}
	synctest.Test(t, func(t *testing.T) {
		paced := config
		paced.Speed = 2.5
		if got, _ := hashOf(t, paced, start); got != want {
			t.Error("another pace differs")
		}
		paced.Speed = 1
		if got, _ := hashOf(t, paced, start); got != want {
			t.Error("real time differs")
		}
	})
	other := config
	other.Seed = 8
	if got, _ := hashOf(t, other, start); got == want {
		t.Error("another seed gives the same events")
	}
}

// TestIndependentStreams checks that an instrument has the same events whatever else is listed.
func TestIndependentStreams(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	trades := func(n int) string {
		var r feedtest.Recorder
		if err := newSource(t, Config{Seed: 5, Speed: -1, Instruments: n, Start: start, Duration: time.Minute}).Run(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, e := range r.Of(fakeID) {
			if e.Kind == market.KindTrade {
				fmt.Fprintln(&text, e.Time, e.Price, e.Size, e.TradeID)
			}
		}
		return text.String()
	}
	if alone := trades(1); alone == "" || alone != trades(100) {
		t.Error("trades of FAKE|SIM|CI depend on what else is listed")
	}
}

// clockSink checks the times at which events arrive.
type clockSink struct {
	feedtest.Recorder
	t     *testing.T
	began time.Time
	speed float64
	start time.Time
}

func (s *clockSink) Publish(events []market.Event) error {
	now := time.Duration(float64(time.Since(s.began)) * s.speed)
	for _, e := range events {
		at := time.Duration(e.Time - s.start.UnixNano())
		// Nothing early and, in a bubble where work takes no time, nothing late.
		if late := now - at; late < -time.Microsecond || late > time.Microsecond {
			s.t.Errorf("event of %v came at %v", at, now)
		}
	}
	return s.Recorder.Publish(events)
}

func TestPace(t *testing.T) {
	for _, speed := range []float64{0, 1, 10, 0.5} {
		synctest.Test(t, func(t *testing.T) {
			config := Config{Seed: 1, Speed: speed, Duration: 20 * time.Second}
			sink := &clockSink{t: t, began: time.Now(), start: time.Now(), speed: speed}
			if speed == 0 {
				sink.speed = 1
			}
			if err := newSource(t, config).Run(t.Context(), sink); err != nil {
				t.Fatal(err)
			}
			took := time.Since(sink.began)
			if want := time.Duration(float64(config.Duration) / sink.speed); took != want {
				t.Errorf("speed %v: %v took %v, want %v", speed, config.Duration, took, want)
			}
			for _, in := range sink.Definitions() {
				if virtual := sink.speed != 1; in.VirtualClock != virtual {
					t.Fatalf("speed %v: %s has VirtualClock %v", speed, in.ID, in.VirtualClock)
				}
			}
		})
	}
}

// TestFirstTrade checks that with any seed there is a trade within a second.
func TestFirstTrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(8) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var sink feedtest.Recorder
			if err := newSource(t, Config{Seed: seed}).Run(ctx, &sink); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Run returned %v", err)
			}
			cancel()
			trades := 0
			for _, e := range sink.Of(fakeID) {
				if e.Kind == market.KindTrade {
					trades++
				}
			}
			if trades == 0 {
				t.Errorf("seed %d: no trade of %s in the first second", seed, fakeID)
			}
		}
	})
}

func TestListings(t *testing.T) {
	for _, n := range []int{0, 1, 2, 24, 59, 67, 68, 400, 612, 1000} {
		list := newSource(t, Config{Instruments: n}).Instruments()
		if n > 0 && len(list) != n {
			t.Errorf("%d instruments, want %d", len(list), n)
		}
		if list[0].ID != fakeID {
			t.Errorf("the first is %s, want %s", list[0].ID, fakeID)
		}
		seen := map[market.InstrumentID]bool{}
		terms := map[string]int{}
		for _, in := range list {
			if err := in.Validate(); err != nil {
				t.Error(err)
			}
			if seen[in.ID] {
				t.Errorf("%s is listed twice", in.ID)
			}
			seen[in.ID] = true
			terms[in.ID.Market+" "+in.ID.Term]++
		}
		if n == 0 && (terms["BYMA 24hs"] < 24 || terms["BYMA CI"] != terms["BYMA 24hs"]) {
			t.Errorf("the default set has %v", terms)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for want, config := range map[string]Config{
		"instruments must not be negative": {Instruments: -1},
		"speed must be a number":           {Speed: math.NaN()},
		"duration must not be negative":    {Duration: -1},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): %v, want %q", config, err, want)
		}
	}
}

// brokenSink fails at the nth Publish.
type brokenSink struct {
	feedtest.CountSink
	left int
}

var errBroken = errors.New("broken")

func (s *brokenSink) Publish(events []market.Event) error {
	if s.left--; s.left < 0 {
		return errBroken
	}
	return s.CountSink.Publish(events)
}

func TestBrokenSink(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		if err := newSource(t, Config{Speed: -1}).Run(t.Context(), &brokenSink{left: n}); !errors.Is(err, errBroken) {
			t.Errorf("sink that breaks after %d batches: Run returned %v", n, err)
		}
	}
}

// TestAllocsE2E checks that only trade ids are allocated in the steady state.
func TestAllocsE2E(t *testing.T) {
	listings, err := list(defaultSet)
	if err != nil {
		t.Fatal(err)
	}
	x := newExchange(1, listings, -int64(warmUp), nil)
	x.warmUp()
	trades := 0
	minute := func() {
		for end := x.now + 60*second; x.next() < end; {
			x.step()
			if len(x.events) >= batch {
				for i := range x.events {
					if x.events[i].Kind == market.KindTrade {
						trades++
					}
				}
				x.clear()
			}
		}
	}
	for range 40 {
		minute() // until after the busiest minute
	}
	trades = 0
	const runs = 10
	allocs := testing.AllocsPerRun(runs, minute)
	perRun := float64(trades) / (runs + 1)
	if extra := allocs - perRun; extra > 20 {
		t.Errorf("%v allocations and %v trades a minute", allocs, perRun)
	}
}
