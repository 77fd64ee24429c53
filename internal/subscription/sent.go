package subscription

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// sentTo states how far the rows of an instrument were sent: up to a position, and up to an N.
type sentTo struct {
	pos, n uint64
	hasN   bool   // n is known, and may be 0
	exact  bool   // pos is at or after row n, and before the next row
	by     uint64 // the row of n is at or before this position
	safe   uint64 // a position to resume from, if pos is 0
	unseen bool   // nothing was sent; a snapshot is due
}

// sentRows states how far other items have sent the rows of instruments, or this item at another
// delay.
type sentRows struct {
	exact    map[market.InstrumentID]sentTo
	patterns []sentPattern         // for the other instruments; the first match counts
	most     uint64                // the greatest position
	due      []market.InstrumentID // status identifiers whose snapshot is due
}

type sentPattern struct {
	id   market.InstrumentID
	pos  uint64
	from *item // the item that sent it
}

// of returns how far the rows of an instrument were sent. ok is false if that is not known, or if
// nothing was sent. A nil list is empty.
func (r *sentRows) of(id market.InstrumentID) (x sentTo, ok bool) {
	if r == nil {
		return x, false
	}
	if x, ok = r.exact[id]; ok {
		return x, !x.unseen
	}
	for i := range r.patterns {
		if r.patterns[i].id.Matches(id) {
			return sentTo{pos: r.patterns[i].pos}, true
		}
	}
	return x, false
}

// unseen reports whether nothing of an instrument was sent, so that its snapshot is due. known is
// false if there is no record of the instrument.
func (r *sentRows) unseen(id market.InstrumentID) (unseen, known bool) {
	if r == nil {
		return false, false
	}
	if x, ok := r.exact[id]; ok {
		return x.unseen, true
	}
	_, known = r.of(id)
	return false, known
}

// see records that the snapshots of all unseen instruments were sent.
func (r *sentRows) see() {
	if r == nil {
		return
	}
	for id, x := range r.exact {
		if x.unseen {
			r.exact[id] = sentTo{}
		}
	}
}

func (r *sentRows) put(id market.InstrumentID, x sentTo) {
	if r.exact == nil {
		r.exact = make(map[market.InstrumentID]sentTo)
	}
	r.exact[id] = x
	r.most = max(r.most, x.pos, x.by)
}

func (r *sentRows) putPattern(p sentPattern) {
	r.patterns = append(r.patterns, p)
	r.most = max(r.most, p.pos)
}

// size returns the number of entries. A nil list is empty.
func (r *sentRows) size() int {
	if r == nil {
		return 0
	}
	return len(r.exact) + len(r.patterns)
}

// level raises all positions to the greatest one.
func (r *sentRows) level() {
	for id, x := range r.exact {
		x.pos = r.most
		r.exact[id] = x
	}
	for i := range r.patterns {
		r.patterns[i].pos = r.most
	}
}

// least returns a position up to which all rows of an identifier were sent, or 0 if it is not
// known.
func (r *sentRows) least(id market.InstrumentID) uint64 {
	if !id.IsPattern() {
		x, _ := r.of(id)
		return x.pos
	}
	if !slices.ContainsFunc(r.patterns, func(p sentPattern) bool { return p.id == id }) {
		return 0
	}
	low := uint64(math.MaxUint64)
	for _, x := range r.exact {
		low = min(low, x.pos)
	}
	for _, p := range r.patterns {
		low = min(low, p.pos)
	}
	return low
}

// patternBefore reports whether the rows of any pattern were sent only up to an earlier position.
func (r *sentRows) patternBefore(pos uint64) bool {
	return slices.ContainsFunc(r.patterns, func(p sentPattern) bool { return p.pos < pos })
}

// forItem returns the entries of an item's instruments. It includes the entry of a pattern only if
// from returns true for the item that sent it.
func (r *sentRows) forItem(it *item, from func(p *item) bool) *sentRows {
	list, id := &sentRows{}, it.id()
	if !id.IsPattern() {
		if x, ok := r.of(id); ok {
			list.put(id, x)
		}
		return list
	}
	for other, x := range r.exact {
		if id.Matches(other) {
			list.put(other, x)
		}
	}
	for _, p := range r.patterns {
		if from(p.from) && intersect(p.id, id) {
			p.id = both(p.id, id)
			list.putPattern(p)
		}
	}
	return list
}

