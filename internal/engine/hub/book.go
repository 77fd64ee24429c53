package hub

import (
	"errors"

	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// updateBook applies changed levels, or an event of a single order. It ignores events of a stale
// book. It returns why the book refused the event, or nil.
func (h *sequencer) updateBook(in *Instrument, e *market.Event, now int64) *market.Refused {
	if in.Stale {
		return nil
	}
	h.tiers(in, wire.OrderBook) // as they are before the change
	var changes []book.Change
	var err error
	if e.Kind == market.KindUpdate {
		changes, err = in.Book.Update(h.scratch.changes[:0], e.Bids, e.Asks)
	} else {
		changes, err = in.Book.Order(h.scratch.changes[:0], e)
	}
	if err != nil {
		return h.refuseBook(in, e, err, now)
	}
	h.bookChanged(in, changes, in.Stamp(e, now), now)
	return nil
}

// refuseBook returns why a book refused an event. A book that is too deep, or has sizes that cannot
// be sent, becomes stale.
func (h *sequencer) refuseBook(in *Instrument, e *market.Event, err error, now int64) *market.Refused {
	reason, lost := "bad_order", ""
	switch {
	case errors.Is(err, book.ErrOrders), errors.Is(err, book.ErrLevels):
		reason = "bad_kind"
	case errors.Is(err, book.ErrDepth):
		reason, lost = "bad_book", "too_deep"
	case errors.Is(err, book.ErrSum):
		reason, lost = "bad_size", "bad_size"
	}
	if lost != "" {
		h.loseBook(in, now, &market.Event{Reason: lost, Time: e.Time, Receive: e.Receive})
	}
	return &market.Refused{ID: in.id, Reason: reason, Detail: err.Error()}
}

// bookChanged numbers the changes of a book, and the quote that results from them.
func (h *sequencer) bookChanged(in *Instrument, changes []book.Change, s state.Stamp, now int64) {
	changes = book.Compact(changes)
	h.scratch.changes = changes[:0]
	if len(changes) == 0 {
		return
	}
	h.bookChanges(in, changes, s, now)
	h.derive(in, s, now)
}

// takeSnapshot replaces a book with the snapshot of an event. The book is then no longer stale.
func (h *sequencer) takeSnapshot(in *Instrument, e *market.Event, now int64) {
	h.tiers(in, wire.OrderBook) // as they are before the change
	in.Book.Replace(e.Bids, e.Asks)
	first := in.Sequences[wire.OrderBook].N == 0
	if in.Stale {
		in.Stale = false
		if !first && !h.marketDown(in) {
			h.status(in, &market.Event{Kind: market.KindStatus, Phase: market.FeedUp, Reason: "snapshot", Time: e.Time, Receive: e.Receive}, now)
		}
	}
	h.bookState(in, in.Stamp(e, now), now)
	h.derive(in, in.Changed, now)
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

// derive numbers the quote at the top of the book, for an instrument that derives its quotes from
// the book. It does nothing while the book is stale, locked or crossed, or in an auction or
// pre-open phase.
func (h *sequencer) derive(in *Instrument, s state.Stamp, now int64) {
	if !in.DerivesQuotes() || in.Stale || in.Phase == market.Auction || in.Phase == market.PreOpen || in.Book.Levels().Crossed() {
		return
	}
	bid, _ := in.Book.Levels().Best(market.Buy)
	ask, _ := in.Book.Levels().Best(market.Sell)
	h.setQuote(in, bid, ask, s, now)
}
