package sim

// class is how busy and how orderly an instrument is. Rates are a second, at
// activity 1; prices keep to bands of basis points, since the same share of a
// price is one tick here and forty there.
type class struct {
	limits     float64 // limit orders
	markets    float64 // marketable orders
	cancels    float64 // cancels, for each live order
	tail       float64 // exponent of the distance at which limit orders are placed
	inside     float64 // share placed inside the spread, for each free tick of it
	volatility float64 // of the value, a session
	jumps      float64 // of the value, a session
	half       float64 // the maker's half spread, in basis points
	levels     int     // the maker's levels a side
	wakes      float64 // the maker's looks at the market
	size       float64 // median order, in lots
	sigma      float64 // of the logarithm of order sizes
	beta       float64 // weight of the market factor
	excite     float64 // what a marketable order adds to the rates, as a share of them
	beat       int64   // longest time without a marketable order, in ns; 0: no bound
	flat       bool    // the same at every hour
}

// Parameters that are the same for all.
const (
	keepSign  = 0.62 // a marketable order has the side of the one before
	decay     = 0.8  // of the excitement, a second
	capped    = 0.9  // marketable orders that take the best price alone
	roundLots = 0.45 // order sizes rounded to tens
	farthest  = 400  // ticks behind the best at which an order is placed at most
)

// classes of the market. A leading share sees some ten events a second, an
// illiquid one an event in four seconds.
type classes struct {
	leading, sovereign, general, cedear, illiquid, lively class
}

func newClasses() *classes {
	return &classes{
		leading: class{limits: 1.5, markets: .055, cancels: .012, tail: 1.0, inside: .10, volatility: .030, jumps: 2,
			half: 3, levels: 4, wakes: .8, size: 120, sigma: 1.1, beta: 1.0, excite: .47},
		sovereign: class{limits: 2.6, markets: .10, cancels: .014, tail: 1.1, inside: .12, volatility: .012, jumps: 1,
			half: 2, levels: 5, wakes: 1.5, size: 5000, sigma: 1.3, beta: .7, excite: .47},
		general: class{limits: .25, markets: .010, cancels: .004, tail: .9, inside: .01, volatility: .028,
			half: 20, levels: 3, wakes: .25, size: 200, sigma: 1.0, beta: .8, excite: .47},
		cedear: class{limits: .35, markets: .012, cancels: .006, tail: .9, inside: .02, volatility: .022, jumps: 1,
			half: 8, levels: 4, wakes: .5, size: 20, sigma: 1.0, beta: .4, excite: .47},
		illiquid: class{limits: .03, markets: .0015, cancels: .0012, tail: .8, inside: .01, volatility: .030,
			half: 35, levels: 2, wakes: .06, size: 150, sigma: 1.0, beta: .6, excite: .47},

		// Not like anything real: for a newcomer, who wants to see something
		// move at once. Less excitement, or orders would breed orders without end.
		lively: class{limits: 5, markets: 1.2, cancels: .06, tail: 1.0, inside: .10, volatility: .030,
			half: 6, levels: 5, wakes: 2, size: 50, sigma: 1.0, excite: .1, beat: 400e6, flat: true},
	}
}
