package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
	"github.com/ruedahq/rueda/market"
)

// An item that continues after rows that others sent, or that it sent at another delay, suppresses
// these rows until its ring is past them.

// suppress makes an item skip rows that were sent. They replace earlier entries of the same
// instruments. For quotes, books and summaries, the item sends a snapshot when the replica is past
// those rows.
func (it *item) suppress(rows *sent.Rows) {
	l, replays := it.behind(), it.channel().Replays()
	if !replays {
		rows.Level()
	}
	if l.elsewhere = rows.Over(l.elsewhere); !replays {
		it.sub.shard.awaitReached(it)
	}
}

// suppresses reports whether a message was sent by another item or at another delay.
func (it *item) suppresses(rec *hub.Record) bool {
	if it.late == nil || it.late.elsewhere == nil {
		return false
	}
	x, ok := it.late.elsewhere.Of(rec.Of.ID())
	return ok && (rec.Position <= x.Pos || rec.Flag&ring.Echo == 0 && rec.N <= x.N)
}

// resumes reports whether the item may send a snapshot of an instrument, because the replica is
// past the rows that were sent. The hub's lock is held.
func (it *item) resumes(in *hub.Instrument) bool {
	x, ok := it.late.elsewhere.Of(in.ID())
	return !ok || x.Pos <= it.sub.shard.hub.Reached(it.tier().Delay)
}

// forgetSent drops the suppressed rows once the item's ring is past them.
func (it *item) forgetSent() {
	if l := it.late; l.elsewhere != nil && it.channel().Replays() && l.replay == nil && l.at == it.view.tail && it.view.pos >= l.elsewhere.Most {
		l.elsewhere = nil
	}
}

// sentOf returns how far an item has sent the rows of one instrument.
func (it *item) sentOf(in *hub.Instrument) sent.To {
	if it.unseen(in) {
		return sent.To{Unseen: true}
	}
	x := sent.To{Pos: it.ringPosition()}
	if it.late == nil {
		return x
	}
	if r, ok := it.replayed()[in]; ok {
		x = sent.To{Pos: r.Pos, N: r.N, HasN: r.N > 0}
		if r.ByN {
			x.Pos, x.Safe = 0, r.Pos
		}
	}
	if y, ok := it.late.elsewhere.Of(in.ID()); ok {
		x.Pos, x.N, x.HasN, x.By = max(x.Pos, y.Pos), max(x.N, y.N), x.HasN || y.HasN, y.By
	}
	return x
}

// putSent records how far an item has sent the rows of the instruments that it owns.
func (it *item) putSent(r *sent.Rows) {
	s := it.sub
	if it.stateDue() {
		r.Due = append(r.Due, it.id())
	}
	if !it.id().IsPattern() {
		if in := s.shard.hub.Lookup(it.id(), it.tier().Delay); in != nil {
			r.Put(it.id(), it.sentOf(in))
		}
		return
	}
	base, l := it.ringPosition(), it.late
	if l == nil {
		r.PutPattern(sent.Pattern{ID: it.id(), Pos: base, From: it.id()})
		return
	}
	put := func(id market.InstrumentID, x sent.To) {
		if it.flag&overlap == 0 || s.owner(it.channel(), id) == it {
			r.Put(id, x)
		}
	}
	if l.progress != nil {
		for _, in := range l.progress.left {
			if it.unseen(in) {
				put(in.ID(), sent.To{Unseen: true})
			}
		}
	}
	if l.elsewhere != nil {
		for id, x := range l.elsewhere.Exact {
			if it.id().Matches(id) {
				in := s.shard.hub.Lookup(id, 0)
				if x.Unseen = x.Unseen && in != nil && it.unseen(in); !x.Unseen {
					x.Pos = max(x.Pos, base)
				}
				put(id, x)
			}
		}
	}
	for in := range it.replayed() {
		put(in.ID(), it.sentOf(in))
	}
	if l.elsewhere != nil {
		for _, p := range l.elsewhere.Patterns {
			if catalogue.Overlap(p.ID, it.id()) {
				r.PutPattern(sent.Pattern{ID: catalogue.Common(p.ID, it.id()), Pos: max(p.Pos, base), From: it.id()})
			}
		}
	}
	if !it.sentNothing() {
		r.PutPattern(sent.Pattern{ID: it.id(), Pos: base, From: it.id()})
	}
}

// sentInstruments returns the instruments of an item that may have rows between those that were
// sent and a position. The hub's lock is held.
func (it *item) sentInstruments(r *sent.Rows, at uint64) (list []*hub.Instrument) {
	h := it.sub.shard.hub
	if it.id().IsPattern() && r.PatternBefore(at) {
		return h.Covered(it.item())
	}
	for id, x := range r.Exact {
		if x.Pos < at && !x.Unseen {
			if in := h.Lookup(id, it.tier().Delay); in != nil {
				list = append(list, in)
			}
		}
	}
	slices.SortFunc(list, func(a, b *hub.Instrument) int { return int(a.Index()) - int(b.Index()) })
	return list
}
