package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// naiveCross finds the price of an auction by trying every price.
func naiveCross(n naive, reference int64) (best cross) {
	low, high := int64(1<<40), int64(0)
	for _, o := range n {
		low, high = min(low, o.price), max(high, o.price)
	}
	for p := low; p <= high; p++ {
		c := cross{price: p}
		for _, o := range n {
			switch {
			case o.side == market.Buy && o.price >= p:
				c.bids += o.size
			case o.side == market.Sell && o.price <= p:
				c.asks += o.size
			}
		}
		c.volume = min(c.bids, c.asks)
		left, leftBest := magnitude(c.bids-c.asks), magnitude(best.bids-best.asks)
		switch {
		case c.volume == 0 || c.volume < best.volume:
		case c.volume > best.volume,
			left < leftBest,
			left == leftBest && magnitude(p-reference) < magnitude(best.price-reference):
			best = c
		}
	}
	return best
}

// uncross executes an auction, one lot at a time.
func (n *naive) uncross(c cross) (fills int64) {
	for range c.volume {
		bid, ask := -1, -1
		for i, o := range *n {
			if o.side == market.Buy && (bid < 0 || o.price > (*n)[bid].price) {
				bid = i
			}
			if o.side == market.Sell && (ask < 0 || o.price < (*n)[ask].price) {
				ask = i
			}
		}
		for _, i := range []int{bid, ask} {
			(*n)[i].size--
		}
		*n = slices.DeleteFunc(*n, func(o naiveOrder) bool { return o.size == 0 })
		fills++
	}
	return fills
}

// TestAuction compares auctions with a model that tries every price and executes lot by lot.
func TestAuction(t *testing.T) {
	crossed := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m, n := newMatcher(), naive{}
		m.inCall = true
		for i := range 1 + rng.IntN(30) {
			o := naiveOrder{side: market.Buy + market.Side(rng.IntN(2)), price: 100 + rng.Int64N(20), size: 1 + rng.Int64N(9), tag: i}
			m.submit(o.side, o.price, o.size, true, crowdOrder)
			if len(m.fills) != 0 {
				t.Fatalf("seed %d: orders met before the auction", seed)
			}
			n = append(n, o)
		}
		reference := 95 + rng.Int64N(30)
		want := naiveCross(n, reference)
		got := m.cross(reference)
		if got != want {
			t.Fatalf("seed %d: cross %+v, want %+v (reference %d, orders %v)", seed, got, want, reference, n)
		}
		if want.volume == 0 {
			continue
		}
		crossed++
		m.uncross(got.price)
		volume := int64(0)
		for _, f := range m.fills {
			if f.price != got.price || f.size <= 0 {
				t.Fatalf("seed %d: fill %v", seed, f)
			}
			volume += f.size
		}
		if done := n.uncross(want); volume != done {
			t.Fatalf("seed %d: %d lots exchanged, want %d", seed, volume, done)
		}
		for _, touched := range m.touched {
			if want := n.level(touched.side, touched.price); touched != want {
				t.Fatalf("seed %d: touched %v, want %v", seed, touched, want)
			}
		}
		checkLevels(t, &m, n)
		bid, hasBid := m.best(market.Buy)
		ask, hasAsk := m.best(market.Sell)
		if hasBid && hasAsk && bid >= ask {
			t.Fatalf("seed %d: book crossed after the auction: %d, %d", seed, bid, ask)
		}
	}
	if crossed < 100 {
		t.Errorf("only %d auctions had a price", crossed)
	}
}

func TestClearBook(t *testing.T) {
	m := newMatcher()
	m.submit(market.Buy, 100, 5, true, 0)
	m.submit(market.Sell, 110, 5, true, crowdOrder)
	m.clear()
	if _, ok := m.best(market.Buy); ok || len(m.crowd) != 0 || m.maker[0] != 0 {
		t.Error("something is left")
	}
	m.submit(market.Buy, 90, 5, true, crowdOrder)
	if p, _ := m.best(market.Buy); p != 90 || len(m.crowd) != 1 {
		t.Errorf("after it: best bid %d, crowd %v", p, m.crowd)
	}
}
