package facts

import (
	"math"

	"github.com/ruedahq/rueda/market"
)

const (
	second = int64(1e9)
	minute = 60 * second
)

// instrument holds the state of one instrument.
type instrument struct {
	definition market.Instrument
	class      string
	isMarket   bool // stands for a market and is not followed

	phase        market.Phase
	stale        bool
	book         market.Book
	orders       market.OrderBook
	orderByOrder bool             // the events are order by order
	addedAt      map[uint64]int64 // times at which live orders were added
	quote        [2]market.Level  // best bid and offer, if there is no book

	open    int64 // duration of continuous trading, ns
	since   int64 // start of the current period of continuous trading; 0: none
	now     int64 // newest time
	spread  spread
	count   secondCounts
	seconds returns
	tens    returns // of ten seconds
	minutes perMinute
	signs   signs
	prices  tradePrices
	silence silence
	// traded value: in continuous trading, in auctions, and after the close
	turnover [3]float64

	events                     int
	trades, amends, orderCount int
	late                       int // trades that are not counted
	adds, cancels              int
	// adds inside the spread, at the best price, 1 to 5 ticks behind, 6 to 20, more
	placement                [5]int
	pending                  [2]market.Size
	lastTrade                int64 // its event time
	lastSide                 market.Side
	lastPrice                market.Price
	lifetimes                histogram // of cancelled orders, in seconds
	spreadTicks, spreadBasis histogram
	levelSum, levelSamples   float64 // levels per side, sampled each minute
}

func newInstrument(in market.Instrument) *instrument {
	phase := in.Phase
	if phase == market.NoPhase {
		phase = market.Open
	}
	return &instrument{
		definition: in, phase: phase, stale: !in.StartsEmpty && !in.NoBook, addedAt: make(map[uint64]int64),
		seconds: returns{step: second}, tens: returns{step: 10 * second}, minutes: perMinute{returns: returns{step: minute}},
	}
}

// apply applies an event.
func (x *instrument) apply(e *market.Event) {
	x.events++
	at := e.Time
	if at == 0 {
		at = e.Receive
	}
	if x.isLate(e, at) {
		x.late++
		return
	}
	if at > x.now {
		x.advance(at)
	}
	switch e.Kind {
	case market.KindTrade:
		x.trade(e, at)
	case market.KindCancel, market.KindCorrect:
		x.amends++
	case market.KindUpdate:
		x.update(e)
	case market.KindSnapshot:
		x.snapshot(e)
	case market.KindQuote:
		if x.definition.QuotesFromFeed || x.definition.NoBook {
			x.quote = [2]market.Level{first(e.Bids), first(e.Asks)}
			x.stale = x.stale && !x.definition.NoBook
		}
	case market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		x.order(e)
	case market.KindStatus:
		x.setPhase(e.Phase)
	case market.KindGap:
		x.stale = true
		x.book.Reset()
		x.orders.Reset()
		clear(x.addedAt)
		x.pause()
	}
	x.observe()
	if e.Kind == market.KindTrade {
		x.silence.restart()
	}
}

// isLate reports whether a trade comes after its second is over. It would be counted in the wrong
// second and compared with a book that it did not trade with.
func (x *instrument) isLate(e *market.Event, at int64) bool {
	return e.Kind == market.KindTrade && x.now-at >= second
}

func first(levels []market.Level) market.Level {
	if len(levels) == 0 {
		return market.Level{}
	}
	return levels[0]
}

func (x *instrument) setPhase(p market.Phase) {
	switch p {
	case market.FeedDown:
		x.stale = true
		x.pause()
	case market.FeedUp, market.Gap:
	default:
		x.phase = p
		if p != market.Open {
			x.pause()
		}
	}
}

// running reports whether continuous trading is in progress and the book is known.
func (x *instrument) running() bool { return x.phase == market.Open && !x.stale }

// advance moves the time forward.
func (x *instrument) advance(at int64) {
	if x.since != 0 {
		x.spread.pass(x, at)
		x.silence.observe(x)
		x.open += at - x.now
		x.count.pass(at)
		x.seconds.pass(x, at)
		x.tens.pass(x, at)
		x.minutes.pass(x, at)
	}
	x.now = at
}

// pause ends a period of continuous trading.
func (x *instrument) pause() {
	x.since = 0
	x.spread = spread{}
	x.seconds.restart()
	x.tens.restart()
	x.minutes.restart()
	x.signs.restart()
	x.prices.known = 0
	x.silence.restart()
	x.pending = [2]market.Size{}
}

// observe records the current spread.
func (x *instrument) observe() {
	if !x.running() {
		return
	}
	if x.since == 0 && x.now != 0 {
		x.since = x.now
		x.count.begin(x.now)
	}
	bid, ask := x.best()
	x.spread.set(x, bid.Price, ask.Price, bid.Size > 0 && ask.Size > 0 && bid.Price < ask.Price && bid.Price > 0)
}

// best returns the best bid and offer; Size 0 means none.
func (x *instrument) best() (bid, ask market.Level) {
	if x.definition.NoBook || x.definition.QuotesFromFeed && x.quote != [2]market.Level{} {
		return x.quote[0], x.quote[1]
	}
	b := &x.book
	if x.orderByOrder {
		b = x.orders.Book()
	}
	bid, _ = b.Best(market.Buy)
	ask, _ = b.Best(market.Sell)
	return bid, ask
}

