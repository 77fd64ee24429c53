package facts

import (
	"math"

	"github.com/ruedahq/rueda/market"
)

// spread holds the current best prices.
type spread struct {
	bid, ask market.Price
	good     bool // both exist and are not crossed
	ticks    float64
	basis    float64
	logMid   float64
}

func (s *spread) set(x *instrument, bid, ask market.Price, good bool) {
	if good == s.good && (!good || bid == s.bid && ask == s.ask) {
		return
	}
	*s = spread{bid: bid, ask: ask, good: good}
	if !good {
		return
	}
	mid := float64(bid+ask) / 2
	s.basis, s.logMid = float64(ask-bid)/mid*1e4, math.Log(mid)
	if tick := x.definition.TickSize(bid); tick > 0 {
		s.ticks = math.Round(float64(ask-bid) / float64(tick))
	}
}

// pass adds the time until at to the weight of the current spread.
func (s *spread) pass(x *instrument, at int64) {
	if s.good {
		x.spreadBasis.add(s.basis, float64(at-x.now))
		x.spreadTicks.add(s.ticks, float64(at-x.now))
	}
}

// secondCounts counts trades per second.
type secondCounts struct {
	from           int64
	current        float64
	sum, squareSum float64
	n              float64
}

func (c *secondCounts) begin(at int64) { c.from, c.current = at, 0 }

func (c *secondCounts) add() { c.current++ }

// pass closes the seconds before a time.
func (c *secondCounts) pass(at int64) {
	n := (at - c.from) / second
	if n <= 0 {
		return
	}
	c.sum += c.current
	c.squareSum += c.current * c.current
	c.n += float64(n)
	c.from += n * second
	c.current = 0
}

// fano returns the variance of the counts divided by their mean: 1 for a Poisson process.
func (c *secondCounts) fano() float64 {
	if c.sum == 0 {
		return math.NaN()
	}
	mean := c.sum / c.n
	return (c.squareSum/c.n - mean*mean) / mean
}

// returns accumulates the changes of the logarithm of the mid price from step to step.
type returns struct {
	step                 int64
	next                 int64 // the end of the current step
	last                 float64
	n                    float64
	squareSum, fourthSum float64 // sums of powers
	previous             float64 // the previous return, if hasPrevious
	hasPrevious          bool
	pairs                float64
	productSum           float64 // sum of products of consecutive returns
}

func (m *returns) restart() { m.next, m.last, m.hasPrevious = 0, 0, false }

// pass closes the steps that end at a time or before. The spread has not changed since x.now. It
// returns the number of closed steps with a return, and the return of the first; the others are 0.
func (m *returns) pass(x *instrument, at int64) (n int64, first float64) {
	if m.next == 0 {
		m.next = x.now - x.now%m.step + m.step
	}
	if m.next > at {
		return 0, 0
	}
	n = (at-m.next)/m.step + 1
	m.next += n * m.step
	if !x.spread.good {
		m.last, m.hasPrevious = 0, false
		return 0, 0
	}
	if m.last == 0 {
		m.last = x.spread.logMid
		n--
	}
	if n == 0 {
		return 0, 0
	}
	first = x.spread.logMid - m.last
	m.last = x.spread.logMid
	m.n += float64(n)
	m.squareSum += first * first
	m.fourthSum += first * first * first * first
	m.pairs += float64(n - 1)
	if m.hasPrevious {
		m.pairs++
		m.productSum += first * m.previous
	}
	m.previous, m.hasPrevious = first, true
	if n > 1 {
		m.previous = 0
	}
	return n, first
}

// enough is the number of returns needed to describe their tails.
const enough = 30

// variance returns the mean square of a return.
func (m *returns) variance() float64 {
	if m.n < enough {
		return math.NaN()
	}
	return m.squareSum / m.n
}

func (m *returns) kurtosis() float64 {
	if m.n < enough || m.squareSum == 0 {
		return math.NaN()
	}
	return m.fourthSum / m.n / (m.squareSum / m.n * m.squareSum / m.n)
}

// autocorrelation returns the correlation of a return with the previous one. It is well below 0 if
// the price bounces without a trend.
func (m *returns) autocorrelation() float64 {
	if m.pairs < enough || m.squareSum == 0 {
		return math.NaN()
	}
	return m.productSum / m.pairs / (m.squareSum / m.n)
}

// correlation accumulates pairs of numbers.
type correlation struct{ n, x, y, xx, yy, xy float64 }

func (c *correlation) add(x, y float64) {
	c.n++
	c.x += x
	c.y += y
	c.xx += x * x
	c.yy += y * y
	c.xy += x * y
}

