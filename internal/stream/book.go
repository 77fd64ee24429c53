package stream

import (
	"errors"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// updateBook applies changed levels, or an event of a single order. A book that is stale takes none.
func (h *Hub) updateBook(in *instrument, e *market.Event, now int64) *market.Refused {
	if in.stale {
		return nil
	}
	h.tiers(in, wire.OrderBook) // as they are before the change
	var changes []book.Change
	var err error
	if e.Kind == market.KindUpdate {
		changes, err = in.book.Update(h.scratch.changes[:0], e.Bids, e.Asks)
	} else {
		changes, err = in.book.Order(h.scratch.changes[:0], e)
	}
	if err != nil {
		return h.refuseBook(in, e, err, now)
	}
	h.bookChanged(in, changes, in.stamp(e, now), now)
	return nil
}

// refuseBook says why a book took no event. One that is too deep, or holds what can't be told, is lost.
func (h *Hub) refuseBook(in *instrument, e *market.Event, err error, now int64) *market.Refused {
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

// bookChanged numbers what an event did to a book and tells each tier in whose
// view something changed.
func (h *Hub) bookChanged(in *instrument, changes []book.Change, s stamp, now int64) {
	changes = book.Compact(changes)
	h.scratch.changes = changes[:0]
	if len(changes) == 0 {
		return
	}
	h.bookChanges(in, changes, s, now)
	h.derive(in, s, now)
}

// sendChanges tells the readers of a tier what changed in their view of the book.
func (h *Hub) sendChanges(in *instrument, t *tierState, s stamp, rec record) {
	x := &h.scratch
	if t.view.Advance(&x.levels, &x.top, &in.book); !x.levels.Empty() {
		h.sendUpdate(in, t, s, rec)
	}
}

// sendUpdate sends the levels in scratch memory to the readers of a tier, chained to its newest message.
func (h *Hub) sendUpdate(in *instrument, t *tierState, s stamp, rec record) {
	hd, x := in.header(rec.n, s), &h.scratch
	n := wire.ChecksumLevels(t.tier.Depth)
	x.top.Read(&in.book, n)
	x.payload = wire.AppendBookUpdate(x.payload[:0], &hd, t.n, x.levels.Bids, x.levels.Asks, h.checksum(in, &x.top, n))
	t.stamp = s
	h.emit(t, h.framed(), rec)
}

// checksum is the K of the best n of levels.
func (h *Hub) checksum(in *instrument, l *book.Levels, n int) (k uint32) {
	k, h.scratch.sum = wire.Checksum(h.scratch.sum, l.Bids, l.Asks, n, in.def.PriceDecimals, in.def.SizeDecimals)
	return k
}

// flushBook sends what changed in a conflated tier since it last spoke.
func (h *Hub) flushBook(in *instrument, t *tierState, now int64) {
	if in.stale {
		return
	}
	h.sendChanges(in, t, t.due.asOf(now), record{pos: h.newest(in), n: in.channels[wire.OrderBook].n, at: now, in: in})
}

// takeSnapshot replaces a book, which ends its being stale.
func (h *Hub) takeSnapshot(in *instrument, e *market.Event, now int64) {
	h.tiers(in, wire.OrderBook) // as they are before the change
	in.book.Replace(e.Bids, e.Asks)
	first := in.channels[wire.OrderBook].n == 0
	if in.stale {
		in.stale = false
		if !first && !h.marketDown(in) {
			h.status(in, &market.Event{Kind: market.KindStatus, Phase: market.FeedUp, Reason: "snapshot", Time: e.Time, Receive: e.Receive}, now)
		}
	}
	h.bookState(in, in.stamp(e, now), now)
	h.derive(in, in.changed, now)
}

func (h *Hub) marketDown(in *instrument) bool {
	v := h.venues[in.id.Market]
	if v != nil {
		v = v.under(in.delay())
	}
	return v != nil && v.down
}

// appendBook appends the payload of a book tier as of its newest message; ok is
// false while the book is not known.
func (h *Hub) appendBook(b []byte, in *instrument, t *tierState) (_ []byte, ok bool) {
	if in.stale || t.n == 0 {
		return b, false
	}
	x := &h.scratch
	x.levels.Read(&in.book, t.tier.Depth)
	if t.dirty {
		t.view.Last(&x.levels)
	}
	k := h.checksum(in, &x.levels, wire.ChecksumLevels(t.tier.Depth))
	hd := in.header(t.n, t.stamp)
	return wire.AppendBookState(b, &hd, t.tier.Depth, x.levels.Bids, x.levels.Asks, k), true
}
