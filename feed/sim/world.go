package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Rates and volatilities are per session of six hours. In a market that never closes, one session
// follows another.
const (
	session = 6 * 3600.0 // seconds

	// Values are pulled back to their start with this time constant, in sessions. It is too slow to
	// be visible within a day, and keeps prices plausible in a process that runs for months.
	memory = 8.0

	fxVolatility = 0.006 // of the implicit dollar rates, per session
	second       = int64(1e9)
)

// fx is the kind of dollar rate that affects a price.
type fx uint8

const (
	noFX    fx = iota
	byMEP      // quoted in dollars: the peso value divided by the local dollar
	byCCL      // likewise with the cable dollar
	byCable    // quoted in pesos, valued abroad in dollars: times the cable dollar
	fxKinds    // number of kinds
)

// world holds what all instruments have in common: the hour and the factors that move all values.
// It advances in steps of one simulated second.
type world struct {
	rng          *rand.Rand
	at           int64 // time of the newest step, in ns
	hours        bool  // there are days; otherwise one session follows another
	open         int64 // opening of the day, in ns
	length       int64
	activity     float64
	sqrtActivity float64          // square root of activity, a factor of the volatility
	width        float64          // factor of the hour on spreads
	depth        float64          // factor of the hour on the sizes of market makers
	common       float64          // cumulative market factor
	dollars      [fxKinds]float64 // logarithmic change of a price by each kind of fx
}

func newWorld(seed uint64, at int64, hours bool) world {
	w := world{rng: newRand(seed, "world"), at: at - at%second, hours: hours}
	w.setHour()
	return w
}

// newRand returns a random generator of its own for each name.
func newRand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// advance performs the steps up to now.
func (w *world) advance(now int64) {
	for w.at+second <= now {
		w.at += second
		w.setHour()
		w.common += w.sqrtActivity * w.rng.NormFloat64()
		both := w.rng.NormFloat64()
		w.walk(byMEP, -1, both)
		w.walk(byCable, +1, both)
		w.dollars[byCCL] = -w.dollars[byCable]
	}
}

// setDay sets the trading hours of the day.
func (w *world) setDay(open, shut int64) { w.open, w.length = open, max(second, shut-open) }

// night applies the changes between two days to the factors.
func (w *world) night() {
	const seconds = overnight * overnight * session
	w.common += math.Sqrt(seconds) * w.rng.NormFloat64()
	both := w.rng.NormFloat64() * math.Sqrt(seconds)
	w.walk(byMEP, -1, both)
	w.walk(byCable, +1, both)
	w.dollars[byCCL] = -w.dollars[byCable]
}

// walk moves a dollar rate. The two rates are mostly correlated.
func (w *world) walk(kind fx, sign, both float64) {
	z := 0.95*both + 0.31*w.rng.NormFloat64()
	v := w.dollars[kind]
	w.dollars[kind] = v + sign*w.sqrtActivity*fxVolatility/math.Sqrt(session)*z - v/(memory*session)
}

// setHour sets the factors of the hour. The activity is high at the open and the close, and low at
// noon. Spreads are wide at the open, and depth grows over the day.
func (w *world) setHour() {
	x := 0.0
	if w.hours {
		x = 2*float64(min(max(w.at-w.open, 0), w.length))/float64(max(1, w.length)) - 1
	} else {
		t := math.Mod(float64(w.at/second), session)
		if t < 0 {
			t += session
		}
		x = 2*t/session - 1
	}
	w.activity = 0.65 + 1.05*x*x
	w.sqrtActivity = math.Sqrt(w.activity)
	w.width = 0.9 + 0.8*math.Exp(-5*(1+x))
	w.depth = (1 + 0.3*x) / w.width
}

// underlying is the common value of several instruments: the terms of a share, or a bond in pesos
// and in dollars.
type underlying struct {
	rng           *rand.Rand
	class         *class
	orders        float64 // marketable orders per session, of all its instruments
	at            int64
	common        float64 // the common factor of the world at that time
	value         float64 // logarithmic change since the beginning
	logVolatility float64 // logarithm of the factor on its volatility, without the mean
	variedAt      int64
	heat          float64 // factor on the variance and on the number of orders
	wide          float64 // factor on the spread
	nights        int     // number of nights applied
}

// advance advances the value to the current time. The random walk has the exact distribution for
// any time span, so that a quiet instrument costs nothing between its events.
func (u *underlying) advance(now int64, w *world) {
	const finest = second / 10
	span := now - u.at
	if span < finest {
		return
	}
	dt := float64(span) / float64(second)
	u.vary(now)
	volatility := u.class.volatility * math.Sqrt(u.heat/session)
	market := 0.5 * u.class.beta
	own := math.Sqrt(max(0.1, 1-market*market-impactVariance*u.orders/(u.orders+restingOrders)))
	noise := market*(w.common-u.common) + own*w.sqrtActivity*math.Sqrt(dt)*u.rng.NormFloat64()
	u.value += volatility*noise - u.value*min(1, dt/(memory*session))
	u.at, u.common = now, w.common
}

// vary updates the factors of the volatility. Its logarithm fluctuates around a mean such that the
// mean of its square is 1.
func (u *underlying) vary(now int64) {
	s := u.class.variation
	if span := now - u.variedAt; s > 0 && span >= 10*second {
		keep := math.Exp(-float64(span) / float64(second) / volatilityMemory)
		u.logVolatility = u.logVolatility*keep + s*math.Sqrt(1-keep*keep)*u.rng.NormFloat64()
		u.variedAt = now
		u.heat = math.Exp(2 * (u.logVolatility - s*s))
		u.wide = math.Pow(u.heat, spreadVolatility/2)
	}
}

// halfSpread returns half the usual spread, as a share of the price: a multiple of the volatility
// from one order to the next.
func (u *underlying) halfSpread() float64 {
	return spreadFactor * u.class.volatility * u.wide / math.Sqrt(u.orders+restingOrders)
}
