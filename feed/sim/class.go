package sim

// class describes how active and how volatile an instrument is. Rates are per second at activity 1.
// Distances of prices are in basis points, because the same share of a price may be one tick for
// one instrument and forty for another.
type class struct {
	limits              float64 // limit orders
	markets             float64 // marketable orders, besides those that others trigger
	cancels             float64 // cancels, for each live order
	tail                float64 // exponent of the distance at which limit orders are placed
	inside              float64 // share placed inside the spread, if there is space
	volatility          float64 // of the value, per session
	volatilityVariation float64 // variation of the volatility: standard deviation of its logarithm
	jumps               float64 // of the value, per session
	halfSpread          float64 // half the spread of the market maker, in basis points
	levels              int     // levels of the market maker per side
	makerUpdates        float64 // updates of the market maker's quotes
	size                float64 // median order size
	sigma               float64 // standard deviation of the logarithm of order sizes
	beta                float64 // weight of the market factor
	triggered           float64 // marketable orders that one triggers on average
	maxSilence          int64   // longest time without a marketable order, in ns; 0: no limit
	band                float64 // largest relative change of the price within a minute; 0: no limit
	flat                bool    // the same activity at every hour
}

// Parameters that are the same for all classes.
const (
	decay          = 4.0  // decay per second of the excitement after a marketable order
	excitedLimits  = 1.5  // limit orders for each marketable order of an excited market
	excitedCancels = 1.2  // cancels, likewise
	runTail        = 1.15 // exponent of the number of consecutive marketable orders of one side
	longestRun     = 60   // maximum of that number
	bestOnlyShare  = 0.9  // share of marketable orders that take only the best price
	// share of orders that are cancelled when the value passes them, before they are taken
	fleeShare       = 0.85
	bestCancelShare = 0.35 // share of cancels that are of an order at the best price
	roundShare      = 0.45 // share of order sizes rounded to tens
	maxDistance     = 400  // maximum distance of an order from the best price, in ticks

	volatilityMemory = 1800.0 // seconds over which the volatility varies
	smallJump        = 0.17   // of a session's volatility
	largeJump        = 0.50
)

// classes holds the classes of the market. A leading share has about ten events per second, an
// illiquid one an event every four seconds.
type classes struct {
	leading, sovereign, general, cedear, illiquid, lively class
}

func newClasses() *classes {
	return &classes{
		leading: class{limits: 1.5, markets: .12, cancels: .012, tail: 1.0, inside: .03, volatility: .030, volatilityVariation: .4, jumps: 2,
			halfSpread: 5, levels: 4, makerUpdates: .8, size: 120, sigma: 1.1, beta: 1.0, triggered: .6, band: .03},
		sovereign: class{limits: 2.2, markets: .15, cancels: .014, tail: 1.1, inside: .02, volatility: .012, volatilityVariation: .4, jumps: 2,
			halfSpread: 4, levels: 5, makerUpdates: 1.2, size: 5000, sigma: 1.3, beta: .7, triggered: .6, band: .03},
		general: class{limits: .20, markets: .008, cancels: .004, tail: .9, inside: .02, volatility: .028, volatilityVariation: .4, jumps: 1,
			halfSpread: 18, levels: 4, makerUpdates: .4, size: 200, sigma: 1.0, beta: .8, triggered: .6, band: .04},
		cedear: class{limits: .30, markets: .010, cancels: .006, tail: .9, inside: .02, volatility: .022, volatilityVariation: .4, jumps: 1,
			halfSpread: 8, levels: 4, makerUpdates: .4, size: 20, sigma: 1.0, beta: .4, triggered: .6, band: .03},
		illiquid: class{limits: .03, markets: .0015, cancels: .0012, tail: .8, inside: .02, volatility: .030, volatilityVariation: .4,
			halfSpread: 30, levels: 3, makerUpdates: .12, size: 150, sigma: 1.0, beta: .6, triggered: .6, band: .05},

		// lively is unlike any real instrument: it moves at once, for first-time users.
		lively: class{limits: 5, markets: 1.2, cancels: .06, tail: 1.0, inside: .15, volatility: .030,
			halfSpread: 6, levels: 5, makerUpdates: 2, size: 50, sigma: 1.0, triggered: .3, maxSilence: 400e6, flat: true},
	}
}
