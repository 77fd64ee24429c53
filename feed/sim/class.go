package sim

// class describes how active and how volatile an instrument is. Rates are per second at activity 1.
type class struct {
	orders       float64 // marketable orders per session, of the most active instrument
	decline      float64 // exponent by which orders fall with the rank in the class
	limits       float64 // limit orders for each marketable order
	crowd        float64 // usual number of resting orders, besides the market maker's
	tail         float64 // exponent of the distance at which limit orders are placed
	inside       float64 // share placed inside the spread, if there is space
	volatility   float64 // of the value, per session
	variation    float64 // of the volatility: standard deviation of its logarithm
	width        float64 // factor on the spread
	levels       int     // levels of the market maker per side
	makerUpdates float64 // updates of the market maker's quotes
	ticket       float64 // median value of an order, in pesos
	sigma        float64 // standard deviation of the logarithm of order sizes
	beta         float64 // weight of the market factor
	triggered    float64 // marketable orders that one triggers on average
	maxSilence   int64   // longest time without a marketable order, in ns; 0: no limit
	band         float64 // largest relative change of the price within a minute; 0: no limit
	flat         bool    // the same activity at every hour
}

// Parameters that are the same for all classes.
const (
	decay           = 4.0  // decay per second of the excitement after a marketable order
	excitedLimits   = 1.5  // limit orders for each marketable order of an excited market
	excitedCancels  = 1.2  // cancels, likewise
	runTail         = 1.4  // exponent of the number of consecutive marketable orders of one side
	longestRun      = 60   // maximum of that number
	bestOnlyShare   = 0.9  // share of marketable orders that take only the best price
	fleeShare       = 0.9  // share of orders cancelled, not taken, when the quotes pass them
	bestCancelShare = 0.35 // share of cancels that are of an order at the best price
	roundShare      = 0.6  // share of order sizes rounded to one digit
	maxDistance     = 400  // maximum distance of an order from the best price, in ticks

	// Half the spread is a multiple of the volatility from one marketable order to the next. With
	// fewer orders than restingOrders it does not become wider. A marketable order moves the value
	// by a share of half the spread, and a larger one by more.
	spreadFactor   = 1.4
	restingOrders  = 700.0
	impactShare    = 0.68
	sizeImpact     = 0.1 // exponent of the size
	impactVariance = 0.6 // share of the variance of a very active instrument
	moveShare      = 0.3 // of half the spread: smaller moves of the value do not move the quotes
	// The mid price moves no farther than this share of the spread, and silentTicks, without a trade.
	silentShare, silentTicks = 0.4, 2

	spotShare   = 0.02 // orders of a quiet spot line, as a share of those of 24hs
	quietOrders = 10.0 // orders that every instrument has, per session

	// Orders outside continuous trading: factors on their rates in the calls before the opening and
	// before the other auctions, and after the close.
	openCall, closeCall, afterClose = 0.4, 2.5, 0.2
	callOrders                      = 90.0 // more orders per session in calls
	callCancels                     = 0.02 // factor on the cancels in calls
	callSize                        = 5    // factor on the sizes in calls

	volatilityMemory = 1800.0 // seconds over which the volatility varies
	spreadVolatility = 0.5    // exponent of the volatility in the spread
)

// classes holds the classes of the market.
type classes struct {
	leading, sovereign, general, cedear, illiquid, lively class
}

func newClasses() *classes {
	return &classes{
		leading: class{orders: 14000, decline: 1, limits: 6, crowd: 90, tail: 1.0, inside: .03, volatility: .030, variation: .4, width: 1,
			levels: 4, makerUpdates: 1, ticket: 400e3, sigma: 1.1, beta: 1.0, triggered: .4, band: .03},
		sovereign: class{orders: 20000, decline: 1, limits: 6, crowd: 100, tail: 1.1, inside: .02, volatility: .012, variation: .4, width: 1,
			levels: 5, makerUpdates: 1, ticket: 500e3, sigma: 1.3, beta: .7, triggered: .4, band: .03},
		general: class{orders: 1000, decline: .8, limits: 9, crowd: 40, tail: .9, inside: .02, volatility: .028, variation: .4, width: 1,
			levels: 4, makerUpdates: .6, ticket: 300e3, sigma: 0.8, beta: .8, triggered: .4, band: .04},
		cedear: class{orders: 4000, decline: 1, limits: 9, crowd: 40, tail: .9, inside: .02, volatility: .022, variation: .4, width: 1,
			levels: 4, makerUpdates: .6, ticket: 300e3, sigma: 0.8, beta: .4, triggered: .4, band: .03},
		illiquid: class{limits: 9, crowd: 25, tail: .8, inside: .02, volatility: .030, variation: .4, width: 1.3,
			levels: 3, makerUpdates: 1, ticket: 250e3, sigma: 0.8, beta: .6, triggered: .4, band: .05},

		// lively is unlike any real instrument: it moves at once, for first-time users.
		lively: class{orders: 37000, limits: 3, crowd: 80, tail: 1.0, inside: .1, volatility: .030, width: 1,
			levels: 5, makerUpdates: 2, ticket: 50e3, sigma: 1.0, triggered: .3, maxSilence: 400e6, flat: true},
	}
}