// suppress adds rows that must not be sent again. It replaces earlier entries of the same
// instruments.
func (l *late) suppress(sent *sentRows) {
	was := l.elsewhere
	l.elsewhere = &sentRows{patterns: slices.Clone(sent.patterns), most: sent.most}
	for id, x := range sent.exact {
		l.elsewhere.put(id, x)
	}
	if was == nil {
		return
	}
	for id, x := range was.exact {
		if _, ok := sent.of(id); !ok {
			l.elsewhere.put(id, x)
		}
	}
	for _, p := range was.patterns { // the first one of an identifier counts
		if !slices.ContainsFunc(sent.patterns, func(q sentPattern) bool { return q.id == p.id }) {
			l.elsewhere.putPattern(p)
		}
	}
}

// suppresses reports whether a message was sent by another item or at another delay.
func (it *item) suppresses(rec *hub.Record) bool {
	if it.late == nil || it.late.elsewhere == nil {
		return false
	}
	x, ok := it.late.elsewhere.of(rec.Of.ID())
	return ok && (rec.Position <= x.pos || rec.Flag&ring.Echo == 0 && rec.N <= x.n)
}

// resumes reports whether the item may send a snapshot of an instrument, because the replica is
// past the rows that were sent. The hub's lock is held.
func (it *item) resumes(in *hub.Instrument) bool {
	if it.late.elsewhere == nil {
		return true
	}
	x, ok := it.late.elsewhere.of(in.ID())
	return !ok || x.pos <= it.sub.shard.hub.Reached(it.tier().Delay)
}

// sentOf returns how far an item has sent the rows of one instrument.
func (it *item) sentOf(in *hub.Instrument) sentTo {
	if it.unseen(in) {
		return sentTo{unseen: true}
	}
	x := sentTo{pos: it.ringPosition()}
	if it.late == nil {
		return x
	}
	if r, ok := it.replayed()[in]; ok {
		x = sentTo{pos: r.Pos, n: r.N, hasN: r.N > 0}
		if r.ByN {
			x.pos, x.safe = 0, r.Pos
		}
	}
	if it.late.elsewhere != nil {
		if y, ok := it.late.elsewhere.of(in.ID()); ok {
			x.pos, x.n, x.hasN, x.by = max(x.pos, y.pos), max(x.n, y.n), x.hasN || y.hasN, y.by
		}
	}
	return x
}

// add records how far an item has sent the rows of the instruments that it owns.
func (r *sentRows) add(it *item) {
	s := it.sub
	if it.stateDue() {
		r.due = append(r.due, it.id())
	}
	if !it.id().IsPattern() {
		if in := s.shard.hub.Lookup(it.id(), it.tier().Delay); in != nil {
			r.put(it.id(), it.sentOf(in))
		}
		return
	}
	base, l := it.ringPosition(), it.late
	if l == nil {
		r.putPattern(sentPattern{it.id(), base, it})
		return
	}
	unsent := l.fresh && l.needsSnapshot && l.progress == nil && it.channel() == wire.Status // the item sent nothing itself
	put := func(id market.InstrumentID, x sentTo) {
		if it.flag&overlap == 0 || s.owner(it.channel(), id) == it {
			r.put(id, x)
		}
	}
	if l.progress != nil {
		for _, in := range l.progress.left {
			if it.unseen(in) {
				put(in.ID(), sentTo{unseen: true})
			}
		}
	}
	if l.elsewhere != nil {
		for id, x := range l.elsewhere.exact {
			if it.id().Matches(id) {
				in := s.shard.hub.Lookup(id, 0)
				if x.unseen = x.unseen && in != nil && it.unseen(in); !x.unseen {
					x.pos = max(x.pos, base)
				}
				put(id, x)
			}
		}
	}
	for in := range it.replayed() {
		put(in.ID(), it.sentOf(in))
	}
	if l.elsewhere != nil {
		for _, p := range l.elsewhere.patterns {
			if !intersect(p.id, it.id()) {
				continue
			}
			r.putPattern(sentPattern{both(p.id, it.id()), max(p.pos, base), it})
		}
	}
	if !unsent {
		r.putPattern(sentPattern{it.id(), base, it})
	}
}

// forgetSent drops the suppressed rows once the item's ring is past them.
func (it *item) forgetSent() {
	if l := it.late; l.elsewhere != nil && it.channel().Replays() && l.replay == nil && l.at == it.view.tail && it.view.pos >= l.elsewhere.most {
		l.elsewhere = nil
	}
}
