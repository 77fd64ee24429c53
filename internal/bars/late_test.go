package bars

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// lateSeries is a series with n trades of a day that came in no order.
func lateSeries(n int) (s *Series, trade func()) {
	r := rand.New(rand.NewPCG(1, 2))
	c := NewClock(time.UTC, true)
	s = &Series{}
	s.Enter(c)
	none := func(*Series, *Bar) {}
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixNano()
	last := day + int64(23*time.Hour)
	c.Strike(last, none)
	number := uint64(0)
	trade = func() {
		number++
		at := day + r.Int64N(last-day)
		c.Counts(at, last)
		s.Trade(Deal{N: number, ID: number, At: at, Price: market.Scale, Size: market.Scale}, false, none)
	}
	for range n {
		trade()
	}
	return s, trade
}

// TestLateTradesInNoOrder: what a late trade costs does not follow the number of trades of the day. The
// hub's lock is held meanwhile.
func TestLateTradesInNoOrder(t *testing.T) {
	cost := func(n int) time.Duration {
		_, trade := lateSeries(n)
		for range 500 {
			trade()
		}
		best := time.Hour
		for range 5 {
			begin := time.Now()
			for range 200 {
				trade()
			}
			best = min(best, time.Since(begin))
		}
		return best / 200
	}
	few, many := cost(2_000), cost(40_000)
	t.Logf("a late trade takes %v behind 2,000 and %v behind 40,000", few, many)
	if many > 5*few {
		t.Errorf("a late trade takes %v behind 2,000 and %v behind 40,000", few, many)
	}
}

// TestCountOfLedger: a ledger counts the deals of a time whatever their order, those that were
// corrected and cancelled too.
func TestCountOfLedger(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var l ledger
	var all []*Deal
	for n := range 5 * chunkDeals {
		d := Deal{N: uint64(n + 1), ID: uint64(n + 1), At: r.Int64N(1000), Price: market.Scale, Size: market.Scale * market.Size(1+r.Int64N(9))}
		l.add(d, false)
		all = append(all, l.find(d.ID))
		if r.IntN(10) == 0 {
			all[r.IntN(len(all))].Size = []market.Size{cancelled, void, market.Scale}[r.IntN(3)]
		}
		if n%100 != 0 {
			continue
		}
		start := r.Int64N(1000)
		end := start + r.Int64N(50)
		var want Tally
		ever := 0
		for i := range l.chunks {
			for j := range l.chunks[i].deals {
				d := &l.chunks[i].deals[j]
				if d.At < start || d.At >= end || d.Size == void {
					continue
				}
				if ever++; d.Size > 0 {
					want.Add(d.At, d.Price, d.Size)
				}
			}
		}
		if got, n := l.count(start, end); got != want || n != ever {
			t.Fatalf("%d to %d: %+v of %d, want %+v of %d", start, end, got, n, want, ever)
		}
	}
}
