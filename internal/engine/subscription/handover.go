package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// If identifiers of a set overlap, one item owns each shared instrument and sends its messages.
// When an item leaves or moves to another tier, its instruments pass to the next owner. No message
// is lost or sent twice. Trades and statuses that waited are sent first, or after the replay that
// they wait for. For quotes, books and summaries, the next owner sends a snapshot.

// settle schedules the messages that wait for leaving items before the next answer. It does the
// same for items that share instruments with them. added are identifiers that the same message
// adds. done has the items that are settled already. Exact items share no instruments with each
// other, so settle compares only patterns with the whole set. The hub's lock is held, and may be
// released between two leaving items. move handles what is published meanwhile.
func (s *Subscriber) settle(leaving []*item, added []hub.Item, done map[*item]bool) {
	h := s.shard.hub
	var addedPatterns []hub.Item
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
		if i > 0 {
			h.Step(0)
		}
		h.Visit(1 + (len(others)+len(news))/64)
		shared := slices.ContainsFunc(news, func(x hub.Item) bool {
			return x.Channel == it.channel() && x.ID != it.id() && catalogue.Overlap(x.ID, it.id())
		})
		for _, other := range others {
			if other != it && other.channel() == it.channel() && catalogue.Overlap(other.id(), it.id()) {
				shared = true
				other.settle(done)
			}
		}
		if shared {
			it.settle(done)
		}
	}
}

// settle takes the messages that wait for an item out of its ring, once. For quotes, books and
// summaries, it makes a snapshot due instead. Messages of an item that the present request has
// added come after its answer.
func (it *item) settle(done map[*item]bool) {
	if done[it] || !it.reads() || it.flag&unanswered != 0 {
		return
	}
	done[it] = true
	w := it.sub.waiting()
	l, present := it.behind(), it.view.topic.Tail()
	if !it.channel().Replays() {
		w.carry = it.gatherNotices(w.carry, present)
		l.held = nil
		it.requestSnapshot()
	} else {
		it.carryOver(w, present)
	}
	it.skipTo(it.sub.shard.hub.Reached(it.tier().Delay), present)
}

// carryOver takes the messages before a tail out of the item's ring. They are sent first, or after
// the item's replay.
func (it *item) carryOver(w *wait, tail hub.Cursor) {
	for {
		rec, frame, ok := it.take(tail)
		switch {
		case !ok:
			return
		case it.unseen(rec.Of), !it.wants(rec):
		case it.state() == replaying:
			it.late.replay.Push(rec, frame)
		default:
			w.carry = append(w.carry, frame...)
		}
	}
}
