package sim

import (
	"github.com/ruedahq/rueda/market"
)

// lastTrade is the newest published trade of an instrument, which can be cancelled or corrected.
type lastTrade struct {
	id    string // "": there is none, or it was cancelled or corrected
	price market.Price
	size  market.Size
	at    int64
}

const (
	// Price bands, as shares of the previous close. When the price reaches one, trading is
	// interrupted; at the last one it ends for the day.
	firstBand, secondBand, lastBand = 0.10, 0.15, 0.20

	bandMemory = minute     // a dynamic band follows the price between one and two periods ago
	lastCounts = 5 * minute // the mid price replaces an older last price

	haltLength = 10 * minute // of halts by the market
	newsMove   = 0.5         // standard deviation of the value's move, as a share of a session's volatility
)

// planIncidents schedules a few incidents of a trading day on the whole market: at least one halt
// and at least two corrections.
func (x *exchange) planIncidents() {
	open, shut := x.world.open, x.world.open+x.world.length
	length := shut - open
	if length < 4*haltLength {
		return
	}
	rng := x.day.rng
	for range 1 + rng.IntN(2) {
		at := open + length/8 + rng.Int64N(length/2)
		x.tasks.add(at, x.haltRandom)
	}
	for range 2 + rng.IntN(3) {
		x.tasks.add(open+length/16+rng.Int64N(length*7/8), func() { x.amendRandom(market.KindCorrect) })
	}
	for range 1 + rng.IntN(3) {
		x.tasks.add(open+length/16+rng.Int64N(length*7/8), func() { x.amendRandom(market.KindCancel) })
	}
}

// pickInstrument returns the first instrument that matches, starting at a random one, or nil.
func (x *exchange) pickInstrument(match func(*instrument) bool) *instrument {
	n := len(x.instruments)
	from := x.day.rng.IntN(n)
	for i := range n {
		if in := &x.instruments[(from+i)%n]; x.keepsHours(in) && match(in) {
			return in
		}
	}
	return nil
}

// haltRandom halts the trading instruments of a random company, for pending news. The news moves
// the value, and the auctions after the halt find the new price.
func (x *exchange) haltRandom() {
	in := x.pickInstrument(func(in *instrument) bool { return in.phase == market.Open })
	if in == nil {
		return
	}
	u := in.underlying
	for i := range x.instruments {
		if in := &x.instruments[i]; in.underlying == u && in.phase == market.Open {
			x.halt(in, reasonNews, haltLength)
		}
	}
	u.value += u.class.volatility * newsMove * u.rng.NormFloat64()
}

// amendRandom cancels or corrects a recent trade.
func (x *exchange) amendRandom(kind market.Kind) {
	in := x.pickInstrument(func(in *instrument) bool {
		return in.phase == market.Open && in.lastTrade.id != "" && x.now-in.lastTrade.at < 15*minute
	})
	if in != nil {
		x.amend(in, kind)
	}
}

// amend cancels or corrects the newest trade. ok is false if there is none.
func (x *exchange) amend(in *instrument, kind market.Kind) (ok bool) {
	t := in.lastTrade
	if t.id == "" || x.suppressed(in) {
		return false
	}
	e := x.event(kind, in)
	e.TradeID, e.Price, e.Size = t.id, t.price, t.size
	if kind == market.KindCorrect {
		e.OldPrice, e.OldSize = t.price, t.size
		// Simulate a typing error: the price moves by some ticks, or the size by some lots.
		step := market.Price(in.listing.grid.step(float64(t.price)))
		if shift := step * market.Price(1+in.rng.IntN(20)); in.rng.IntN(2) == 0 && t.price > 2*shift {
			e.Price -= shift
		} else {
			e.Size += in.listing.lot * market.Size(1+in.rng.IntN(10))
		}
	}
	in.lastTrade = lastTrade{}
	if kind == market.KindCorrect { // a corrected trade may be corrected or cancelled again
		in.lastTrade = lastTrade{id: t.id, price: e.Price, size: e.Size, at: t.at}
	}
	return true
}

// halt stops trading in an instrument. After the given time there is an auction, and then trading
// resumes; in a market without hours it resumes at once.
func (x *exchange) halt(in *instrument, reason string, length int64) {
	in.generation++
	in.book.inCall = false
	x.status(in, market.Halt, reason, x.now+length)
	if !x.keepsHours(in) {
		x.later(length, x.ifCurrent(in, func() { x.resume(in, 0); x.redraw(in) }))
	} else {
		x.later(length, x.ifCurrent(in, func() { x.interrupt(in, reasonReopening) }))
	}
	x.redraw(in)
}

