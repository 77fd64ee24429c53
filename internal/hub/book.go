package hub

import (
	"errors"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/state"
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

// sendChanges sends the changes in a tier's view of the book.
func (h *applier) sendChanges(in *Instrument, t *tierState, s state.Stamp, rec Record) {
	x := &h.scratch
	if t.view.Advance(&x.levels, &x.top, &in.Book); !x.levels.Empty() {
		h.sendUpdate(in, t, s, rec)
	}
}

// sendUpdate sends the levels in scratch memory as an update of a tier. The update follows the
// newest message of the tier.
func (h *applier) sendUpdate(in *Instrument, t *tierState, s state.Stamp, rec Record) {
	hd, x := in.Header(rec.N, s), &h.scratch
	n := wire.ChecksumLevels(t.tier.Depth)
	x.top.Read(&in.Book, n)
	x.payload = wire.AppendBookUpdate(x.payload[:0], &hd, t.n, x.levels.Bids, x.levels.Asks, h.checksum(in, &x.top, n))
	t.stamp = s
	h.emit(t, h.framed(), rec)
}

// checksum returns the checksum K of the best n levels.
func (h *applier) checksum(in *Instrument, l *book.Levels, n int) (k uint32) {
	k, h.scratch.sum = wire.Checksum(h.scratch.sum, l.Bids, l.Asks, n, in.Def.PriceDecimals, in.Def.SizeDecimals)
	return k
}

// flushBook sends the changes of a conflated tier since its newest message.
func (h *applier) flushBook(in *Instrument, t *tierState, now int64) {
	if in.Stale {
		return
	}
	h.sendChanges(in, t, t.due.AsOf(now), Record{Position: h.newest(in), N: in.Sequences[wire.OrderBook].N, At: now, Of: in})
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

// appendBook appends the payload of a book tier as of its newest message. ok is false while the
// book is not known.
func (h *applier) appendBook(b []byte, in *Instrument, t *tierState) (_ []byte, ok bool) {
	if in.Stale || t.n == 0 {
		return b, false
	}
	x := &h.scratch
	x.levels.Read(&in.Book, t.tier.Depth)
	if t.dirty {
		t.view.Last(&x.levels)
	}
	k := h.checksum(in, &x.levels, wire.ChecksumLevels(t.tier.Depth))
	hd := in.Header(t.n, t.stamp)
	return wire.AppendBookState(b, &hd, t.tier.Depth, x.levels.Bids, x.levels.Asks, k), true
}
