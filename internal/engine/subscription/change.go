package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// newItem returns an empty item. It takes a spare item if there is one.
func (s *Shard) newItem() *item {
	if len(s.spare) == 0 {
		return new(item)
	}
	it := &s.spare[0]
	s.spare = s.spare[1:]
	return it
}

// add adds an item to the set, and makes it a reader of its ring unless a pattern covers it. The
// hub's lock is held.
func (s *Subscriber) add(x hub.Item) *item {
	it := s.shard.newItem()
	it.sub = s
	if s.covering(x) != nil {
		it.view = &view{key: x}
	} else {
		s.shard.join(it, x)
	}
	s.items = append(s.items, it)
	switch {
	case s.set != nil && s.set.index != nil:
		s.set.index[itemKey{x.Channel, x.ID}] = it
	case len(s.items) > manyItems:
		index := make(map[itemKey]*item)
		for _, it := range s.items {
			index[it.key()] = it
		}
		s.more().index = index
	}
	s.overlaps(it)
	if x.ID.IsPattern() {
		s.more().patterns = append(s.more().patterns, it)
	}
	return it
}

// start makes an item a reader of its ring, from the tail on. The hub's lock is held.
func (it *item) start() {
	it.sub.shard.join(it, it.view.key)
	it.sub.overlaps(it)
}

// drop removes an item from its ring, and drops what waited for it. The hub's lock is held.
func (it *item) drop() {
	s := it.sub
	if l := it.late; l != nil {
		if l.replay != nil {
			l.replay.done(s, false)
		}
		if l.listed {
			s.wait.queue = without(s.wait.queue, it)
		}
		if l.gate != 0 {
			s.wait.gated = without(s.wait.gated, it)
		}
		if l.replay != nil && l.replay.waits {
			s.wait.reading = without(s.wait.reading, it)
		}
		if l.replay != nil && l.replay.holds {
			l.replay.release(s, true)
			s.fetchNext()
		}
	}
	it.late = nil
	s.shard.leave(it)
}

// rearrange updates the set after a change. It finds which patterns share instruments with other
// items, and which statuses of markets the set receives. before has the markets of the set before
// the change. The hub's lock is held.
func (s *Subscriber) rearrange(before []string) {
	for _, it := range s.items {
		if !it.reads() && s.covering(it.item()) == nil {
			it.start()
			if !it.channel().Replays() {
				it.requestSnapshot()
			}
		}
	}
	patterns := s.patterns()
	if len(patterns)*len(s.items) > maxCompared {
		patterns = nil // they stay marked; see overlaps
	}
	for i, it := range patterns {
		it.flag &^= overlap
		if slices.ContainsFunc(patterns[:i], func(p *item) bool {
			return p.channel() == it.channel() && catalogue.Overlap(p.id(), it.id())
		}) || slices.ContainsFunc(s.items, func(x *item) bool {
			return x.channel() == it.channel() && x.reads() && !x.id().IsPattern() && it.id().Matches(x.id())
		}) {
			it.flag |= overlap
		}
	}
	s.followVenues(before)
}

// maxCompared limits the comparisons of patterns with items in rearrange.
const maxCompared = 1 << 14

// Close removes all items of the subscriber, and the subscriber from its shard. Do not use the
// subscriber afterwards.
func (s *Subscriber) Close() {
	if s.closed || s.shard == nil {
		return
	}
	s.closed = true
	if t := s.changing(); t != nil {
		t.unpin()
	}
	sh := s.shard
	sh.hub.Lock()
	defer sh.hub.Unlock()
	for _, it := range s.items {
		if it.state() == replaying {
			it.late.replay.release(s, true)
		}
		sh.leave(it)
		sh.hub.Step(1)
	}
	sh.forget(s)
	s.unwait()
	s.dropNoticed()
	// The key is not changed: other goroutines may read it.
	s.items, s.set, s.wait, s.head, s.tail, s.called = nil, nil, nil, 0, 0, false
}
