package stream

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
)

// tradingClock is the clock of the bars and trading days of a market. It shows the time of this
// machine or, for instruments with a virtual clock, the newest event time of the market. A market has
// one of each kind, and one of each kind for each replica.
type tradingClock struct {
	*bars.Clock
	replica *replica // nil: live

	followed int64 // time of the newest row of a hub that is followed
}

type clockKey struct {
	market  string
	virtual bool
	replica *replica
}

// tradingClocks has the trading clocks of all markets.
type tradingClocks struct {
	byKey map[clockKey]*tradingClock
	live  []*tradingClock // with the time of this machine, in the order of arrival
	due   int64           // the earliest end of an open bar of those; 0: none is open
}

// of returns the clock of a key, which it makes if there is none. zone may be nil.
func (c *tradingClocks) of(key clockKey, zone *time.Location) *tradingClock {
	if x := c.byKey[key]; x != nil {
		return x
	}
	x := &tradingClock{Clock: bars.NewClock(cmp.Or(zone, time.UTC), key.virtual), replica: key.replica}
	c.byKey[key] = x
	if key.replica == nil && !key.virtual {
		c.live = append(c.live, x)
	}
	return x
}

// drop forgets the clocks of a replica.
func (c *tradingClocks) drop(r *replica) {
	for key := range c.byKey {
		if key.replica == r {
			delete(c.byKey, key)
		}
	}
}

// await notes when the next bar of a clock ends, and reports whether that is the earliest one.
func (c *tradingClocks) await(x *tradingClock) bool {
	next := x.Next()
	if next == 0 || c.due != 0 && c.due <= next || x.Virtual() || x.replica != nil {
		return false
	}
	c.due = next
	return true
}

// setClock gives an instrument the clock that its definition requires.
func (h *applier) setClock(in *instrument) {
	if in.clock != nil && in.clock.Virtual() == in.Def.VirtualClock {
		return
	}
	in.clock = h.trading.of(clockKey{in.id.Market, in.Def.VirtualClock, in.replica}, h.zones[in.id.Market])
	in.SetClock(in.clock.Clock)
}

// awaitBars has the clock of this machine look at a trading clock when its next bar ends.
func (h *applier) awaitBars(x *tradingClock) {
	if !h.cfg.Following && h.trading.await(x) {
		h.kickClock()
	}
}

// advanceClock brings the virtual clock of an event's market forward to its time.
func (h *sequencer) advanceClock(in *instrument, e *market.Event, now int64) {
	if in.Def.VirtualClock && (e.Time != 0 || e.Receive != 0) {
		if t := in.Stamp(e, now).Time; in.clock.Move(t) {
			h.sendBarsOf(in.clock, t, h.sendBar(now))
		}
	}
}

// sendBars sends the bars that have ended by this machine's clock.
func (h *sequencer) sendBars(now int64) {
	c := &h.trading
	c.due = 0
	for _, x := range c.live {
		if x.Next() != 0 && x.Next() <= now {
			h.sendBarsOf(x, now, h.sendBar(now))
		}
		c.await(x)
	}
}

// sendBarsOf sends the bars of a clock that have ended at t. It may release the hub's lock in between.
func (h *applier) sendBarsOf(x *tradingClock, t int64, send bars.SendFunc) {
	for x.Begin(t); x.Continue(send); {
		h.mu.visit(7) // each may have bars of all intervals
		h.stepPublishing()
	}
}

// restart begins the bars of an instrument with a virtual clock again, because its recording begins
// again. It has a clock of its own from now on, since others may be elsewhere in their recordings.
func (h *applier) restart(in *instrument, send bars.SendFunc) {
	x := in.clock
	in.clock = &tradingClock{Clock: x.Like(), replica: x.replica}
	in.RestartBars(in.clock.Clock, &h.shared, send)
}
