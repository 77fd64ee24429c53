package sim

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// instrument is a book and its traders: a crowd that places, takes and cancels orders at random,
// and a market maker that knows the value.
type instrument struct {
	index      int32
	listing    *listing
	class      *class
	underlying *underlying
	handle     market.Handle
	rng        *rand.Rand
	book       matcher
	carry      float64 // factor of its term on the value

	phase        market.Phase
	reported     market.Phase // as last published
	reason       string
	until        int64 // next expected change of phase, in virtual time; 0: unknown
	session      span  // of the day
	generation   int   // counts sessions and halts
	haltedForDay bool  // halted for the rest of the day

	last        int64 // newest price, in ticks
	lastAt      int64
	close       int64 // previous close
	settled     int64 // settlement price; 0: not yet set
	tradedToday bool  // it has traded today
	lastTrade   lastTrade
	indicated   cross // as last published
	dirty       bool  // the book has changed since the last indicative price

	// Price bands in ticks: the dynamic band is around the price a minute ago, the static one
	// around the previous close.
	banded                bool
	hitStatic             bool // the last order hit the static band
	staticHits            int  // how often the static band was hit today
	low, high             int64
	staticLow, staticHigh int64
	bandAt                int64
	nextReference         int64 // price when the band was set

	faults

	orders float64 // marketable orders per session
	median float64 // size of an order, in lots
	depth  float64 // factor on the sizes of the market maker

	// fair is the value in ticks; half is half the spread of the market maker there.
	fair, half  float64
	fairAt      int64 // times of the underlying and the world at which fair was computed
	fairWorldAt int64
	excitement  float64 // marketable orders per second above the usual rate
	excitedAt   int64
	sign        market.Side // of the newest marketable order
	run         int         // consecutive marketable orders of that side in its run
	runLeft     int         // how many more follow
	expected    float64     // mean sign of the next marketable order: 1 buy, -1 sell
	lastMarket  int64
	bound       float64 // total rate when the next action was drawn
	forced      bool    // the next action must be a marketable order
	quoted      bool    // the market maker has quoted
	centre      float64 // the mid price it quotes around
	spread      int64   // between its best quotes, in ticks
	step        int64   // between its other levels
	anchor      float64 // mid price after the newest trade
	silentLimit float64 // largest distance of the mid price from it without a trade; 0: not set
	trades      uint64
}

// price advances the value to the current time.
func (in *instrument) price(now int64, w *world) {
	u := in.underlying
	u.advance(now, w)
	if u.at == in.fairAt && w.at == in.fairWorldAt && in.fair != 0 {
		return
	}
	in.fairAt, in.fairWorldAt = u.at, w.at
	p := in.listing.base * in.carry * math.Exp(u.value+w.dollars[in.listing.fx])
	in.fair = in.listing.grid.position(p)
	in.half = in.class.width * u.halfSpread() * w.width * p / in.listing.grid.step(p)
}

// rates holds the rates of the possible actions, per second.
type rates struct{ limit, market, cancel, wake float64 }

func (r rates) total() float64 { return r.limit + r.market + r.cancel + r.wake }

func (in *instrument) rates(w *world) rates {
	if in.stalled {
		return rates{}
	}
	busy, more := in.underlying.heat, in.excitement
	if !in.class.flat {
		busy *= w.activity
	}
	usual, called := in.orders/session, (in.orders+callOrders)/session
	alone := usual * (1 - in.class.triggered) // not triggered by others
	cancel := usual * in.class.limits / in.class.crowd * float64(len(in.book.crowd))
	switch in.phase {
	case market.Open:
		return rates{
			limit:  usual*in.class.limits*busy + excitedLimits*more,
			market: alone*busy + more,
			cancel: cancel + excitedCancels*more*float64(min(1, len(in.book.crowd))),
			wake:   in.class.makerUpdates + more,
		}
	case market.PreOpen:
		return rates{limit: called * openCall, cancel: callCancels * cancel, wake: in.class.makerUpdates}
	case market.Auction:
		return rates{limit: called * closeCall, cancel: callCancels * cancel, wake: in.class.makerUpdates}
	case market.PostClose:
		return rates{market: usual * afterClose}
	}
	return rates{} // no actions
}

