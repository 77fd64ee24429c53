package sim

import (
	"math"
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

	// fair is the value in ticks; half is half the spread of the market maker there.
	fair, half   float64
	fairAt       int64 // times of the underlying and the world at which fair was computed
	fairWorldAt  int64
	excitement   float64 // marketable orders per second above the usual rate
	excitedAt    int64
	sign         market.Side // of the newest marketable order
	run          int         // how many more have that side
	lastMarket   int64
	bound        float64 // total rate when the next action was drawn
	forced       bool    // the next action must be a marketable order
	quoted       bool    // the market maker has quoted
	quotedAround float64 // the value it quoted around
	trades       uint64
}

// price moves the value to now.
func (in *instrument) price(now int64, w *world) {
	u := in.underlying
	u.advance(now, w)
	if u.at == in.fairAt && w.at == in.fairWorldAt && in.fair != 0 {
		return
	}
	in.fairAt, in.fairWorldAt = u.at, w.at
	p := in.listing.base * in.carry * math.Exp(u.value+w.dollars[in.listing.fx])
	in.fair = in.listing.grid.position(p)
	in.half = max(1, in.class.halfSpread*1e-4*p/in.listing.grid.step(p))
}

// activity returns the factor of the hour on the crowd's rates.
func (in *instrument) activity(w *world) float64 {
	if in.class.flat {
		return 1
	}
	return w.activity
}

// rates holds the rates of the possible actions, per second.
type rates struct{ limit, market, cancel, wake float64 }

func (r rates) total() float64 { return r.limit + r.market + r.cancel + r.wake }

