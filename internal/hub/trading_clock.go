package hub

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
)

// The clock of a market shows the time of this machine or, for instruments with a virtual clock,
// the newest event time of the market. It determines when bars and trading days end.

// setClock sets the clock of an instrument as its definition requires.
func (h *applier) setClock(in *Instrument) {
	if in.Clock != nil && in.Clock.Virtual() == in.Def.VirtualClock {
		return
	}
	in.SetClock(h.trading.Of(bars.ClockKey{Market: in.id.Market, Virtual: in.Def.VirtualClock, Delay: in.delay()}, h.zones[in.id.Market]))
}

// awaitBars schedules the end of the next bar of a clock with the time of this machine.
func (h *applier) awaitBars(x *bars.Clock) {
	if !h.cfg.Following && h.trading.Await(x) {
		h.kickClock()
	}
}

// advanceClock moves the virtual clock of an event's market forward to the time of the event. It
// sends the bars that end by then.
func (h *sequencer) advanceClock(in *Instrument, e *market.Event, now int64) {
	if in.Def.VirtualClock && (e.Time != 0 || e.Receive != 0) {
		if t := in.Stamp(e, now).Time; in.Clock.Move(t) {
			h.sendBarsOf(in.Clock, t, h.sendBar(now))
		}
	}
}

// sendBars sends the bars that have ended by this machine's clock.
func (h *sequencer) sendBars(now int64) {
	h.trading.Ended(now, func(x *bars.Clock) { h.sendBarsOf(x, now, h.sendBar(now)) })
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
