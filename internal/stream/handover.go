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

// settle brings the items of a channel that share instruments with id to the present tail of
// their rings. The hub's lock is held.
func (s *Subscriber) settle(c wire.Channel, id market.InstrumentID) {
	for _, it := range s.order {
		if it.Channel != c || it.view == nil || !intersect(it.ID, id) {
			continue
		}
		it.view.tail, it.view.pos = it.view.topic.ring.tail(), s.hub.position
		if c == wire.Quotes || c == wire.OrderBook {
			s.carry = it.gatherNotices(s.carry)
			it.state = true
			it.enqueue()
			continue
		}
		for ; ; it.at.rec++ {
			rec, frame, ok := it.at.peek(it.view.tail)
			if !ok {
				break
			}
			switch {
			case !it.wants(rec):
			case it.replay != nil:
				it.replay.after = append(it.replay.after, kept{rec, frame})
			default:
				s.carry = append(s.carry, frame...)
			}
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
		if s.shares(it) {
			s.settle(it.Channel, it.ID)
		}
	}
	left := func(it *item) bool { return out[it] }
	s.order = slices.DeleteFunc(s.order, left)
	s.patterns = slices.DeleteFunc(s.patterns, left)
	s.queue = slices.DeleteFunc(s.queue, left)
	for _, it := range gone {
		delete(s.items, itemKey{it.Channel, it.ID})
		s.shard.leave(it)
		it.state, it.queued = false, false
	}
	s.rearrange()
	for _, it := range gone {
		if it.replay != nil {
			s.bequeath(it)
		}
	}
}

// shares says whether another item of the set covers instruments of it as well.
func (s *Subscriber) shares(it *item) bool {
	list := s.patterns
	if it.ID.IsPattern() {
		list = s.order
	}
	return slices.ContainsFunc(list, func(other *item) bool {
		return other != it && other.Channel == it.Channel && intersect(other.ID, it.ID)
	})
}

// bequeath gives what is left of an item's replay to the owners of its instruments.
func (s *Subscriber) bequeath(it *item) {
	r := it.replay
	it.replay = nil
	heir := func(in *instrument) *replay {
		o := s.owner(it.Channel, in.id)
		if o == nil || o.view == nil {
			return nil
		}
		if o.replay == nil {
			o.replay = &replay{}
		}
		for _, b := range r.batches {
			if !slices.Contains(o.replay.batches, b) {
				b.left++
				o.replay.batches = append(o.replay.batches, b)
			}
		}
		o.enqueue()
		return o.replay
	}
	for _, p := range r.parts {
		if h := heir(p.in); h != nil {
			h.parts = append(h.parts, p)
		}
	}
	for _, k := range r.after {
		if h := heir(k.rec.in); h != nil {
			h.after = append(h.after, k)
		}
	}
	r.done(s)
}