// interrupt interrupts trading with an auction of the calendar's length and a random end, after
// which trading resumes.
func (x *exchange) interrupt(in *instrument, reason string) {
	length := int64(x.day.calendar.VolatilityAuction)
	random := min(int64(x.day.calendar.RandomEnd), length)
	x.callFor(in, reason, reason, length, in.rng.Int64N(random+1))
}

// callFor interrupts trading with an auction, whose trades have a condition. It ends some time
// later than published.
func (x *exchange) callFor(in *instrument, reason, condition string, length, later int64) {
	in.generation++
	x.call(in, market.Auction, reason, x.now+length)
	x.later(length+later, x.ifCurrent(in, func() {
		x.uncross(in, condition)
		x.resume(in, in.session.end)
		x.redraw(in)
	}))
	x.redraw(in)
}

// leaveBand handles an order that would move the price out of its band.
func (x *exchange) leaveBand(in *instrument) {
	if in.hitStatic {
		in.staticHits++
	}
	if in.staticHits < 3 {
		x.interrupt(in, reasonVolatility)
		return
	}
	in.generation++
	in.haltedForDay, in.banded = true, false
	x.status(in, market.Halt, reasonLimit, x.day.ends-margin)
	x.redraw(in)
}

// midPrice returns the current price of an instrument, in ticks.
func (in *instrument) midPrice() int64 {
	bid, hasBid := in.book.best(market.Buy)
	ask, hasAsk := in.book.best(market.Sell)
	if hasBid && hasAsk {
		return (bid + ask) / 2
	}
	return in.last
}

// setAnchor records the mid price after a trade, and how far it may go without another.
func (in *instrument) setAnchor() {
	bid, hasBid := in.book.best(market.Buy)
	ask, hasAsk := in.book.best(market.Sell)
	in.silentLimit = 0
	if hasBid && hasAsk && in.quoted {
		in.anchor, in.silentLimit = float64(bid+ask)/2, silentShare*float64(min(ask-bid, in.spread))+silentTicks
	}
}

// setBand sets the bands around a reference and around the previous close.
func (in *instrument) setBand(now, reference int64) {
	in.bandAt = now
	if !in.banded {
		return
	}
	in.low, in.high = in.within(reference, in.class.band)
	width := [...]float64{firstBand, secondBand, lastBand}[min(in.staticHits, 2)]
	in.staticLow, in.staticHigh = in.within(in.close, width)
}

// within returns the range of ticks within a share of a price.
func (in *instrument) within(tick int64, share float64) (low, high int64) {
	p := float64(in.listing.grid.price(tick))
	low = int64(in.listing.grid.position(p*(1-share))) + 1
	high = int64(in.listing.grid.position(p * (1 + share)))
	return min(low, tick), max(high, tick)
}

// send submits an order of continuous trading or of a call. If it would trade outside the band, its
// remainder rests at the edge of the band and trading is interrupted.
func (in *instrument) send(side market.Side, limit, size int64, rest bool, slot int, x *exchange) {
	if !in.banded || in.book.inCall {
		in.book.submit(side, limit, size, rest, slot)
		x.report(in, side)
		return
	}
	if x.now-in.bandAt >= bandMemory {
		reference := in.last
		if x.now-in.lastAt > lastCounts {
			reference = in.midPrice()
		}
		// The current price becomes the reference a minute from now.
		in.setBand(x.now, in.nextReference)
		in.nextReference = reference
	}
	var edge int64
	if side == market.Buy {
		edge = min(limit, in.high, in.staticHigh)
		in.hitStatic = in.staticHigh < in.high
	} else {
		edge = max(limit, in.low, in.staticLow)
		in.hitStatic = in.staticLow > in.low
	}
	in.book.submit(side, edge, size, rest, slot)
	done := int64(0)
	for _, f := range in.book.fills {
		done += f.size
	}
	in.tradedToday = in.tradedToday || done > 0
	x.report(in, side)
	if edge == limit || done == size {
		return
	}
	if best, ok := in.book.best(opposite(side)); ok && key(opposite(side), best) >= key(opposite(side), limit) {
		x.leaveBand(in)
	}
}
