package subscription

import "github.com/ruedahq/rueda/internal/engine/hub"

// reportHeld reports the oldest segment that the shard holds of each ring, if a report was
// requested. Turn calls it after the previous turn has ended. By then, an item has its own cursor
// at the messages that it did not gather.
func (s *Shard) reportHeld() {
	if !s.hub.ReportAsked() {
		return
	}
	s.round++
	for i := len(s.waiters) - 1; i >= 0; i-- { // from the end: relief may remove one, and the last one moves to its index
		sub := s.waiters[i]
		sub.relieve()
		for _, it := range sub.queue() {
			it.noteHeld(s.round)
		}
	}
	s.forgetNotices()
	s.hub.Report(func(tp *hub.Topic) (segment uint64, ok bool) {
		v := s.views[tp]
		if v == nil {
			return 0, false
		}
		return v.holds(s.round), true
	})
}

// noteHeld notes the oldest segment that the item holds. It releases a segment that the item has
// gathered to its end.
func (it *item) noteHeld(round uint64) {
	if !it.reads() || it.late == nil {
		return
	}
	v, at := it.view, &it.late.at
	if it.state() == replaying {
		it.late.replay.ToSpans(it.sub.shard.hub, it.channel())
	}
	at.Release(v.tail)
	if v.round != round {
		v.round, v.low = round, at.Segment()
	}
	v.low = min(v.low, at.Segment())
}

// holds returns the oldest segment that a view holds between two turns. The view releases the
// messages that all its readers have received. The hub's lock is held.
func (v *view) holds(round uint64) uint64 {
	v.tail.Forward()
	v.prev, v.plain, v.other = v.tail, nil, nil
	if v.round == round {
		return min(v.low, v.tail.Segment())
	}
	return v.tail.Segment()
}

// relieve releases memory that the subscriber keeps, as far as the level of relief requires.
func (s *Subscriber) relieve() {
	if !s.shard.hub.MemoryShort() || s.changing() != nil {
		return
	}
	for _, it := range s.queue() {
		l := it.late
		switch {
		case l == nil || !it.reads():
		case it.state() == replaying:
			it.releaseWaiting()
		case !s.strict && l.gate == 0 && !it.channel().Replays() && !l.at.SameSegment(it.view.tail):
			it.collapse()
		}
	}
}

// Collapse drops the waiting quotes, books and summaries of the subscriber, and makes snapshots due
// instead. It is for a socket that accepts no data.
func (s *Subscriber) Collapse() {
	if s.changing() != nil {
		return // it sends nothing now
	}
	s.hold()
	for _, it := range s.queue() {
		if !it.reads() || it.late.at == it.view.tail || it.late.gate != 0 || it.channel().Replays() {
			continue
		}
		it.collapse()
		s.shard.Figures.Conflated++
	}
}

// collapse drops the waiting messages of an item, except notices, and makes a snapshot due instead.
func (it *item) collapse() {
	w := it.sub.wait
	w.carry = it.gatherNotices(w.carry, it.view.tail)
	it.late.needsSnapshot = true
}

// releaseWaiting releases the messages that wait behind the item's replay, so that their segments
// can be freed.
func (it *item) releaseWaiting() {
	h, l := it.sub.shard.hub, it.late
	if n, _, _ := l.replay.Kept(); l.at == it.view.tail && n == 0 {
		return
	}
	release := l.replay.Release(h, it.channel())
	if release == nil {
		return
	}
	for {
		rec, frame, ok := it.take(it.view.tail)
		if !ok {
			return
		}
		if it.wants(rec) {
			release.Add(rec, frame)
		}
	}
}
