package sim

import (
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// exchange runs all instruments in one line of virtual time, in nanoseconds from
// the start. It knows nothing of a clock: what happens, and in which order, is
// the seed's doing alone.
type exchange struct {
	world       world
	instruments []instrument
	queue       []due // a heap by time
	start       int64 // Unix time of virtual time 0
	now         int64
	silent      bool // nothing is told

	// What happened since the last flush. Levels of events are slices of levels.
	events []market.Event
	levels []market.Level
	text   []byte
}

// due is the next action of an instrument.
type due struct {
	at    int64
	index int32
}

func (d due) before(e due) bool {
	return d.at < e.at || d.at == e.at && d.index < e.index
}

// newExchange opens an exchange at a virtual time, 0 or before.
func newExchange(seed uint64, listings []listing, at int64) *exchange {
	x := &exchange{world: newWorld(seed, at), now: at, instruments: make([]instrument, len(listings))}
	underlyings := map[string]*underlying{}
	for i := range listings {
		l := &listings[i]
		u := underlyings[l.underlying]
		if u == nil {
			u = &underlying{rng: newRand(seed, "underlying "+l.underlying), class: l.value, at: at}
			underlyings[l.underlying] = u
		}
		in := &x.instruments[i]
		*in = instrument{
			listing:    l,
			class:      l.class,
			underlying: u,
			rng:        newRand(seed, l.definition.ID.String()),
			book:       newMatcher(),
			lastMarket: at,
			excitedAt:  at,
		}
		in.price(at, &x.world)
		x.queue = append(x.queue, due{at: in.draw(at, &x.world), index: int32(i)})
	}
	for i := len(x.queue)/2 - 1; i >= 0; i-- {
		x.sink(i)
	}
	return x
}

// next is the virtual time of the next action.
func (x *exchange) next() int64 { return x.queue[0].at }

// step does the next action. Its events are at the end of x.events.
func (x *exchange) step() {
	first := &x.queue[0]
	x.now = first.at
	x.world.advance(x.now)
	in := &x.instruments[first.index]
	in.act(x.now, x)
	first.at = in.draw(x.now, &x.world)
	x.sink(0)
}

// sink moves an entry of the heap down to where it belongs.
func (x *exchange) sink(i int) {
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

// warmUp runs up to virtual time 0 and tells nobody.
func (x *exchange) warmUp() {
	x.silent = true
	for i := range x.instruments {
		x.instruments[i].wake(x)
	}
	for x.next() < 0 {
		x.step()
	}
	x.silent = false
	x.now = 0
}

// tell makes the events of what the instrument's book last did: its trades, of
// this aggressor, and then one update.
func (x *exchange) tell(in *instrument, aggressor market.Side) {
	if x.silent {
		return
	}
	at, book := x.start+x.now, &in.book
	for _, f := range book.fills {
		in.trades++
		x.text = strconv.AppendUint(x.text[:0], in.trades, 10)
		e := x.event(market.KindTrade, in, at)
		e.Side = aggressor
		e.Price = in.listing.grid.price(f.price)
		e.Size = market.Size(f.size) * in.listing.lot
		e.TradeID = string(x.text)
	}
	if len(book.touched) == 0 {
		return
	}
	// An order touches the other side first, from the best away, then its own.
	e := x.event(market.KindUpdate, in, at)
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

// event adds an event. What it returns is valid until the next.
func (x *exchange) event(kind market.Kind, in *instrument, at int64) *market.Event {
	x.events = append(x.events, market.Event{Kind: kind, Handle: in.handle, Time: at})
	return &x.events[len(x.events)-1]
}

// snapshot adds the whole book of an instrument.
func (x *exchange) snapshot(in *instrument) {
	e := x.event(market.KindSnapshot, in, x.start+x.now)
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

// clear forgets the events once they are published, and keeps their memory.
func (x *exchange) clear() {
	clear(x.events) // lets the trade ids go
	x.events, x.levels = x.events[:0], x.levels[:0]
}