func (c *correlation) value() float64 {
	vx, vy := c.xx/c.n-c.x/c.n*c.x/c.n, c.yy/c.n-c.y/c.n*c.y/c.n
	if c.n < enough || !(vx > 0) || !(vy > 0) {
		return math.NaN()
	}
	return (c.xy/c.n - c.x/c.n*c.y/c.n) / math.Sqrt(vx*vy)
}

// perMinute accumulates what happens in each minute.
type perMinute struct {
	returns
	volume                    float64     // of the current minute
	lastVolume, lastAbs       float64     // of the minute before, if hasPrevious
	together                  correlation // of volume and absolute return
	volumeCluster, absCluster correlation // with those of the minute before
}

// pass closes the minutes before a time.
func (m *perMinute) pass(x *instrument, at int64) {
	follows, begins, next := m.hasPrevious, m.last == 0, m.next
	n, r := m.returns.pass(x, at)
	if begins && m.next != next {
		m.volume = 0 // of a part of a minute
	}
	for range n {
		abs := math.Abs(r)
		m.together.add(m.volume, abs)
		if follows {
			m.volumeCluster.add(m.lastVolume, m.volume)
			m.absCluster.add(m.lastAbs, abs)
		}
		m.lastVolume, m.lastAbs, follows = m.volume, abs, true
		m.volume, r = 0, 0
		b := &x.book
		if x.orderByOrder {
			b = x.orders.Book()
		}
		x.levelSum += float64(b.Len(market.Buy)+b.Len(market.Sell)) / 2
		x.levelSamples++
	}
}

// tradePrices accumulates the changes of the price from one marketable order to the next. The price
// of an order is that of its first trade.
type tradePrices struct {
	last, previous         float64
	known                  int // prices in the current period, at most 2
	n, squareSum           float64
	sum, pairs, productSum float64
}

func (t *tradePrices) add(p float64) {
	if t.known > 0 {
		d := p - t.last
		t.n++
		t.sum += d
		t.squareSum += d * d
		if t.known > 1 {
			t.pairs++
			t.productSum += d * t.previous
		}
		t.previous = d
	}
	t.last, t.known = p, min(2, t.known+1)
}

func (t *tradePrices) autocorrelation() float64 {
	if t.pairs < enough || t.squareSum == 0 {
		return math.NaN()
	}
	return t.productSum / t.pairs / (t.squareSum / t.n)
}

// silence finds moves of the mid price without a trade.
type silence struct {
	mid, limit float64 // mid price and largest move from it without a trade; limit 0: not set
	moves      float64
	known      bool // there were prices to compare
}

// weight returns the weight of the instrument in a mean, 0 if nothing was compared.
func (s *silence) weight(open int64) float64 {
	if !s.known {
		return 0
	}
	return float64(open)
}

// restart forgets the mid price, for example after a trade.
func (s *silence) restart() { s.limit = 0 }

// observe checks the mid price. It may differ from the mid price after the newest trade by the
// spread at that time and three ticks.
func (s *silence) observe(x *instrument) {
	bid, ask := x.spread.bid, x.spread.ask
	tick := x.definition.TickSize(bid)
	if !x.spread.good || tick == 0 {
		return
	}
	mid := float64(bid+ask) / 2
	if s.limit != 0 && math.Abs(mid-s.mid) <= s.limit {
		return
	}
	if s.limit != 0 {
		s.moves++
	}
	s.known = true
	s.mid, s.limit = mid, float64(ask-bid+3*tick)
}

// lags holds the lags of the autocorrelation of signs.
var lags = [...]int{1, 2, 5, 10, 20}

// signs accumulates the sides of marketable orders.
type signs struct {
	recent     [32]float64 // a ring buffer
	count      int         // number in the current period
	n, sum     float64
	pairs      [len(lags)]float64
	productSum [len(lags)]float64 // sums of products
}

func (s *signs) restart() { s.count = 0 }

func (s *signs) add(side market.Side) {
	v := 1.0
	if side == market.Sell {
		v = -1
	}
	s.n++
	s.sum += v
	for i, lag := range lags {
		if s.count >= lag {
			s.pairs[i]++
			s.productSum[i] += v * s.recent[(s.count-lag)%len(s.recent)]
		}
	}
	s.recent[s.count%len(s.recent)] = v
	s.count++
}

// merge adds the orders of x and treats them as if they had the same mean. With the mean of few
// orders their correlation would be too low.
func (s *signs) merge(x *signs) {
	s.n += x.n
	s.sum += x.sum
	for i := range lags {
		s.pairs[i] += x.pairs[i]
		s.productSum[i] += x.productSum[i]
	}
}

// correlation returns the autocorrelation at the i-th lag.
func (s *signs) correlation(i int) float64 {
	if s.pairs[i] < enough {
		return math.NaN()
	}
	mean := s.sum / s.n
	v := 1 - mean*mean
	if v == 0 {
		return math.NaN()
	}
	return (s.productSum[i]/s.pairs[i] - mean*mean) / v
}