// trade applies a trade. at is its time, which may be before x.now.
func (x *instrument) trade(e *market.Event, at int64) {
	x.addTurnover(e)
	if !x.running() || x.since == 0 {
		return
	}
	x.minutes.volume += float64(e.Size)
	x.trades++
	x.count.add()
	side := e.Side
	if side == market.NoSide {
		side = x.inferSide(e.Price)
	}
	x.lastPrice = e.Price
	if side == market.NoSide {
		return
	}
	x.pending[side-market.Buy] += e.Size
	if x.lastSide == side && x.lastTrade == at {
		return // another fill of the same order
	}
	x.lastSide, x.lastTrade = side, at
	x.orderCount++
	x.signs.add(side)
	x.prices.add(float64(e.Price))
}

// addTurnover adds the value of a trade.
func (x *instrument) addTurnover(e *market.Event) {
	value := float64(e.Price) / market.Scale * float64(e.Size) / market.Scale
	switch x.phase {
	case market.Open:
		x.turnover[0] += value
	case market.PreOpen, market.Auction:
		x.turnover[1] += value
	case market.PostClose:
		x.turnover[2] += value
	}
}

// inferSide infers the side of a trade from its position in the spread, or from the previous price.
func (x *instrument) inferSide(p market.Price) market.Side {
	if s := &x.spread; s.good {
		switch mid := float64(s.bid+s.ask) / 2; {
		case float64(p) > mid:
			return market.Buy
		case float64(p) < mid:
			return market.Sell
		}
	}
	switch {
	case x.lastPrice == 0 || p == x.lastPrice:
		return x.lastSide
	case p > x.lastPrice:
		return market.Buy
	}
	return market.Sell
}

// update applies changed levels. A level that shrank by more than was traded had a cancel.
func (x *instrument) update(e *market.Event) {
	if x.stale {
		return
	}
	for side, levels := range [2][]market.Level{e.Bids, e.Asks} {
		side := market.Buy + market.Side(side)
		taken := &x.pending[1-(side-market.Buy)] // sellers take bids
		for _, l := range levels {
			best, hasBest := x.book.Best(side)
			old, _ := x.book.Set(side, l)
			if !x.running() {
				continue
			}
			switch removed := old.Size - l.Size; {
			case removed < 0:
				x.placedAt(side, l.Price, best, hasBest)
			case removed > *taken:
				x.cancels++
				*taken = 0
			default:
				*taken -= removed
			}
		}
	}
	x.pending = [2]market.Size{}
}

// placedAt counts a new order by its distance from the best price.
func (x *instrument) placedAt(side market.Side, p market.Price, best market.Level, hasBest bool) {
	x.adds++
	if !hasBest {
		return
	}
	behind := best.Price - p
	if side == market.Sell {
		behind = -behind
	}
	tick := x.definition.TickSize(best.Price)
	if tick == 0 {
		tick = max(1, best.Price/10_000) // a basis point
	}
	switch ticks := behind / tick; {
	case behind < 0:
		x.placement[0]++
	case behind == 0:
		x.placement[1]++
	case ticks <= 5:
		x.placement[2]++
	case ticks <= 20:
		x.placement[3]++
	default:
		x.placement[4]++
	}
}

func (x *instrument) snapshot(e *market.Event) {
	x.stale = false
	x.book.Reset()
	x.orders.Reset()
	x.orderByOrder = false
	clear(x.addedAt)
	for _, l := range e.Bids {
		x.book.Set(market.Buy, l)
	}
	for _, l := range e.Asks {
		x.book.Set(market.Sell, l)
	}
	x.pending = [2]market.Size{}
}

// order applies an order-by-order event. Invalid events are ignored: this package does not verify.
func (x *instrument) order(e *market.Event) {
	x.orderByOrder, x.stale = true, false
	b := x.orders.Book()
	switch e.Kind {
	case market.KindOrderAdd:
		best, ok := b.Best(e.Side)
		if _, err := x.orders.Add(e.OrderID, e.Side, e.Price, e.Size); err == nil {
			x.addedAt[e.OrderID] = x.now
			if x.running() {
				x.placedAt(e.Side, e.Price, best, ok)
			}
		}
	case market.KindOrderReplace: // in the figures, a cancelled order and a new one
		old, added := market.Event{Kind: market.KindOrderDelete, OrderID: e.OrderID}, *e
		added.Kind, added.OrderID = market.KindOrderAdd, e.NewID
		added.Side, _, _, _ = x.orders.Order(e.OrderID)
		x.order(&old)
		x.order(&added)
	case market.KindOrderModify:
		_, _, _, _ = x.orders.Modify(e.OrderID, e.Price, e.Size)
	case market.KindOrderDelete:
		if _, _, err := x.orders.Delete(e.OrderID); err == nil && x.running() {
			x.cancels++
			x.lifetimes.add(math.Max(1e-9, float64(x.now-x.addedAt[e.OrderID])/float64(second)), 1)
		}
		delete(x.addedAt, e.OrderID)
	case market.KindOrderFill:
		if _, _, err := x.orders.Fill(e.OrderID, e.Size); err == nil {
			if _, _, _, ok := x.orders.Order(e.OrderID); !ok {
				delete(x.addedAt, e.OrderID)
			}
		}
	}
}
