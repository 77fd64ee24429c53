package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// tracker follows one instrument's events and collects its figures.
type tracker struct {
	book    market.Book
	pending market.Size // traded, but not yet removed from the book
	side    market.Side // aggressor of that trade
	trades  int
	signs   []float64     // of marketable orders, not of their fills
	counts  map[int64]int // trades by second
	spreads []float64     // in basis points, after each update
	updates int
}

// trackers is a feed.Sink that follows every instrument.
type trackers struct {
	t    *testing.T
	ids  []market.InstrumentID
	all  []*tracker
	byID map[string]*tracker
}

func (s *trackers) Define(in market.Instrument) (market.Handle, error) {
	x := &tracker{counts: map[int64]int{}}
	s.ids, s.all = append(s.ids, in.ID), append(s.all, x)
	s.byID[in.ID.String()] = x
	return market.Handle(len(s.all) - 1), nil
}

func (s *trackers) Publish(events []market.Event) error {
	for i := range events {
		h := events[i].Handle
		s.all[h].follow(s.t, s.ids[h], &events[i])
	}
	return nil
}

// TestFactsE2E runs half an hour of the default set and checks wide bounds of realistic figures.
// Like other tests of one goroutine that compute for long, it runs without the race detector.
func TestFactsE2E(t *testing.T) {
	const span = 30 * time.Minute
	sink := trackers{t: t, byID: map[string]*tracker{}}
	start := time.Unix(1_800_000_000, 0)
	if err := newSource(t, Config{Seed: 11, Speed: -1, Start: start, Duration: span}).Run(t.Context(), &sink); err != nil {
		t.Fatal(err)
	}
	for _, bounds := range []struct {
		id                      string
		minTrades, maxTrades    float64 // a minute
		minUpdates, maxUpdates  float64 // a second
		minSpread, medianSpread float64 // basis points
		minSign                 float64 // autocorrelation at lag 1
	}{
		{"FAKE|SIM|CI", 120, 900, 5, 60, .1, 30, .2},
		{"GGAL|BYMA|24hs", 10, 500, 2, 40, .1, 15, .2},
		{"AL30|BYMA|24hs", 10, 600, 2, 40, .1, 15, .2},
		{"AL30D|BYMA|CI", 10, 600, 2, 40, .1, 15, .2},
		{"AAPL|BYMA|24hs", 2, 150, .3, 15, .1, 30, 0},
		{"GGAL|BYMA|CI", .05, 20, .01, 6, .1, 150, -1},
	} {
		x := sink.byID[bounds.id]
		minutes := span.Minutes()
		within(t, bounds.id, "trades a minute", float64(x.trades)/minutes, bounds.minTrades, bounds.maxTrades)
		within(t, bounds.id, "updates a second", float64(x.updates)/span.Seconds(), bounds.minUpdates, bounds.maxUpdates)
		slices.Sort(x.spreads)
		within(t, bounds.id, "median spread in basis points", x.spreads[len(x.spreads)/2], bounds.minSpread, bounds.medianSpread)
		within(t, bounds.id, "sign autocorrelation", autocorrelation(x.signs), bounds.minSign, 1)
	}
	lively := sink.byID["FAKE|SIM|CI"]
	quiet := 0
	for s := range int64(span.Seconds()) {
		if lively.counts[start.Unix()+s] == 0 {
			quiet++
		}
	}
	within(t, "FAKE|SIM|CI", "share of seconds without a trade", float64(quiet)/span.Seconds(), 0, .02)
	within(t, "GGAL|BYMA|24hs", "Fano factor of trades a second", fano(sink.byID["GGAL|BYMA|24hs"].counts, start.Unix(), int64(span.Seconds())), 1.5, 100)
}

func within(t *testing.T, id, what string, got, low, high float64) {
	t.Helper()
	t.Logf("%s: %s %.3g", id, what, got)
	if !(got >= low && got <= high) {
		t.Errorf("%s: %s is %.3g, want %v to %v", id, what, got, low, high)
	}
}

// follow checks each event against the book: what traded is exactly what the following update
// removes, best price first, and the book never crosses.
func (x *tracker) follow(t *testing.T, id market.InstrumentID, e *market.Event) {
	switch e.Kind {
	case market.KindTrade:
		best, ok := x.book.Best(opposite(e.Side))
		if !ok || (x.pending == 0 && e.Price != best.Price) {
			t.Fatalf("%s: trade at %s, best is %s", id, e.Price, best.Price)
		}
		if x.pending == 0 {
			s := 1.0
			if e.Side == market.Sell {
				s = -1
			}
			x.signs = append(x.signs, s)
		}
		x.side = e.Side
		x.pending += e.Size
		x.trades++
		x.counts[e.Time/1e9]++
	case market.KindUpdate, market.KindSnapshot:
		taken := market.Size(0)
		for _, l := range e.Bids {
			old, _ := x.book.Set(market.Buy, l)
			if x.side == market.Sell {
				taken += old.Size - l.Size
			}
		}
		for _, l := range e.Asks {
			old, _ := x.book.Set(market.Sell, l)
			if x.side == market.Buy {
				taken += old.Size - l.Size
			}
		}
		if x.pending != 0 && taken != x.pending {
			t.Fatalf("%s: %s traded, %s left the book", id, x.pending, taken)
		}
		x.pending, x.side = 0, market.NoSide
		if x.book.Crossed() {
			t.Fatalf("%s: book crossed", id)
		}
		x.updates++
		bid, hasBid := x.book.Best(market.Buy)
		ask, hasAsk := x.book.Best(market.Sell)
		if hasBid && hasAsk {
			x.spreads = append(x.spreads, float64(ask.Price-bid.Price)/float64(bid.Price)*1e4)
		}
	}
}

func autocorrelation(s []float64) float64 {
	if len(s) < 2 {
		return math.NaN()
	}
	mean := 0.0
	for _, v := range s {
		mean += v / float64(len(s))
	}
	num, den := 0.0, 0.0
	for i, v := range s {
		den += (v - mean) * (v - mean)
		if i > 0 {
			num += (v - mean) * (s[i-1] - mean)
		}
	}
	if den == 0 {
		return 1
	}
	return num / den
}

// fano returns the variance of the counts divided by their mean: 1 for a Poisson process, more if
// trades cluster.
func fano(counts map[int64]int, from, n int64) float64 {
	mean, square := 0.0, 0.0
	for s := range n {
		c := float64(counts[from+s])
		mean += c / float64(n)
		square += c * c / float64(n)
	}
	return (square - mean*mean) / mean
}
