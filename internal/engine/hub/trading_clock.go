package hub

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
)

// The clock of a market shows the time of this machine or, for instruments with a virtual clock,
// the newest event time of the market. It determines when bars and trading days end.

// setClock sets the clock of an instrument as its definition requires.
func (h *applier) setClock(in *Instrument) {
	if in.Clock != nil && in.Clock.Virtual() == in.Def.VirtualClock {
		return
	}
	in.SetClock(h.trading.Of(bars.ClockKey{Market: in.id.Market, Virtual: in.Def.VirtualClock, Delay: in.delay()}, in.zone))
}

// zoneOf returns the time zone of a market, UTC if it is not known. It stays the same once the
// market has an instrument. The hub's lock is held.
func (h *applier) zoneOf(name string) *time.Location { return cmp.Or(h.zones[name], time.UTC) }

// awaitBars schedules the end of the next bar of a clock with the time of this machine.
func (h *applier) awaitBars(x *bars.Clock) {
	if !h.cfg.Following && h.trading.Await(x) {
		h.kickClock()
	}
}

// sendBarsOf sends the bars of a clock that have ended at t, in Unix ns. It may release the hub's
// lock in between.
func (h *applier) sendBarsOf(x *bars.Clock, t int64, send bars.SendFunc) {
	for x.Begin(t); x.Continue(send); {
		h.mu.Visit(7) // an instrument may have bars of all intervals
		h.stepPublishing()
	}
}

// restart begins the bars of an instrument with a virtual clock again, because its recording begins
// again. From then on the instrument has its own clock, because the recordings of other instruments
// may be at other times.
func (h *applier) restart(in *Instrument, send bars.SendFunc) {
	in.RestartBars(in.Clock.Like(), &h.shared, send)
}

// makeInstrument returns an instrument that has only a definition. c is its replica, nil for a live
// instrument.
func (h *applier) makeInstrument(def market.Instrument, c *replica) *Instrument {
	in := &Instrument{Instrument: state.New(def), id: def.ID, zone: h.zoneOf(def.ID.Market), replica: c}
	in.Owner = in
	h.setClock(in)
	return in
}
