package sim

import (
	"math"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// exchange runs all instruments on one virtual time line, in nanoseconds. Virtual time has no
// nights: from one trading day to the next, start moves forward. The exchange does not read a
// clock; the seed alone determines the events and their order.
type exchange struct {
	seed        uint64
	world       world
	instruments []instrument // of fixed capacity, so that pointers into it stay valid
	underlyings map[string]*underlying
	queue       []due // a heap by time
	tasks       taskQueue
	acting      *instrument // the instrument that is acting; nil: the exchange itself
	day         *day        // nil: the markets are always open
	start       int64       // Unix time of virtual time 0
	now         int64
	pace        pace
	warmingUp   bool // no events are published
	ended       bool // the last day has ended
	indicating  bool // publishIndicative runs each second

	markets     map[string]market.Handle // handles of the markets as a whole
	closedUntil map[string]int64         // virtual time until which a fault closes a market

	// Events since the last flush. Levels of events are subslices of levels.
	events     []market.Event
	levels     []market.Level
	text       []byte
	conditions []string // of the trades that are published now
}

// due is the time of the next action of an instrument.
type due struct {
	at    int64
	index int32
}

func (d due) before(e due) bool {
	return d.at < e.at || d.at == e.at && d.index < e.index
}

// maxListed is the number of instruments that can be listed while the exchange runs.
const maxListed = 64

// newExchange opens an exchange at a virtual time of 0 or less. If hours is not nil, only the
// markets without hours are open.
func newExchange(seed uint64, listings []listing, at int64, hours *day) *exchange {
	x := &exchange{
		seed:        seed,
		world:       newWorld(seed, at, hours != nil),
		now:         at,
		day:         hours,
		instruments: make([]instrument, 0, len(listings)+maxListed),
		underlyings: map[string]*underlying{},
		markets:     map[string]market.Handle{},
		closedUntil: map[string]int64{},
	}
	for i := range listings {
		x.add(&listings[i])
	}
	for i := len(x.queue)/2 - 1; i >= 0; i-- {
		x.siftDown(i)
	}
	return x
}

// add lists an instrument, at the end of the queue.
func (x *exchange) add(l *listing) *instrument {
	u := x.underlyings[l.underlying]
	if u == nil {
		u = &underlying{rng: newRand(x.seed, "underlying "+l.underlying), class: l.value, at: x.now, common: x.world.common, heat: 1, wide: 1}
		x.underlyings[l.underlying] = u
	}
	u.orders += l.orders
	i := len(x.instruments)
	x.instruments = append(x.instruments, instrument{
		index:      int32(i),
		listing:    l,
		class:      l.class,
		underlying: u,
		rng:        newRand(x.seed, l.definition.ID.String()),
		book:       newMatcher(),
		phase:      market.Open,
		carry:      l.carry(1),
		lastMarket: x.now,
		excitedAt:  x.now,
		orders:     l.orders,
		median:     l.median(),
		depth:      min(3, max(0.8, math.Pow(l.orders/1000, 0.3))),
	})
	in := &x.instruments[i]
	if x.keepsHours(in) {
		in.phase = market.Closed
	}
	in.reported = in.phase
	in.price(x.now, &x.world)
	in.last = max(1, int64(in.fair+0.5))
	in.close = in.last
	x.queue = append(x.queue, due{at: in.draw(x.now, &x.world), index: int32(i)})
	return in
}

// keepsHours reports whether an instrument belongs to the market that opens and closes.
func (x *exchange) keepsHours(in *instrument) bool {
	return x.day != nil && in.listing.definition.ID.Market == venueBYMA
}

// next returns the virtual time of the next action.
func (x *exchange) next() int64 { return min(x.queue[0].at, x.tasks.next()) }

// step performs the next action and appends its events to x.events.
func (x *exchange) step() {
	if at := x.tasks.next(); at <= x.queue[0].at {
		x.now = at
		x.world.advance(x.now)
		x.tasks.pop().do()
		return
	}
	first := &x.queue[0]
	x.now = first.at
	x.world.advance(x.now)
	in := &x.instruments[first.index]
	x.acting = in
	in.act(x.now, x)
	x.acting = nil
	first.at = in.draw(x.now, &x.world)
	x.siftDown(0)
}

// later schedules a task.
func (x *exchange) later(after int64, do func()) { x.tasks.add(x.now+after, do) }

// redraw draws new times for the next actions of instruments whose rates have changed.
func (x *exchange) redraw(list ...*instrument) {
	for _, in := range list {
		if in == x.acting {
			continue // done after its action
		}
		i := slices.IndexFunc(x.queue, func(d due) bool { return d.index == in.index })
		in.decayExcitement(x.now)
		x.queue[i].at = in.draw(x.now, &x.world)
		x.fixHeap(i)
	}
}

// siftDown moves a heap entry down to its position.
func (x *exchange) siftDown(i int) {
	q := x.queue
	moving := q[i]
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(q[child]) {
			child++
		}
		if !q[child].before(moving) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = moving
}

// fixHeap moves a heap entry up or down to its position.
func (x *exchange) fixHeap(i int) {
	for i > 0 && x.queue[i].before(x.queue[(i-1)/2]) {
		x.queue[i], x.queue[(i-1)/2] = x.queue[(i-1)/2], x.queue[i]
		i = (i - 1) / 2
	}
	x.siftDown(i)
}

// warmUp runs the open markets up to virtual time 0 without publishing.
func (x *exchange) warmUp() {
	x.warmingUp = true
	for i := range x.instruments {
		if x.instruments[i].phase == market.Open {
			x.instruments[i].wake(x)
		}
	}
	for x.next() < 0 {
		x.step()
	}
	x.warmingUp = false
	x.now = 0
}

// suppressed reports whether events of an instrument are not published now.
func (x *exchange) suppressed(in *instrument) bool { return x.warmingUp || in.muted }

// report appends the events of the last action in the instrument's book: its trades, with the given
// aggressor, and then one update.
func (x *exchange) report(in *instrument, aggressor market.Side) {
	in.dirty = true
	if n := len(in.book.fills); n > 0 {
		in.last, in.lastAt = in.book.fills[n-1].price, x.now
		in.setAnchor()
	}
	if x.suppressed(in) {
		return
	}
	book := &in.book
	for _, f := range book.fills {
		x.trade(in, aggressor, in.listing.grid.price(f.price), market.Size(f.size)*in.listing.lot)
	}
	if len(book.touched) == 0 {
		return
	}
	// An order changes the other side first, from the best price outwards, and then its own.
	e := x.event(market.KindUpdate, in)
	from := len(x.levels)
	for i, t := range book.touched {
		x.levels = append(x.levels, market.Level{
			Price:  in.listing.grid.price(t.price),
			Size:   market.Size(t.size) * in.listing.lot,
			Orders: t.orders,
		})
		if i+1 < len(book.touched) && book.touched[i+1].side == t.side {
			continue
		}
		to := len(x.levels)
		if t.side == market.Buy {
			e.Bids = x.levels[from:to:to]
		} else {
			e.Asks = x.levels[from:to:to]
		}
		from = to
	}
}

// trade appends a trade with the current conditions.
func (x *exchange) trade(in *instrument, aggressor market.Side, price market.Price, size market.Size) {
	in.trades++
	x.text = strconv.AppendUint(x.text[:0], in.trades, 10)
	e := x.event(market.KindTrade, in)
	e.Side, e.Price, e.Size = aggressor, price, size
	e.TradeID = string(x.text)
	e.Conditions = x.conditions
	in.lastTrade = lastTrade{id: e.TradeID, price: price, size: size, at: x.now}
}

// event appends an event and returns it. The pointer is valid until the next call.
func (x *exchange) event(kind market.Kind, in *instrument) *market.Event {
	x.events = append(x.events, market.Event{Kind: kind, Handle: in.handle, Time: x.unix(x.now) + in.skew})
	return &x.events[len(x.events)-1]
}

// status sets and publishes the phase of an instrument. until is a virtual time, 0 if unknown.
func (x *exchange) status(in *instrument, phase market.Phase, reason string, until int64) {
	in.phase, in.reason, in.until = phase, reason, until
	if x.suppressed(in) {
		return
	}
	in.reported = phase
	e := x.event(market.KindStatus, in)
	e.Phase, e.Reason = phase, reason
	if until != 0 {
		e.Until = x.unix(until)
	}
}

// marketStatus publishes the phase of a market as a whole, if it has an instrument. until is a Unix
// time.
func (x *exchange) marketStatus(id string, phase market.Phase, reason string, until int64) {
	if handle, ok := x.markets[id]; ok {
		x.events = append(x.events, market.Event{
			Kind: market.KindStatus, Handle: handle, Time: x.unix(x.now), Phase: phase, Reason: reason, Until: until,
		})
	}
}

// reference publishes the previous close, and the settlement price once there is one.
func (x *exchange) reference(in *instrument, settlement market.Price) {
	if x.suppressed(in) {
		return
	}
	e := x.event(market.KindReference, in)
	e.PreviousClose, e.Settlement = in.listing.grid.price(in.close), settlement
}

// snapshot appends the complete book of an instrument.
func (x *exchange) snapshot(in *instrument) {
	e := x.event(market.KindSnapshot, in)
	for _, side := range [...]market.Side{market.Buy, market.Sell} {
		from := len(x.levels)
		queues := *in.book.side(side)
		for i := len(queues) - 1; i >= 0; i-- {
			q := &queues[i]
			x.levels = append(x.levels, market.Level{
				Price:  in.listing.grid.price(key(side, q.key)),
				Size:   market.Size(q.size) * in.listing.lot,
				Orders: q.orders,
			})
		}
		to := len(x.levels)
		if side == market.Buy {
			e.Bids = x.levels[from:to:to]
		} else {
			e.Asks = x.levels[from:to:to]
		}
	}
}

// clear discards the published events and keeps their memory.
func (x *exchange) clear() {
	clear(x.events) // releases the trade ids
	x.events, x.levels = x.events[:0], x.levels[:0]
}
