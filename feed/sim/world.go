package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// The session that rates and volatilities are given for is six hours; the
// simulated market, which never closes, goes through one after another.
const (
	session = 6 * 3600.0 // seconds

	// Values are pulled back to where they began with this time constant, in
	// sessions: far too slow to be seen in a day, and it keeps prices
	// plausible in a process that runs for months.
	memory = 8.0

	fxVolatility = 0.006 // of the implicit dollars, a session
	second       = int64(1e9)
)

// fx says which dollar moves a price.
type fx uint8

const (
	noFX    fx = iota
	byMEP      // quoted in dollars: the peso value divided by the local dollar
	byCCL      // likewise by the cable dollar
	byCable    // quoted in pesos, worth dollars abroad: times the cable dollar
	fxKinds    // number of kinds
)

// world is what all instruments have in common: the hour and the factors that
// move everything. It steps once a simulated second.
type world struct {
	rng      *rand.Rand
	at       int64 // newest step, in ns
	hours    bool  // there are days; otherwise one session follows the other
	open     int64 // the day's, in ns
	length   int64
	activity float64
	breath   float64          // square root of activity, what volatility goes by
	common   float64          // the market factor, summed up
	dollars  [fxKinds]float64 // log change of a price by each kind of fx
}

func newWorld(seed uint64, at int64, hours bool) world {
	w := world{rng: newRand(seed, "world"), at: at - at%second, hours: hours}
	w.setHour()
	return w
}

// newRand is a generator of its own for each name.
func newRand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// advance steps up to now.
func (w *world) advance(now int64) {
	for w.at+second <= now {
		w.at += second
		w.setHour()
		w.common += w.breath * w.rng.NormFloat64()
		both := w.rng.NormFloat64()
		w.walk(byMEP, -1, both)
		w.walk(byCable, +1, both)
		w.dollars[byCCL] = -w.dollars[byCable]
	}
}

// setDay is the day's hours of trading.
func (w *world) setDay(open, shut int64) { w.open, w.length = open, max(second, shut-open) }

// night is what the factors do between two days.
func (w *world) night() {
	const seconds = overnight * overnight * session
	w.common += math.Sqrt(seconds) * w.rng.NormFloat64()
	both := w.rng.NormFloat64() * math.Sqrt(seconds)
	w.walk(byMEP, -1, both)
	w.walk(byCable, +1, both)
	w.dollars[byCCL] = -w.dollars[byCable]
}

// walk moves a dollar; the two dollars go together most of the time.
func (w *world) walk(kind fx, sign, both float64) {
	z := 0.95*both + 0.31*w.rng.NormFloat64()
	v := w.dollars[kind]
	w.dollars[kind] = v + sign*w.breath*fxVolatility/math.Sqrt(session)*z - v/(memory*session)
}

// setHour sets activity by the hour: high at the open and the close, low at noon.
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
	w.breath = math.Sqrt(w.activity)
}

// underlying is what several instruments are claims on: the terms of a share, a
// bond in pesos and in dollars.
type underlying struct {
	rng    *rand.Rand
	class  *class
	at     int64
	common float64 // the world's at that time
	value  float64 // log change since the beginning
	heat   float64 // logarithm of what its volatility is times, but for the mean
	heatAt int64
	nights int // that it has seen
}

// advance moves the value to now. The walk is exact in law for any span, so that
// a quiet instrument costs nothing between its events.
func (u *underlying) advance(now int64, w *world) {
	const finest = second / 10
	span := now - u.at
	if span < finest {
		return
	}
	dt := float64(span) / float64(second)
	volatility := u.class.volatility / math.Sqrt(session) * u.warmth(now)
	own := math.Sqrt(1-0.49*u.class.beta*u.class.beta) * w.breath * math.Sqrt(dt) * u.rng.NormFloat64()
	common := 0.7 * u.class.beta * (w.common - u.common)
	u.value += volatility*(common+own) - u.value*min(1, dt/(memory*session))
	if u.class.jumps > 0 && u.rng.Float64() < u.class.jumps*dt/session {
		jump := u.class.volatility * (smallJump + (largeJump-smallJump)*u.rng.Float64())
		if u.rng.Uint64()&1 == 0 {
			jump = -jump
		}
		u.value += jump
	}
	u.at, u.common = now, w.common
}

// warmth is what the volatility is times now: its logarithm goes to and fro around a mean. The
// mean of its square is 1.
func (u *underlying) warmth(now int64) float64 {
	s := u.class.heat
	if s == 0 {
		return 1
	}
	if span := now - u.heatAt; span >= 10*second {
		keep := math.Exp(-float64(span) / float64(second) / heatMemory)
		u.heat = u.heat*keep + s*math.Sqrt(1-keep*keep)*u.rng.NormFloat64()
		u.heatAt = now
	}
	return math.Exp(u.heat - s*s)
}
