package bars

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestCloseInPieces closes the bars of one clock at once, and those of another one series at a time
// with trades, cancellations and corrections in between. Each series sends the same bars in the
// same order.
func TestCloseInPieces(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		clocks := [2]*Clock{NewClock(time.UTC, false), NewClock(time.UTC, false)}
		var series [2][4]Series
		var sent [2][4][]string
		record := func(side int) SendFunc {
			return func(s *Series, b *Bar) {
				i := s.Owner.(int)
				sent[side][i] = append(sent[side][i], fmt.Sprintf("%+v", *b))
			}
		}
		for side := range series {
			for i := range series[side] {
				series[side][i].Owner = i
				series[side][i].Enter(clocks[side])
			}
		}
		now := int64(1_700_000_000e9)
		for n := range uint64(400) {
			now += rng.Int64N(int64(3*time.Second)) * (1 + 40*rng.Int64N(2)*rng.Int64N(2))
			if next := clocks[0].Next(); next != 0 && next <= now {
				clocks[0].Close(now, record(0))
				clocks[1].Begin(now)
			}
			for range rng.IntN(4) { // the rest comes between later trades
				clocks[1].Continue(record(1))
			}
			i := rng.IntN(4)
			d := Trade{N: n, ID: n + 1, At: now - rng.Int64N(int64(5*time.Second)), Price: market.Price(rng.IntN(9)), Size: 1}
			other, size := 1+rng.Uint64N(n+1), market.Size(rng.IntN(2))
			for side := range series {
				s := &series[side][i]
				s.Trade(d, false, record(side))
				if x := s.Find(other); x != nil && n%3 == 0 {
					s.Amend(x, 5, size, record(side))
				}
			}
		}
		for clocks[1].Continue(record(1)) {
		}
		for i := range sent[0] {
			if !slices.Equal(sent[0][i], sent[1][i]) {
				t.Fatalf("seed %d: series %d tells\n%q\nin pieces\n%q", seed, i, sent[0][i], sent[1][i])
			}
		}
		if clocks[0].Next() != clocks[1].Next() {
			t.Fatalf("seed %d: the next bar ends at %d, in pieces at %d", seed, clocks[0].Next(), clocks[1].Next())
		}
	}
}

// TestFindTrade compares the index of trades with a linear search while old trades are dropped and
// ids are reused.
func TestFindTrade(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var l tradeLog
		var all []Trade
		ids := 1 + rng.Uint64N(20_000)
		for n := range uint64(20_000) {
			d := Trade{N: n, ID: rng.Uint64N(ids) * 64, At: int64(n)}
			all = append(all, d)
			switch {
			case rng.IntN(2000) == 0:
				l.prune(int64(rng.Uint64N(n + 1)))
			case rng.IntN(9000) == 0:
				l.prune(int64(n) + 1)
			}
			l.add(d, n > 6000)
		}
		kept := all[len(all)-l.len():]
		for range 500 {
			id := rng.Uint64N(ids+1) * 64
			want := -1
			for i := range kept {
				if kept[i].ID == id && id != 0 {
					want = i
				}
			}
			got := l.find(id)
			if (got == nil) != (want < 0) || got != nil && *got != kept[want] {
				t.Fatalf("seed %d: id %d: %+v, want place %d of those kept", seed, id, got, want)
			}
		}
	}
}

// TestFindTradeIsBounded finds a trade among a million in few steps.
func TestFindTradeIsBounded(t *testing.T) {
	var l tradeLog
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range uint64(1_000_000) {
		l.add(Trade{N: n, ID: rng.Uint64() | 1, At: int64(n)}, false)
	}
	slots := 0
	for _, x := range l.indexes {
		slots += len(x.slots)
	}
	if len(l.indexes) > 50 || 4*slots > 10*1_000_000 {
		t.Errorf("%d tables of %d slots for a million trades", len(l.indexes), slots)
	}
}
