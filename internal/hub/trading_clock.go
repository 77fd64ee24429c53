package hub

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
)

// tradingClock is the clock of the bars and trading days of a market. It shows the time of this
// machine or, for instruments with a virtual clock, the newest event time of the market. A market
// has at most one clock of each kind for live data, and one of each kind for each replica.
type tradingClock struct {
	*bars.Clock
	replica *replica // nil: the clock is for live data

	followed int64 // time of the newest row of the followed hub, Unix ns
}

type clockKey struct {
	market  string
	virtual bool
	replica *replica
}

// tradingClocks has the trading clocks of all markets.
type tradingClocks struct {
	byKey map[clockKey]*tradingClock
	live  []*tradingClock // live clocks with the time of this machine, in the order of creation
	due   int64           // earliest end of an open bar of the live clocks, Unix ns; 0: no bar is open
}

// of returns the clock of a key. It makes the clock if there is none, with UTC if zone is nil.
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

// drop removes the clocks of a replica.
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

// setClock sets the clock of an instrument as its definition requires.
func (h *applier) setClock(in *Instrument) {
	if in.clock != nil && in.clock.Virtual() == in.Def.VirtualClock {
		return
	}
	in.clock = h.trading.of(clockKey{in.id.Market, in.Def.VirtualClock, in.replica}, h.zones[in.id.Market])
	in.SetClock(in.clock.Clock)
}

// awaitBars schedules the end of the next bar of a trading clock with the time of this machine.
func (h *applier) awaitBars(x *tradingClock) {
	if !h.cfg.Following && h.trading.await(x) {
		h.kickClock()
	}
}

// advanceClock moves the virtual clock of an event's market forward to the time of the event. It
// sends the bars that end by then.
func (h *sequencer) advanceClock(in *Instrument, e *market.Event, now int64) {
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

// sendBarsOf sends the bars of a clock that have ended at t, in Unix ns. It may release the hub's
// lock in between.
func (h *applier) sendBarsOf(x *tradingClock, t int64, send bars.SendFunc) {
	for x.Begin(t); x.Continue(send); {
		h.mu.visit(7) // an instrument may have bars of all intervals
		h.stepPublishing()
	}
}

// restart begins the bars of an instrument with a virtual clock again, because its recording begins
// again. From then on the instrument has its own clock, because the recordings of other instruments
// may be at other times.
func (h *applier) restart(in *Instrument, send bars.SendFunc) {
	x := in.clock
	in.clock = &tradingClock{Clock: x.Like(), replica: x.replica}
	in.RestartBars(in.clock.Clock, &h.shared, send)
}
