package stream

import (
	"hash/maphash"
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
)

// exchange is the clock of the bars of a market and its trading days: that of this machine, or
// for instruments with a virtual clock the newest event time of the market. A market
// has one for each, and for each replica.
type exchange struct {
	*bars.Clock
	replica *replica // nil: live

	followed int64 // time of the newest row of a hub that is followed
}

type exchangeKey struct {
	market  string
	virtual bool
	replica *replica
}

// barClock is what the hub has for the bars of all instruments.
type barClock struct {
	exchanges map[exchangeKey]*exchange
	live      []*exchange // by this machine's clock, in the order of arrival
	barsDue   int64       // the earliest end of an open bar of those; 0: none is open
	deals     int64       // kept of all instruments
	maxDeals  int64
	seed      maphash.Seed
}

// exchangeOf is the exchange of an instrument.
func (h *Hub) exchangeOf(in *instrument) *exchange {
	if x := in.exchange; x != nil && x.Virtual() == in.def.VirtualClock {
		return x
	}
	in.exchange = h.exchange(exchangeKey{in.id.Market, in.def.VirtualClock, in.replica})
	if in.bars != nil {
		in.bars.Enter(in.exchange.Clock)
	}
	return in.exchange
}

func (h *Hub) exchange(key exchangeKey) *exchange {
	c := &h.barClock
	if c.exchanges == nil {
		c.exchanges = make(map[exchangeKey]*exchange)
		c.seed = maphash.MakeSeed()
		c.maxDeals = h.cfg.TapeBytes / bars.TradeBytes
	}
	if x := c.exchanges[key]; x != nil {
		return x
	}
	zone := time.UTC
	if z := h.zones[key.market]; z != nil {
		zone = z
	}
	x := &exchange{Clock: bars.NewClock(zone, key.virtual), replica: key.replica}
	c.exchanges[key] = x
	if key.replica == nil && !key.virtual {
		c.live = append(c.live, x)
	}
	return x
}

// hash is the short name of a trade id; 0 for none.
func (h *Hub) hash(id string) uint64 {
	if id == "" {
		return 0
	}
	return max(1, maphash.String(h.seed, id))
}

// clock is the time that it is here, where it is now by this machine.
func (x *exchange) clock(now int64) int64 {
	if x.Virtual() {
		return x.Now()
	}
	return now
}

// awaitBars has the clock of this machine look at an exchange when its next bar ends.
func (h *Hub) awaitBars(x *exchange) {
	next := x.Next()
	if h.cfg.Following || next == 0 || h.barsDue != 0 && h.barsDue <= next || x.Virtual() || x.replica != nil {
		return
	}
	h.barsDue = next
	h.kickClock()
}

// dateVirtual brings the virtual clock of an event's market forward to its time.
func (h *Hub) dateVirtual(in *instrument, e *market.Event, now int64) {
	if in.def.VirtualClock && (e.Time != 0 || e.Receive != 0) {
		if x, t := h.exchangeOf(in), in.stamp(e, now).time; x.Move(t) {
			h.strikeAt(x, t, now)
		}
	}
}

// strikeBars sends the bars that are over by this machine's clock.
func (h *Hub) strikeBars(now int64) {
	h.barsDue = 0
	for _, x := range h.live {
		if x.Next() != 0 && x.Next() <= now {
			h.strikeAt(x, now, now)
		}
		if x.Next() != 0 && (h.barsDue == 0 || x.Next() < h.barsDue) {
			h.barsDue = x.Next()
		}
	}
}

// strikeAt tells the bars of an exchange that are over at t, in pieces: see step.
func (h *Hub) strikeAt(x *exchange, t, now int64) {
	for x.Begin(t); x.Continue(h.sendBar(x.replica, now)); {
		h.mu.visit(7) // each may have bars of all intervals
		h.stepPublishing()
	}
}

// restart begins the bars of an instrument with a virtual clock anew: its recording begins
// again. From here on it goes by a clock of its own, since others may be elsewhere in theirs.
func (h *Hub) restart(in *instrument, now int64) {
	x := h.exchangeOf(in)
	in.exchange = &exchange{Clock: x.Like(), replica: x.replica}
	if b := in.bars; b != nil {
		h.deals -= int64(b.Restart(in.exchange.Clock, h.sendBar(x.replica, now)))
	}
	in.sum.start, in.sum.end = 0, 0
}

// publication is when a message is published, as it is kept: on a virtual clock the newest
// event time.
func (h *Hub) publication(in *instrument, now int64) int64 {
	if in.def.VirtualClock {
		if at := h.exchangeOf(in).Now(); at != 0 {
			return at
		}
		if in.def.Listed != 0 {
			return in.def.Listed
		}
	}
	return now
}
