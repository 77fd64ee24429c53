package sim

// class is how busy and how orderly an instrument is. Rates are a second, at
// activity 1; prices keep to bands of basis points, since the same share of a
// price is one tick here and forty there.
type class struct {
	limits     float64 // limit orders
	markets    float64 // marketable orders, besides those that others bring about
	cancels    float64 // cancels, for each live order
	tail       float64 // exponent of the distance at which limit orders are placed
	inside     float64 // share placed inside the spread, where there is room
	volatility float64 // of the value, a session
	heat       float64 // how much the volatility itself varies: of its logarithm
	jumps      float64 // of the value, a session
	half       float64 // the maker's half spread, in basis points
	levels     int     // the maker's levels a side
	wakes      float64 // the maker's looks at the market
	size       float64 // median order
	sigma      float64 // of the logarithm of order sizes
	beta       float64 // weight of the market factor
	brood      float64 // marketable orders that one brings about, on average
	beat       int64   // longest time without a marketable order, in ns; 0: no bound
	band       float64 // share by which the price may leave that of a minute ago; 0: as far as it wants
	flat       bool    // the same at every hour
}

// Parameters that are the same for all.
const (
	decay     = 4.0  // of the excitement that a marketable order leaves, a second
	company   = 1.5  // limit orders that come with each marketable order of an excited market
	parting   = 1.2  // and cancels
	runTail   = 1.15 // exponent of how many marketable orders in a row have one side
	longest   = 60   // of them at most
	capped    = 0.9  // marketable orders that take the best price alone
	flee      = 0.85 // orders of the crowd that are cancelled when the value passes them, before they are taken
	fickle    = 0.35 // cancels of an order at the best price
	roundLots = 0.45 // order sizes rounded to tens
	farthest  = 400  // ticks behind the best at which an order is placed at most

	heatMemory = 1800.0 // seconds in which the volatility forgets what it was
	smallJump  = 0.17   // of a session's volatility
	largeJump  = 0.50
)

// classes of the market. A leading share sees some ten events a second, an
// illiquid one an event in four seconds.
type classes struct {
	leading, sovereign, general, cedear, illiquid, lively class
}

func newClasses() *classes {
	return &classes{
		leading: class{limits: 1.5, markets: .12, cancels: .012, tail: 1.0, inside: .03, volatility: .030, heat: .4, jumps: 2,
			half: 5, levels: 4, wakes: .8, size: 120, sigma: 1.1, beta: 1.0, brood: .6, band: .03},
		sovereign: class{limits: 2.2, markets: .15, cancels: .014, tail: 1.1, inside: .02, volatility: .012, heat: .4, jumps: 2,
			half: 4, levels: 5, wakes: 1.2, size: 5000, sigma: 1.3, beta: .7, brood: .6, band: .03},
		general: class{limits: .20, markets: .008, cancels: .004, tail: .9, inside: .02, volatility: .028, heat: .4, jumps: 1,
			half: 18, levels: 4, wakes: .4, size: 200, sigma: 1.0, beta: .8, brood: .6, band: .04},
		cedear: class{limits: .30, markets: .010, cancels: .006, tail: .9, inside: .02, volatility: .022, heat: .4, jumps: 1,
			half: 8, levels: 4, wakes: .4, size: 20, sigma: 1.0, beta: .4, brood: .6, band: .03},
		illiquid: class{limits: .03, markets: .0015, cancels: .0012, tail: .8, inside: .02, volatility: .030, heat: .4,
			half: 30, levels: 3, wakes: .12, size: 150, sigma: 1.0, beta: .6, brood: .6, band: .05},

		// Not like anything real: for a newcomer, who wants to see something
		// move at once.
		lively: class{limits: 5, markets: 1.2, cancels: .06, tail: 1.0, inside: .15, volatility: .030,
			half: 6, levels: 5, wakes: 2, size: 50, sigma: 1.0, brood: .3, beat: 400e6, flat: true},
	}
}