// decayExcitement reduces the excitement of earlier orders to its value now.
func (in *instrument) decayExcitement(now int64) {
	if in.excitement != 0 {
		in.excitement *= math.Exp(-decay * float64(now-in.excitedAt) / float64(second))
		if in.excitement < 1e-3 {
			in.excitement = 0
		}
	}
	in.excitedAt = now
}

// draw returns the time of the next action. Until then its rate only falls, and act rejects the
// excess, which is exact for a falling rate.
func (in *instrument) draw(now int64, w *world) int64 {
	in.bound = in.rates(w).total()
	in.forced = false
	if in.bound <= 0 {
		return never
	}
	wait := in.rng.ExpFloat64() / in.bound * float64(second)
	next := now + 1 + int64(min(wait, 1e15))
	if in.class.maxSilence > 0 && !in.book.inCall && next > in.lastMarket+in.class.maxSilence {
		next, in.forced = max(now+1, in.lastMarket+in.class.maxSilence), true
	}
	return next
}

// act performs an action. Each order action is reported separately.
func (in *instrument) act(now int64, x *exchange) {
	in.decayExcitement(now)
	in.price(now, &x.world)
	r := in.rates(&x.world)
	pick := in.rng.Float64() * in.bound
	switch {
	case in.forced:
		in.wake(x) // otherwise there might be nothing to take
		in.marketOrder(now, x)
	case pick < r.wake:
		in.wake(x)
	case pick < r.wake+r.cancel:
		in.book.cancel(in.pickCancel())
		x.report(in, market.NoSide)
	case pick < r.wake+r.cancel+r.limit:
		if in.book.inCall {
			in.callOrder(x)
		} else {
			in.limitOrder(x)
		}
	case pick < r.total() && in.phase == market.PostClose:
		in.closeOrder(x)
	case pick < r.total():
		in.marketOrder(now, x)
	}
	if in.phase == market.Open && in.quoted && (in.thin(market.Buy) || in.thin(market.Sell) && !in.oneSided) {
		in.wake(x)
	}
}

// thin reports whether the best price of a side is far behind the quote of the market maker.
func (in *instrument) thin(side market.Side) bool {
	best, ok := in.book.best(side)
	return !ok || key(side, in.quote(side, 0)-best) > max(2, int64(in.half))
}

// pickCancel returns the order of the crowd to cancel next. It is often one at the best price,
// where orders are cancelled most.
func (in *instrument) pickCancel() int32 {
	if in.rng.Float64() < bestCancelShare {
		if q := *in.book.side(market.Buy + market.Side(in.rng.IntN(2))); len(q) > 0 {
			if id := q[len(q)-1].tail; in.book.orders[id].index >= 0 {
				return id
			}
		}
	}
	return in.book.crowd[in.rng.IntN(len(in.book.crowd))]
}

// callOrder places an order of the crowd during a call, around the value. Buyers and sellers
// overlap.
func (in *instrument) callOrder(x *exchange) {
	side := market.Buy + market.Side(in.rng.IntN(2))
	away := float64(in.rng.ExpFloat64()*2 - 1)
	limit := in.fair + max(1, in.half)*(away+in.rng.NormFloat64())
	if side == market.Buy {
		limit = in.fair - max(1, in.half)*(away+in.rng.NormFloat64())
	}
	if side == market.Sell && in.oneSided {
		return
	}
	in.send(side, max(1, int64(math.Round(limit))), callSize*in.size(), true, crowdOrder, x)
}

// closeOrder reports a trade at the close.
func (in *instrument) closeOrder(x *exchange) {
	if in.settled == 0 || x.suppressed(in) {
		return
	}
	x.conditions = []string{reasonAtClose}
	x.trade(in, market.NoSide, in.listing.grid.price(in.settled), market.Size(in.size())*in.listing.lot)
	x.conditions = nil
}

