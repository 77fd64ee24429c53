package stream

import (
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Where identifiers of a set overlap, each instrument is one item's, its owner's.
// When an item goes, or moves to another tier, its instruments pass to the next
// owner without a message lost or doubled. Trades and statuses that waited go out
// ahead, or behind the replay they wait for; of quotes and books the next owner
// sends an R:true.

// settle has what waits of items that leave the set sent before the next answer, with what waits of the
// items that share instruments with them. added are identifiers that the same message adds; done lists the
// items that are settled already. Two exact items share nothing, so only a pattern is compared with the
// whole set. The hub's lock is held, and released between two items that leave: what is published
// meanwhile is left to change.
func (s *Subscriber) settle(leaving []*item, added []Item, done map[*item]bool) {
	h := s.shard.hub
	var addedPatterns []Item
	for _, x := range added {
		if x.ID.IsPattern() {
			addedPatterns = append(addedPatterns, x)
		}
	}
	for i, it := range leaving {
		others, news := s.patterns(), addedPatterns
		if it.id().IsPattern() {
			others, news = s.items, added
		}
		if i > 0 && h.mu.full() {
			h.mu.pause()
		}
		h.mu.visit(1 + (len(others)+len(news))/64)
		shared := slices.ContainsFunc(news, func(x Item) bool {
			return x.Channel == it.channel() && x.ID != it.id() && intersect(x.ID, it.id())
		})
		for _, other := range others {
			if other != it && other.channel() == it.channel() && intersect(other.id(), it.id()) {
				shared = true
				other.settle(done)
			}
		}
		if shared {
			it.settle(done)
		}
	}
}

func (it *item) settle(done map[*item]bool) {
	if done[it] || !it.reads() {
		return
	}
	done[it] = true
	w := it.sub.waiting()
	l, present := it.behind(), it.view.topic.ring.Tail()
	if !it.channel().Replays() {
		w.carry = it.gatherNotices(w.carry, present)
		l.state, l.held = true, nil
		it.sub.enqueue(it)
	} else {
		it.carryOver(w, present)
	}
	it.skipTo(it.sub.shard.hub.reached(it.tier().Delay), present)
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

// unseen says, of statuses, that the state which is due is the first that is sent of an instrument.
func (it *item) unseen(in *instrument) bool {
	l := it.late
	switch {
	case l == nil, !l.fresh, it.channel() != wire.Status:
		return false
	case l.telling == nil && !l.state, l.telling != nil && !l.telling.unsaid.Has(in.index):
		return false
	}
	_, sent := l.elsewhere.of(in.id)
	return !sent
}

// stateDue reports whether the state of a status item is due, or a part of it.
func (it *item) stateDue() bool {
	return it.late != nil && it.channel() == wire.Status && (it.late.state || it.late.telling != nil)
}

// carryOver takes what waits for an item before a tail out of its ring, to be sent ahead of all
// else or behind the item's replay.
func (it *item) carryOver(w *wait, tail cursor) {
	for {
		rec, frame, ok := it.take(tail)
		switch {
		case !ok:
			return
		case it.unseen(rec.Of), !it.wants(rec):
		case it.late.replay != nil:
			it.late.replay.push(kept{rec, frame})
		default:
			w.carry = append(w.carry, frame...)
		}
	}
}
