package hub

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
)

// Publish applies a batch of events; see feed.Sink. The error joins a market.Refused for each event
// that was refused. The other events are applied.
func (h *Hub) Publish(events []market.Event) error {
	var refused []error
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	h.awaitJournal()
	now := h.beginBatch() // after the wait: the disk may have stalled
	for i := range events {
		if r := h.apply(&events[i], now); r != nil {
			r.Index = i
			refused = append(refused, r)
		}
		if h.mu.Visit(1); (i+1)%publishPiece == 0 {
			h.published()
			h.mu.Unlock()
			h.feeding.Unlock()
			h.feeding.Lock() // both mutexes pass to a goroutine that has waited for a millisecond
			h.mu.Lock()
			if h.awaitJournal() {
				now = h.beginBatch()
			}
		}
	}
	h.published()
	return errors.Join(refused...)
}

// beginBatch returns the publication time of the following events, in Unix ns. It sends the bars
// that have ended by that time.
func (h *sequencer) beginBatch() (now int64) {
	now = h.now()
	if due := h.trading.Due(); due > 0 && due <= now {
		h.sendBars(now)
	}
	return now
}

// advanceClock moves the virtual clock of an event's market forward to the time of the event. It
// sends the bars that end by then. At the first event, it publishes the instruments of the market.
func (h *sequencer) advanceClock(in *Instrument, e *market.Event, now int64) {
	if in.Def.VirtualClock && (e.Time != 0 || e.Receive != 0) {
		if t := in.Stamp(e, now).Time; in.Clock.Move(t) {
			h.sendBarsOf(in.Clock, t, h.sendBar(now))
		}
		if len(h.untimed) > 0 {
			h.untimed = slices.DeleteFunc(h.untimed, func(x *Instrument) bool {
				if x.Clock == in.Clock {
					h.list(x)
				}
				return x.Clock == in.Clock
			})
		}
	}
}

// sendBars sends the bars that have ended by this machine's clock.
func (h *sequencer) sendBars(now int64) {
	h.trading.Ended(now, func(x *bars.Clock) { h.sendBarsOf(x, now, h.sendBar(now)) })
}

// apply applies one event. It returns why the event is refused, or nil.
func (h *sequencer) apply(e *market.Event, now int64) *market.Refused {
	if int(e.Handle) >= len(h.handles) {
		return &market.Refused{Reason: "unknown_handle", Detail: "no instrument was defined under it"}
	}
	in := h.handles[e.Handle]
	if in.source != nil && e.Sequence > 0 {
		h.beginSource(in, e)
		defer func() { h.given.open = false }()
	}
	if reason, detail := in.Check(e); reason != "" {
		return &market.Refused{ID: in.id, Reason: reason, Detail: detail}
	}
	return h.applyTo(in, e, now)
}

// applyTo applies a checked event to an instrument. It returns why the book refused the event, or
// nil.
func (h *sequencer) applyTo(in *Instrument, e *market.Event, now int64) *market.Refused {
	h.advanceClock(in, e, now)
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		h.trade(in, e, now)
	case market.KindQuote:
		h.setQuote(in, state.First(e.Bids), state.First(e.Asks), in.Stamp(e, now), now)
	case market.KindSnapshot:
		h.takeSnapshot(in, e, now)
	case market.KindUpdate, market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		return h.updateBook(in, e, now)
	case market.KindStatus:
		h.setStatus(in, now, e)
	case market.KindGap:
		restarted := in.Def.VirtualClock && e.Reason == replayRestarted && !in.Venue
		if restarted {
			h.restart(in, h.sendBar(now))
		}
		h.takeGap(in, now, e)
		if restarted && in.Def.Phase == market.Unknown && in.Phase != market.Unknown {
			h.status(in, &market.Event{Kind: market.KindStatus, Phase: market.Unknown, Time: e.Time, Receive: e.Receive}, now)
		}
	case market.KindReference:
		h.reference(in, e, now)
	}
	return nil
}

// replayRestarted is the reason of the gap that marks the restart of a recording.
const replayRestarted = "replay_restarted"

// setStatus applies a status event of an instrument or a market. A status that its feed is down
// makes the books stale.
func (h *sequencer) setStatus(in *Instrument, now int64, e *market.Event) {
	switch {
	case e.Phase == market.FeedDown && in.Venue:
		in.Down = true
		h.loseMarket(in.id.Market, now)
	case e.Phase == market.FeedDown:
		h.bookLost(in, "feed_down", now)
	}
	h.status(in, e, now)
	if !e.Phase.OfFeed() && !in.Venue {
		h.derive(in, in.Stamp(e, now), now)
	}
}

// list publishes a newly listed instrument. Its status has N 1 in the channel of statuses. A book
// that is known to be empty has N 1 in the channel of books. An instrument of the journal continues
// with its numbers, and publishes its status only if the status has changed. If the time of a
// virtual clock is not known yet, the instrument waits for the first event of its market.
func (h *sequencer) list(in *Instrument) {
	now := h.now()
	at := now
	switch {
	case in.Def.Listed != 0:
		at = in.Def.Listed
	case in.Def.VirtualClock && in.Clock.Now() == 0:
		h.untimed = append(h.untimed, in)
		return
	case in.Def.VirtualClock:
		at = in.Clock.Now()
	}
	was := in.Phase
	if in.Def.Phase == market.Unknown {
		in.Phase = cmp.Or(was, market.Unknown)
	} else {
		in.Phase = cmp.Or(in.Def.Phase, was, market.Open)
	}
	if was != in.Phase || in.Statuses.Last == 0 {
		in.Reason, in.Until = "", 0
		h.status(in, &market.Event{Kind: market.KindStatus, Phase: in.Phase, Receive: at}, now)
	}
	if in.Def.StartsEmpty && !in.Def.NoBook {
		h.bookState(in, state.Stamp{Time: at, Latency: -1}, now)
	}
}
