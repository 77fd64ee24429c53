package stream

import (
	"cmp"
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Where identifiers of a set overlap, each instrument is one item's, its owner's.
// When an item goes, or moves to another tier, its instruments pass to the next
// owner without a message lost or doubled. Trades and statuses that waited go out
// ahead, or behind the replay they wait for; of quotes and books the next owner
// sends an R:true.

// settle brings the items that share instruments with one, and itself, to the present tail of their rings, each once:
// done are those that need not be again. Two exact items share nothing, so only a pattern has all of the set gone
// through. The hub's lock is held.
func (s *Subscriber) settle(it *item, done map[*item]bool) {
	list := s.patterns()
	if it.id().IsPattern() {
		list = s.items
	}
	shared := false
	for _, other := range list {
		if other != it && other.channel() == it.channel() && intersect(other.id(), it.id()) {
			shared = true
			other.takesOver(it)
			s.settleItem(other, done)
		}
	}
	if shared {
		s.settleItem(it, done)
	}
}

func (s *Subscriber) settleItem(it *item, done map[*item]bool) {
	if done[it] || !it.reads() {
		return
	}
	done[it] = true
	w := s.waiting()
	l, present := it.behind(), it.view.topic.ring.tail()
	if !it.channel().Replays() {
		w.carry = it.gatherNotices(w.carry, present)
		l.state, l.held = true, nil
		s.enqueue(it)
	} else {
		it.carryOver(w, present)
	}
	it.skipTo(s.shard.hub.committed, present)
}

// takesOver notes, of statuses that are to begin with their state, which instruments another item
// has followed until now: their statuses go on at N.
func (it *item) takesOver(from *item) {
	l := it.late
	if l == nil || !l.fresh || it.channel() != wire.Status {
		return
	}
	if list := it.sub.patterns(); from.id().IsPattern() && slices.Index(list, from) > slices.Index(list, it) {
		return // it has them already
	}
	o := from.late
	if o == nil || !o.fresh {
		l.takes(from.id())
		return
	}
	for _, x := range o.taken { // of the others nothing has been sent
		if intersect(x, from.id()) {
			l.takes(both(x, from.id()))
		}
	}
}

// maxTaken bounds the identifiers that an item notes as taken over.
const maxTaken = 256

// takes notes an identifier as taken over. Of an item with too many of them no status is left to its state any
// more: some then come before it.
func (l *late) takes(id market.InstrumentID) {
	switch {
	case !l.fresh || slices.Contains(l.taken, id):
	case len(l.taken) == maxTaken:
		l.fresh, l.taken = false, nil
	default:
		l.taken = append(l.taken, id)
	}
}

// both covers what each of two identifiers covers that intersect.
func both(a, b market.InstrumentID) market.InstrumentID {
	part := func(x, y string) string {
		if x == market.Any {
			return y
		}
		return x
	}
	return market.InstrumentID{Symbol: part(a.Symbol, b.Symbol), Market: part(a.Market, b.Market), Term: part(a.Term, b.Term)}
}

// stateTells says that the state which is due tells a status, so that it is not sent by itself.
func (it *item) stateTells(rec *record) bool {
	return it.unseen(rec.in)
}

// unseen says, of statuses, that the state which is due is the first that is sent of an instrument.
func (it *item) unseen(in *instrument) bool {
	l := it.late
	switch {
	case l == nil, !l.fresh, it.channel() != wire.Status:
		return false
	case l.telling == nil && !l.state, l.telling != nil && !l.telling.unsaid.has(in.index):
		return false
	}
	return !slices.ContainsFunc(l.taken, func(id market.InstrumentID) bool { return id.Matches(in.id) })
}

// carryOver takes what waits for an item before a tail out of its ring, to be sent ahead of all
// else or behind the item's replay.
func (it *item) carryOver(w *wait, tail cursor) {
	for {
		rec, frame, ok := it.take(tail)
		switch {
		case !ok:
			return
		case it.stateTells(rec), !it.wants(rec):
		case it.late.replay != nil:
			it.late.replay.push(kept{rec, frame})
		default:
			w.carry = append(w.carry, frame...)
		}
	}
}

// statesDue are identifiers of statuses whose state has yet to be sent.
func statesDue(items []*item) (due []market.InstrumentID) {
	for _, it := range items {
		if l := it.late; l != nil && it.channel() == wire.Status && (l.state || l.telling != nil) {
			due = append(due, it.id())
		}
	}
	return due
}

// passStates has the state of such identifiers sent by the items that have their instruments now.
func (s *Subscriber) passStates(due []market.InstrumentID) {
	if len(due) == 0 {
		return
	}
	for _, it := range s.items {
		if it.channel() == wire.Status && it.reads() &&
			slices.ContainsFunc(due, func(id market.InstrumentID) bool { return intersect(id, it.id()) }) {
			it.behind().state = true
			s.enqueue(it)
		}
	}
}

// removeAll takes items out of the set. The hub's lock is held.
func (s *Subscriber) removeAll(gone []*item) {
	if len(gone) == 0 {
		return
	}
	out := make(map[*item]bool, len(gone))
	for _, it := range gone {
		out[it] = true
	}
	if s.mixed(gone) {
		s.change(out, nil) // the next owner may be on another line, or is to be silent as these are
		return
	}
	before := s.markets()
	due, settled := statesDue(gone), make(map[*item]bool)
	for _, it := range gone {
		s.settle(it, settled)
	}
	left := func(it *item) bool { return out[it] }
	s.items = slices.DeleteFunc(s.items, left)
	if s.set != nil {
		s.set.patterns = slices.DeleteFunc(s.set.patterns, left)
	}
	if s.wait != nil {
		s.wait.queue = slices.DeleteFunc(s.wait.queue, left)
		s.wait.reading = slices.DeleteFunc(s.wait.reading, left)
		s.wait.gated = slices.DeleteFunc(s.wait.gated, left)
	}
	var replays []*item
	var heirless []*replay
	for _, it := range gone {
		if s.set != nil && s.set.index != nil {
			delete(s.set.index, itemKey{it.channel(), it.id()})
		}
		if it.late != nil && it.late.replay != nil {
			replays, heirless = append(replays, it), append(heirless, it.late.replay)
		}
		s.shard.leave(it)
	}
	s.rearrange(before)
	s.passStates(due)
	for i, it := range replays {
		s.release(heirless[i], true)
		s.bequeath(it, heirless[i])
	}
	if len(replays) > 0 {
		s.fetchNext()
	}
	s.rest()
}

// bequeath gives what is left of an item's replay to the owners of its instruments, some at a time: it may
// be of all that are listed. The hub's lock is held, and released in between.
func (s *Subscriber) bequeath(it *item, r *replay) {
	heirs := make(map[*item]*replay)
	whole := true
	heir := func(in *instrument) (*item, *replay) {
		s.shard.hub.pauseReplaying()
		o := s.owner(it.channel(), in.id)
		if o == nil || !o.reads() {
			whole = false
			return nil, nil
		}
		l := o.behind()
		if l.replay == nil {
			l.replay = &replay{}
		}
		for _, b := range r.batches {
			if !slices.Contains(l.replay.batches, b) {
				b.left++
				l.replay.batches = append(l.replay.batches, b)
			}
		}
		s.enqueue(o)
		return o, l.replay
	}
	for _, p := range r.read {
		if _, h := heir(p.in); h != nil {
			h.read = append(h.read, p)
		}
	}
	for _, o := range r.old {
		if to, h := heir(o.in); h != nil {
			h.old = append(h.old, o.leftTo(to))
		}
	}
	for _, p := range r.parts {
		if _, h := heir(p.in); h != nil {
			h.parts = append(h.parts, p)
		}
	}
	for _, x := range r.spans {
		if _, h := heir(x.in); h != nil {
			h.spans = append(h.spans, x)
		}
	}
	for _, k := range r.after {
		if o, h := heir(k.rec.in); h != nil {
			h.push(k)
			heirs[o] = h
		}
	}
	for _, h := range heirs { // both parts were in order; position looks at the first
		slices.SortStableFunc(h.after, func(a, b kept) int { return cmp.Compare(a.rec.pos, b.rec.pos) })
	}
	r.done(s, whole)
}
