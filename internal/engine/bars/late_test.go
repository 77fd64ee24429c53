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
	c.Close(last, none)
	number := uint64(0)
	trade = func() {
		number++
		at := day + r.Int64N(last-day)
		c.Counts(at, last)
		s.Trade(Trade{N: number, ID: number, At: at, Price: market.Scale, Size: market.Scale}, false, none)
	}
	for range n {
		trade()
	}
	return s, trade
}

// TestLateTradesInNoOrder: the work for a late trade does not follow the number of trades of the
// day, because the trades of a minute are found by an index. The hub's lock is held meanwhile.
func TestLateTradesInNoOrder(t *testing.T) {
	s, trade := lateSeries(40_000)
	trade()
	if s.trades.minutes == nil {
		t.Fatal("40,000 trades in no order have no index")
	}
	most := 0
	for _, numbers := range s.trades.minutes {
		most = max(most, len(numbers))
	}
	if most > 200 {
		t.Errorf("%d trades of one minute, of 40,000 in a day", most)
	}
}

// TestCountOfTrades: a tradeLog counts the trades of a time whatever their order, those that were
// corrected and cancelled too.
func TestCountOfTrades(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var l tradeLog
	var all []*Trade
	for n := range 5 * chunkTrades {
		d := Trade{N: uint64(n + 1), ID: uint64(n + 1), At: r.Int64N(1000), Price: market.Scale, Size: market.Scale * market.Size(1+r.Int64N(9))}
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
		var want Totals
		ever := 0
		for i := range l.chunks {
			for j := range l.chunks[i].trades {
				d := &l.chunks[i].trades[j]
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