// limitOrder places an order of the crowd that does not cross: at the best quote of the market
// maker or behind it, rarely a tick before it.
func (in *instrument) limitOrder(x *exchange) {
	side := market.Buy + market.Side(in.rng.IntN(2))
	if side == market.Sell && in.oneSided || !in.quoted {
		return
	}
	behind := min(maxDistance, int64(math.Exp(in.rng.ExpFloat64()/in.class.tail))-1)
	if in.spread > 2 && in.rng.Float64() < in.class.inside {
		behind = -1
	}
	k := key(side, in.quote(side, 0)) - behind
	other, ok := in.book.best(opposite(side))
	if limit := key(side, k); limit >= 1 && (!ok || k < key(side, other)) {
		in.send(side, limit, in.size(), true, crowdOrder, x)
	}
}

// marketOrder takes the available size up to a price limit, so that a single order does not move
// the price too far. The rest of the order is dropped. The less expected the side of an order is,
// the more it moves the value. The value therefore has no trend, although sides repeat.
func (in *instrument) marketOrder(now int64, x *exchange) {
	in.lastMarket = now
	if in.runLeft == 0 {
		in.sign = market.Buy + market.Side(in.rng.IntN(2))
		// The length of a run has a power-law tail, as if somebody executed a large order in parts.
		in.runLeft, in.run = int(min(longestRun, math.Exp(in.rng.ExpFloat64()/runTail))), 0
	}
	in.runLeft--
	in.run++
	size, reach := in.size(), 1+int64(in.half/2)
	queues := *in.book.side(opposite(in.sign))
	if len(queues) == 0 {
		return
	}
	best := &queues[len(queues)-1]
	if in.rng.Float64() < bestOnlyShare {
		size = min(size, best.size)
	}
	sign := float64(key(in.sign, 1))
	surprise := sign - in.expected
	in.expected = 0
	if in.run < longestRun {
		in.expected = sign * math.Pow(float64(in.run)/float64(in.run+1), runTail)
	}
	in.excitement += in.class.triggered * decay
	in.send(in.sign, max(1, key(opposite(in.sign), best.key)+reach*int64(sign)), size, false, crowdOrder, x)
	impact := in.class.width * in.underlying.halfSpread() * x.world.width * impactShare
	in.underlying.value += impact * surprise * math.Pow(min(5, float64(size)/in.median), sizeImpact)
	in.fairAt-- // the value has changed
}

// size draws an order's size in lots: lognormal, and mostly a round number.
func (in *instrument) size() int64 {
	n := max(1, int64(in.median*math.Exp(in.class.sigma*in.rng.NormFloat64())+0.5))
	if in.rng.Float64() < roundShare {
		return round(n, 1)
	}
	return n
}

