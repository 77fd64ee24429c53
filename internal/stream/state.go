package stream

import (
	"slices"

	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// An R:true tells how an instrument stands, and all that was published of it until then. A pattern may have thousands of
// instruments, and what is told of them is made under the hub's lock; so that nobody waits long for it, and no more
// memory is taken than the socket takes, it is made in pieces. What is published between two pieces goes out as it comes
// of instruments that have been told, and is in the R:true of the others.

// stateBatch is how many instruments are told at once.
const stateBatch = 64

// telling is how far an item is with telling how its instruments stand.
type telling struct {
	left   []*instrument // yet to be told, in order
	unsaid catalogue.Set // those of whom nothing need be said until then: their state is to tell it
}

// put lists an instrument, the last.
func (x *telling) put(in *instrument) {
	if !x.unsaid.Has(in.index) {
		x.unsaid.Add(in.index)
		x.left = append(x.left, in)
	}
}

// gatherStates appends the R:true of all instruments the item owns, or as many of them as there is room for; then
// late.telling are left.
func (it *item) gatherStates(dst []byte, limit int, conflate bool) []byte {
	l := it.late
	for {
		if l.telling != nil && !l.state {
			if dst = it.gatherBetween(dst, it.view.tail, limit, conflate); len(dst) >= limit {
				return dst
			}
		}
		dst = it.gatherPiece(dst, conflate)
		it.sub.shard.visited += stateBatch
		if l.telling == nil || l.gate != 0 || len(dst) >= limit || it.sub.shard.tired() {
			return dst
		}
	}
}

// gatherPiece appends the R:true of the next instruments. What was published up to now is told by
// it. Where some of that is not committed it is held until it is. Statuses, none of which is left
// out, wait until they are told.
func (it *item) gatherPiece(dst []byte, conflate bool) []byte {
	l, h := it.late, it.sub.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	r := &it.view.topic.ring
	now := r.Tail()
	if it.channel() == wire.Status && now != r.End() {
		it.close()
		return dst
	}
	pos, begins := h.reached(it.tier().Delay), l.state
	var batch []*instrument
	switch {
	case l.state:
		switch { // no status is left out once one was told
		case it.channel() != wire.Status:
		case l.fresh && l.telling != nil:
			dst = it.gatherBetween(dst, now, maxInt, false)
		default:
			dst = it.gatherRing(dst, now, maxInt)
		}
		l.state = false
		batch = it.beginStates(h.covered(it.item()))
	default:
		dst = it.gatherBetween(dst, now, maxInt, conflate)
		batch = l.telling.left
	}
	out := &dst
	if next := batch[:min(stateBatch, len(batch))]; it.channel() != wire.Status && h.uncommitted(next) {
		out, pos, now = it.close(), h.position, r.End()
	}
	switch {
	case it.channel() == wire.Status:
	case begins:
		*out = it.gatherGaps(*out, now)
	case out != &dst:
		*out = it.gatherBetween(*out, now, maxInt, conflate)
	}
	it.skipTo(pos, now)
	h.mu.visit(min(stateBatch, len(batch)))
	for _, in := range batch[:min(stateBatch, len(batch))] {
		if l.telling != nil {
			l.telling.unsaid.Remove(in.index)
		}
		if it.flag&overlap != 0 && it.sub.owner(it.channel(), in.id) != it || !it.resumes(in) {
			continue
		}
		*out = it.sub.appendState(*out, in, it.channel(), it.tier())
	}
	if l.telling != nil {
		if l.telling.left = batch[min(stateBatch, len(batch)):]; len(l.telling.left) == 0 {
			l.telling = nil
		}
	}
	return dst
}

// gatherGaps appends the gaps among what waits before a tail, which no state tells.
func (it *item) gatherGaps(dst []byte, tail cursor) []byte {
	if all, _ := it.view.topic.ring.Echoes(); all == 0 {
		return dst
	}
	for at := it.late.at; ; at.Next() {
		rec, frame, ok := at.Peek(tail)
		if !ok {
			return dst
		}
		if rec.Flag&ring.Lost != 0 && !at.Offset().Before(it.late.sent) && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}

// beginStates has all instruments told, and gives them in their order: those first that were not when they were all to be
// told anew, or else the last ones might never be.
func (it *item) beginStates(all []*instrument) []*instrument {
	l := it.late
	if len(all) <= stateBatch {
		l.telling = nil
		return all
	}
	unsaid := slices.Clone(it.view.topic.group.Set)
	if l.telling != nil {
		if i := slices.Index(all, l.telling.left[0]); i > 0 {
			all = slices.Concat(all[i:], all[:i])
		}
		if it.channel() == wire.Status {
			unsaid = l.telling.unsaid
		}
	}
	l.telling = &telling{all, unsaid}
	return all
}

// gatherBetween appends, between two pieces, what the ring has of instruments that were told. With conflate their
// state is to be told again instead.
func (it *item) gatherBetween(dst []byte, tail cursor, limit int, conflate bool) []byte {
	l := it.late
	for len(dst) < limit {
		rec, frame, ok := it.take(tail)
		switch {
		case !ok:
			return dst
		case rec.Flag&ring.Echo != 0:
		case it.channel() == wire.Status && !it.unseen(rec.Of): // none is left out
		case l.telling.unsaid.Has(rec.Of.index):
			continue
		case conflate && !it.channel().Replays():
			l.telling.put(rec.Of)
			continue
		}
		if it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
	return dst
}

const maxInt = int(^uint(0) >> 1)

// appendState appends the framed R:true of an instrument's tier, or nothing
// where there is none yet. A book that is not known, and quotes that come from it,
// are told as such, once.
func (s *Subscriber) appendState(dst []byte, in *instrument, c wire.Channel, tier Tier) []byte {
	h := s.shard.hub
	if c == wire.Status {
		if in.Phase == market.NoPhase {
			return dst // a replica has not come that far
		}
		return h.appendStatus(dst, in, in.Phase, in.Reason, in.Until)
	}
	for _, t := range h.tiers(in, c) {
		if t.tier != tier {
			continue
		}
		if in.Stale && (c == wire.OrderBook || c == wire.Quotes && in.DerivesQuotes()) {
			if !h.marketDown(in) && s.unnoticed(noticeKey{in: in}, in.Statuses.Last) {
				dst = h.appendStatus(dst, in, market.FeedDown, "no_snapshot", 0)
			}
			return dst
		}
		ok := false
		switch c {
		case wire.Quotes:
			h.scratch.payload, ok = in.quoteState(h.scratch.payload[:0], t)
		case wire.Summary:
			h.scratch.payload, ok = in.AppendSummary(h.scratch.payload[:0])
		default:
			h.scratch.payload, ok = h.appendBook(h.scratch.payload[:0], in, t)
		}
		if ok {
			dst = wire.AppendText(dst, h.scratch.payload)
		}
	}
	return dst
}

// appendStatus appends a framed status that tells how things stand.
func (h *applier) appendStatus(dst []byte, in *instrument, phase market.Phase, reason string, until int64) []byte {
	h.scratch.payload = in.AppendStatus(h.scratch.payload[:0], phase, reason, until)
	return wire.AppendText(dst, h.scratch.payload)
}