func (in *instrument) rates(w *world) rates {
	if in.stalled {
		return rates{}
	}
	busy, more := in.activity(w), in.excitement
	switch in.phase {
	case market.Open:
		return rates{
			limit:  in.class.limits*busy + excitedLimits*more,
			market: in.class.markets*busy + more,
			cancel: in.class.cancels*float64(len(in.book.crowd)) + excitedCancels*more*float64(min(1, len(in.book.crowd))),
			wake:   in.class.makerUpdates,
		}
	case market.PreOpen, market.Auction:
		return rates{
			limit:  in.class.limits * busy,
			cancel: in.class.cancels * float64(len(in.book.crowd)),
			wake:   in.class.makerUpdates,
		}
	case market.PostClose:
		return rates{market: in.class.markets / 2}
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
	if in.class.maxSilence > 0 && next > in.lastMarket+in.class.maxSilence {
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
	limit := in.fair + in.half*(away+in.rng.NormFloat64())
	if side == market.Buy {
		limit = in.fair - in.half*(away+in.rng.NormFloat64())
	}
	if side == market.Sell && in.oneSided {
		return
	}
	in.send(side, max(1, int64(math.Round(limit))), in.size(), true, crowdOrder, x)
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

// drawSide draws a side, more often towards the value.
func (in *instrument) drawSide() market.Side {
	bid, hasBid := in.book.best(market.Buy)
	ask, hasAsk := in.book.best(market.Sell)
	p := 0.5
	if hasBid && hasAsk {
		mid := float64(bid+ask) / 2
		p += 0.3 * math.Tanh((in.fair-mid)/(2*in.half+1))
	}
	if in.rng.Float64() < p {
		return market.Buy
	}
	return market.Sell
}

// limitOrder places an order of the crowd that does not cross.
func (in *instrument) limitOrder(x *exchange) {
	side := in.drawSide()
	away, limit := int64(-1), int64(0) // away: direction of the side's worse prices
	if side == market.Sell {
		away = 1
	}
	best, hasBest := in.book.best(side)
	other, hasOther := in.book.best(opposite(side))
	gap := (best - other) * away // ticks between the two
	behind := min(maxDistance, int64(math.Exp(in.rng.ExpFloat64()/in.class.tail))-1)
	switch {
	case hasBest && hasOther && gap > 1 && in.rng.Float64() < in.class.inside:
		limit = best - away*(1+in.rng.Int64N(gap-1))
	case hasBest:
		limit = best + away*behind
	default:
		limit = int64(in.fair) + away*(int64(in.half)+1+behind)
		if hasOther && (limit-other)*away < 1 {
			limit = other + away
		}
	}
	if limit < 1 || side == market.Sell && in.oneSided {
		return
	}
	in.send(side, limit, in.size(), true, crowdOrder, x)
}

// marketOrder takes the available size up to a price limit, so that a single order does not move
// the price too far. The rest of the order is dropped.
func (in *instrument) marketOrder(now int64, x *exchange) {
	in.lastMarket = now
	if in.run--; in.run < 0 {
		in.sign = in.drawSide()
		// The length of a run has a power-law tail, as if somebody executed a large order in parts.
		in.run = int(min(longestRun, math.Exp(in.rng.ExpFloat64()/runTail))) - 1
	}
	other := opposite(in.sign)
	best, ok := in.book.best(other)
	if !ok {
		return
	}
	size := in.size()
	if in.rng.Float64() < bestOnlyShare {
		queues := *in.book.side(other)
		size = min(size, queues[len(queues)-1].size)
	}
	reach := 4 + int64(in.half)
	if in.sign == market.Sell {
		reach = -reach
	}
	in.excitement += in.class.triggered * decay
	in.send(in.sign, max(1, best+reach), size, false, crowdOrder, x)
}

// size draws an order's size in lots: lognormal, and often a round number.
func (in *instrument) size() int64 {
	median := in.class.size * market.Scale / float64(in.listing.lot)
	v := median * math.Exp(in.class.sigma*in.rng.NormFloat64())
	n := int64(min(v, 100*median))
	if in.rng.Float64() < roundShare {
		n = (n + 5) / 10 * 10
	}
	return max(1, n)
}

// wake lets the market maker update its quotes. It moves its quotes if the value has moved, keeps
// the place in the queue of those that are still right, and replaces those that were taken. On the
// way it takes orders of the crowd that are now on the wrong side, which is how prices follow the
// value.
func (in *instrument) wake(x *exchange) {
	if !in.quoted || math.Abs(in.fair-in.quotedAround) > 0.3*in.half {
		in.quoted, in.quotedAround = true, in.fair
	}
	// Cancel old quotes first; otherwise new ones would match them.
	bids := in.withdraw(market.Buy, x)
	asks := in.withdraw(market.Sell, x)
	if !in.book.inCall {
		in.flee(market.Buy, x)
		in.flee(market.Sell, x)
	}
	in.quote(market.Buy, bids, x)
	if !in.oneSided {
		in.quote(market.Sell, asks, x)
	}
}

// flee cancels most orders of a side that the market maker is about to take.
func (in *instrument) flee(side market.Side, x *exchange) {
	best, _ := in.ladder(opposite(side))
	queues := in.book.side(side)
	for i := len(*queues) - 1; i >= 0 && (*queues)[i].key >= key(side, best); i-- {
		for id := (*queues)[i].head; id != 0; {
			next := in.book.orders[id].next
			if in.book.orders[id].index >= 0 && in.rng.Float64() < fleeShare {
				gone := (*queues)[i].orders == 1
				in.book.cancel(id)
				x.report(in, market.NoSide)
				if gone {
					break
				}
			}
			id = next
		}
	}
}

// ladder returns the best price at which the market maker wants to quote, and the step to the next
// level.
func (in *instrument) ladder(side market.Side) (best, step int64) {
	step = max(1, int64(in.half/2))
	if side == market.Buy {
		return int64(math.Floor(in.quotedAround - in.half)), -step
	}
	return int64(math.Ceil(in.quotedAround + in.half)), step
}

// slots returns the market maker's orders of a side.
func (in *instrument) slots(side market.Side) []int32 {
	if side == market.Buy {
		return in.book.maker[:in.class.levels]
	}
	return in.book.maker[maxMakerLevels : maxMakerLevels+in.class.levels]
}

// withdraw cancels the quotes that are not on the ladder. kept has a bit for each level that is
// still quoted.
func (in *instrument) withdraw(side market.Side, x *exchange) (kept uint) {
	best, step := in.ladder(side)
	for _, id := range in.slots(side) {
		if id == 0 {
			continue
		}
		off := key(side, in.book.orders[id].key) - best
		if rung := off / step; off%step == 0 && rung >= 0 && rung < int64(in.class.levels) {
			kept |= 1 << rung
			continue
		}
		in.book.cancel(id)
		x.report(in, market.NoSide)
	}
	return kept
}

// quote fills the empty levels. The best level is the smallest, as is usual for market makers.
func (in *instrument) quote(side market.Side, kept uint, x *exchange) {
	best, step := in.ladder(side)
	for rung := range int64(in.class.levels) {
		price := best + rung*step
		if kept&(1<<rung) != 0 || price < 1 {
			continue
		}
		slot := slices.Index(in.slots(side), 0)
		if side == market.Sell {
			slot += maxMakerLevels
		}
		size := in.class.size * market.Scale / float64(in.listing.lot) * (0.5 + float64(rung)) * math.Exp(0.3*in.rng.NormFloat64())
		in.send(side, price, max(1, int64(size)), true, slot, x)
	}
}