// round rounds a number to some decimal digits.
func round(n int64, digits int) int64 {
	limit, unit := int64(math.Pow10(digits)), int64(1)
	for n/unit >= limit {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// wake lets the market maker update its quotes. It moves them if the value has moved, keeps those
// that are still right, and replaces those that were taken. Orders of the crowd between the new
// quotes are cancelled or taken.
func (in *instrument) wake(x *exchange) {
	moved := !in.quoted || math.Abs(in.fair-in.centre) >= max(0.5, moveShare*in.half)
	up, trades := in.fair > in.centre, in.trades
	if moved {
		centre, spread := math.Round(2*in.fair)/2, max(1, int64(math.Round(2*in.half)))
		if in.quoted && !in.book.inCall {
			in.takeStale(centre, x)
			if in.phase != market.Open {
				return // the price left its band
			}
		}
		in.quoted, in.centre, in.spread = true, centre, spread
		in.step = int64(1) << (bits.Len64(uint64(in.half)/2|1) - 1)
	}
	first := market.Buy // the side whose quotes move away
	if up {
		first = market.Sell
	}
	var kept [2]uint
	for i, side := range [...]market.Side{first, opposite(first)} {
		kept[i] = in.withdraw(side, x)
		if moved && !in.book.inCall {
			in.cancelBetween(side, x)
		}
	}
	for i, side := range [...]market.Side{first, opposite(first)} {
		if side == market.Buy || !in.oneSided {
			in.refill(side, kept[i], x)
		}
	}
	if in.trades != trades || in.silentLimit == 0 {
		in.setAnchor()
	}
}

// takeStale sends an order to the quotes before they move to a new centre, if the price would
// otherwise go too far without a trade. After a jump of the value it takes all that is offered on
// the way.
func (in *instrument) takeStale(centre float64, x *exchange) {
	side := market.Buy
	if in.fair < in.centre {
		side = market.Sell
	}
	queues := *in.book.side(opposite(side))
	if len(queues) == 0 {
		return
	}
	best := &queues[len(queues)-1]
	limit, size := key(opposite(side), best.key), min(in.size(), best.size)
	if end := int64(in.fair) - key(side, int64(in.half)+1); key(side, end) > key(side, limit) {
		limit, size = max(1, end), 0
		for i := len(queues) - 1; i >= 0 && queues[i].key >= key(opposite(side), limit); i-- {
			size += queues[i].size
		}
		size++ // more than is offered, so that it leaves the band if the price does
	} else if in.silentLimit == 0 || math.Abs(centre-in.anchor) <= in.silentLimit {
		return
	}
	in.send(side, limit, size, false, crowdOrder, x)
}

// cancelBetween cancels most orders of a side that would be between the quotes, and takes the
// others.
func (in *instrument) cancelBetween(side market.Side, x *exchange) {
	best := key(side, in.quote(side, 0))
	for {
		queues := *in.book.side(side)
		if len(queues) == 0 || queues[len(queues)-1].key <= best {
			return
		}
		q := &queues[len(queues)-1]
		if in.rng.Float64() < fleeShare {
			in.book.cancel(q.head)
			x.report(in, market.NoSide)
			continue
		}
		in.send(opposite(side), key(side, q.key), in.book.orders[q.head].size, false, crowdOrder, x)
		if in.phase != market.Open {
			return
		}
	}
}

// quote returns the price of a level of the market maker. Except for the best, levels are multiples
// of the step, and so they stay while the best moves.
func (in *instrument) quote(side market.Side, level int64) int64 {
	half := float64(in.spread) / 2
	if side == market.Buy {
		best := int64(math.Floor(in.centre - half))
		if level == 0 {
			return best
		}
		return (best-1)/in.step*in.step - (level-1)*in.step
	}
	best := int64(math.Ceil(in.centre + half))
	if level == 0 {
		return best
	}
	return (best+in.step)/in.step*in.step + (level-1)*in.step
}

// slots returns the market maker's orders of a side.
func (in *instrument) slots(side market.Side) []int32 {
	if side == market.Buy {
		return in.book.maker[:in.class.levels]
	}
	return in.book.maker[maxMakerLevels : maxMakerLevels+in.class.levels]
}

// withdraw cancels the quotes that are no longer right. kept has a bit for each level that is still
// quoted.
func (in *instrument) withdraw(side market.Side, x *exchange) (kept uint) {
	for _, id := range in.slots(side) {
		if id == 0 {
			continue
		}
		level, price := 0, key(side, in.book.orders[id].key)
		for level < in.class.levels && in.quote(side, int64(level)) != price {
			level++
		}
		if level < in.class.levels && kept&(1<<level) == 0 {
			kept |= 1 << level
			continue
		}
		in.book.cancel(id)
		x.report(in, market.NoSide)
	}
	return kept
}

// refill quotes the empty levels. The best level is the smallest, as is usual for market makers.
func (in *instrument) refill(side market.Side, kept uint, x *exchange) {
	for level := range int64(in.class.levels) {
		price := in.quote(side, level)
		if kept&(1<<level) != 0 || price < 1 {
			continue
		}
		slot := slices.Index(in.slots(side), 0)
		if slot < 0 {
			return
		}
		if side == market.Sell {
			slot += maxMakerLevels
		}
		size := in.median * in.depth * x.world.depth * (0.5 + float64(level)) * math.Exp(0.3*in.rng.NormFloat64())
		if in.book.inCall {
			size *= 2 * callSize
		}
		in.send(side, price, round(max(1, int64(size)), 2), true, slot, x)
	}
}
