package hub

import (
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/state"
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
	now = time.Now().UnixNano()
	if due := h.trading.Due(); due > 0 && due <= now {
		h.sendBars(now)
	}
	return now
}

// apply applies one event. It returns why the event is refused, or nil.
func (h *sequencer) apply(e *market.Event, now int64) *market.Refused {
	if int(e.Handle) >= len(h.handles) {
		return &market.Refused{Reason: "unknown_handle", Detail: "no instrument was defined under it"}
	}
	in := h.handles[e.Handle]
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
	case market.KindUpdate, market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill:
		return h.updateBook(in, e, now)
	case market.KindStatus:
		h.setStatus(in, now, e)
	case market.KindGap:
		if in.Def.VirtualClock && e.Reason == replayRestarted && !in.Venue {
			h.restart(in, h.sendBar(now))
		}
		h.takeGap(in, now, e)
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

// takeGap publishes that the source lost events, in all channels of the instrument, and makes its
// book stale. For a market as a whole, it makes all books of the market stale.
func (h *sequencer) takeGap(in *Instrument, now int64, e *market.Event) {
	gap := market.Event{Kind: market.KindStatus, Phase: market.Gap, Reason: e.Reason, Time: e.Time, Receive: e.Receive}
	h.status(in, &gap, now)
	h.loseBook(in, now, e)
}

// loseBook makes a book stale until its next snapshot, and informs its readers. For a market as a
// whole, it does this for every book.
func (h *sequencer) loseBook(in *Instrument, now int64, e *market.Event) {
	if in.Venue {
		for _, x := range h.groups.All() {
			if x.id.Market == in.id.Market {
				h.loseBook(x, now, e)
			}
			h.stepPublishing()
		}
		return
	}
	if in.Stale || in.Def.NoBook {
		return
	}
	h.mu.Visit(3) // it adds a status and another row
	in.Stale = true
	reason := e.Reason
	if reason == "" {
		reason = "gap"
	}
	down := market.Event{Kind: market.KindStatus, Phase: market.FeedDown, Reason: reason, Time: e.Time, Receive: e.Receive}
	h.status(in, &down, now)
	h.bookLost(in, reason, now)
}

// loseMarket makes all books of a market stale. The status of the market informs their readers.
func (h *sequencer) loseMarket(name string, now int64) {
	for _, in := range h.groups.All() {
		if in.id.Market == name && !in.Stale && !in.Def.NoBook {
			h.bookLost(in, "feed_down", now)
		}
		h.stepPublishing()
	}
}
