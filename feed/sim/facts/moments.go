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
}

func (s *spread) set(x *instrument, bid, ask market.Price, good bool) {
	if good == s.good && (!good || bid == s.bid && ask == s.ask) {
		return
	}
	*s = spread{bid: bid, ask: ask, good: good}
	if !good {
		return
	}
	s.basis = float64(ask-bid) / (float64(bid+ask) / 2) * 1e4
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

// minutes accumulates the returns of the mid price from minute to minute.
type minutes struct {
	next                 int64 // the end of the current minute
	last                 float64
	n                    float64
	squareSum, fourthSum float64 // sums of powers
	previous             float64 // the previous return, if hasPrevious
	hasPrevious          bool
	pairs                float64
	productSum           float64 // sum of products of consecutive returns
}

func (m *minutes) restart() { m.next, m.last, m.hasPrevious = 0, 0, false }

func (m *minutes) pass(x *instrument, at int64) {
	if m.next == 0 {
		m.next = x.now - x.now%minute + minute
	}
	for m.next <= at {
		if s := &x.spread; s.good {
			mid := math.Log(float64(s.bid+s.ask) / 2)
			if m.last != 0 {
				r := mid - m.last
				m.n++
				m.squareSum += r * r
				m.fourthSum += r * r * r * r
				if m.hasPrevious {
					m.pairs++
					m.productSum += r * m.previous
				}
				m.previous, m.hasPrevious = r, true
			}
			m.last = mid
			b := &x.book
			if x.orderByOrder {
				b = x.orders.Book()
			}
			x.levelSum += float64(b.Len(market.Buy)+b.Len(market.Sell)) / 2
			x.levelSamples++
		}
		m.next += minute
	}
}

// enough is the number of returns needed to describe their tails.
const enough = 30

// volatility returns the volatility of a day of six hours.
func (m *minutes) volatility() float64 {
	if m.n < enough {
		return math.NaN()
	}
	return math.Sqrt(m.squareSum / m.n * 360)
}

func (m *minutes) kurtosis() float64 {
	if m.n < enough || m.squareSum == 0 {
		return math.NaN()
	}
	return m.fourthSum / m.n / (m.squareSum / m.n * m.squareSum / m.n)
}

// autocorrelation returns the correlation of a minute's return with the previous one. It is well
// below 0 if the price bounces without a trend.
func (m *minutes) autocorrelation() float64 {
	if m.pairs < enough || m.squareSum == 0 {
		return math.NaN()
	}
	return m.productSum / m.pairs / (m.squareSum / m.n)
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
