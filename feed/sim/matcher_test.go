package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// naiveOrder and naive implement matching directly from the rule: a list of orders by arrival,
// searched completely each time.
type naiveOrder struct {
	side  market.Side
	price int64
	size  int64
	tag   int // number of the order in the test
}

type naive []naiveOrder

// submit returns the fills of an order and the orders that were filled.
func (n *naive) submit(o naiveOrder, rest bool) (fills []fill, tags []int) {
	for o.size > 0 {
		at := -1
		for i, x := range *n {
			crosses := x.side != o.side && (o.price-x.price)*sign(o.side) >= 0
			if crosses && (at < 0 || (x.price-(*n)[at].price)*sign(o.side) < 0) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		x := &(*n)[at]
		size := min(o.size, x.size)
		fills, tags = append(fills, fill{x.price, size}), append(tags, x.tag)
		o.size -= size
		if x.size -= size; x.size == 0 {
			*n = slices.Delete(*n, at, at+1)
		}
	}
	if o.size > 0 && rest {
		*n = append(*n, o)
	}
	return fills, tags
}

func sign(side market.Side) int64 {
	if side == market.Buy {
		return 1
	}
	return -1
}

// level returns the sum of the orders at a price.
func (n naive) level(side market.Side, price int64) touch {
	t := touch{side: side, price: price}
	for _, o := range n {
		if o.side == side && o.price == price {
			t.size += o.size
			t.orders++
		}
	}
	return t
}

// TestMatcher compares the matcher with the naive one, order by order. It cancels orders of the
// crowd, whose index the matcher keeps, to see which ones were filled.
func TestMatcher(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m, n := newMatcher(), naive{}
		tags := map[int32]int{} // matcher's order: tag
		for step := range 2000 {
			if rng.IntN(3) == 0 && len(m.crowd) > 0 {
				id := m.crowd[rng.IntN(len(m.crowd))]
				at := slices.IndexFunc(n, func(o naiveOrder) bool { return o.tag == tags[id] })
				if at < 0 {
					t.Fatalf("seed %d, step %d: order %d waits, and should have been filled", seed, step, tags[id])
				}
				o := n[at]
				n = slices.Delete(n, at, at+1)
				m.cancel(id)
				if want := []touch{n.level(o.side, o.price)}; !slices.Equal(m.touched, want) || len(m.fills) != 0 {
					t.Fatalf("seed %d, step %d: cancel touched %v, want %v", seed, step, m.touched, want)
				}
				continue
			}
			o := naiveOrder{side: market.Buy + market.Side(rng.IntN(2)), price: 100 + rng.Int64N(15), size: 1 + rng.Int64N(9), tag: step}
			rest := rng.IntN(4) > 0
			before := len(m.crowd)
			wantFills, filled := n.submit(o, rest)
			m.submit(o.side, o.price, o.size, rest, crowdOrder)
			if !slices.Equal(m.fills, wantFills) {
				t.Fatalf("seed %d, step %d: %v filled %v, want %v (orders %v)", seed, step, o, m.fills, wantFills, filled)
			}
			for _, touched := range m.touched {
				if want := n.level(touched.side, touched.price); touched != want {
					t.Fatalf("seed %d, step %d: touched %v, want %v", seed, step, touched, want)
				}
			}
			if len(m.crowd) != len(n) {
				t.Fatalf("seed %d, step %d: %d orders, want %d", seed, step, len(m.crowd), len(n))
			}
			if rests := len(n) > 0 && n[len(n)-1].tag == step; rests {
				tags[m.crowd[len(m.crowd)-1]] = step
			} else if len(m.crowd) > before {
				t.Fatalf("seed %d, step %d: an order rests that should not", seed, step)
			}
		}
		checkLevels(t, &m, n)
	}
}

// checkLevels compares the complete book.
func checkLevels(t *testing.T, m *matcher, n naive) {
	t.Helper()
	for _, side := range []market.Side{market.Buy, market.Sell} {
		prices := map[int64]bool{}
		for _, o := range n {
			if o.side == side {
				prices[o.price] = true
			}
		}
		queues := *m.side(side)
		if len(queues) != len(prices) {
			t.Fatalf("%d levels, want %d", len(queues), len(prices))
		}
		for i, q := range queues {
			want := n.level(side, key(side, q.key))
			if q.size != want.size || q.orders != want.orders || i > 0 && q.key <= queues[i-1].key {
				t.Fatalf("level %v at %d, want %v", q, i, want)
			}
		}
	}
}

func TestMatcherMakerSlots(t *testing.T) {
	m := newMatcher()
	m.submit(market.Buy, 100, 5, true, 0)
	m.submit(market.Buy, 99, 5, true, 1)
	m.submit(market.Sell, 100, 5, false, crowdOrder)
	if m.maker[0] != 0 || m.maker[1] == 0 || len(m.crowd) != 0 {
		t.Errorf("after the first quote was taken: slots %v, crowd %v", m.maker[:2], m.crowd)
	}
	m.cancel(m.maker[1])
	if m.maker[1] != 0 || len(m.sides[0]) != 0 {
		t.Errorf("after the second was cancelled: slots %v, bids %v", m.maker[:2], m.sides[0])
	}
}

func TestGrid(t *testing.T) {
	g, err := newGrid(shareTicks())
	if err != nil {
		t.Fatal(err)
	}
	last := market.Price(-1)
	for n := range int64(40_000) {
		p := g.price(n)
		if p <= last {
			t.Fatalf("price(%d) = %s, not above %s", n, p, last)
		}
		if last >= 0 && p-last != market.Price(g.step(float64(last))) {
			t.Fatalf("step at %s is %s, want %v", last, p-last, g.step(float64(last)))
		}
		if got := g.position(float64(p)); int64(got+0.5) != n {
			t.Fatalf("position(%s) = %v, want %d", p, got, n)
		}
		last = p
	}
	for _, bad := range [][]market.Tick{
		nil,
		{{From: 5, Step: 1}},
		{{From: 0, Step: 2}, {From: 5, Step: 4}},
	} {
		if _, err := newGrid(bad); err == nil {
			t.Errorf("newGrid(%v) gave no error", bad)
		}
	}
}
