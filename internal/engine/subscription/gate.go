package subscription

import "slices"

// gate holds messages of a subscriber until a position is committed.
type gate struct {
	pos  uint64
	sub  *Subscriber
	it   *item // nil: the gate holds market-wide states
	late *late // the late state of the item
}

// close makes the item wait until everything that was published until now is committed. The caller
// appends frames to the result, which the item sends first after the wait. The hub's lock is held.
func (it *item) close() (held *[]byte) {
	l, s := it.late, it.sub.shard
	if l.gate == 0 {
		if len(l.held) == 0 {
			l.floor = s.hub.Committed()
		}
		l.gate = s.hub.CommitNewest()
		w := it.sub.waiting()
		w.gated = append(w.gated, it)
		s.gates = append(s.gates, gate{l.gate, it.sub, it, l})
	}
	return &l.held
}

// awaitVenues makes the due market-wide states wait for a commit. The hub's lock is held.
func (s *Subscriber) awaitVenues() {
	h := s.shard.hub
	if s.wait.venueAt == 0 {
		s.wait.venueAt = h.CommitNewest()
		s.shard.gates = append(s.shard.gates, gate{pos: s.wait.venueAt, sub: s})
	}
}

// takeGates removes and returns the open gates. The hub's lock is held.
func (s *Shard) takeGates() (open []gate) {
	n := 0
	for n < len(s.gates) && s.gates[n].pos <= s.hub.Committed() {
		n++
	}
	open, s.gates = s.gates[:n:n], s.gates[n:]
	if len(s.gates) > 0 {
		s.hub.WakeAt(0, s.gates[0].pos)
	}
	return open
}

// open schedules the messages of the open gates for the next Gather.
func (s *Shard) open(list []gate) {
	for i := range list {
		g := &list[i]
		switch {
		case g.sub.closed:
		case g.it == nil:
			if g.sub.wait != nil {
				g.sub.wait.venueAt = 0
			}
			s.mark(g.sub)
		case g.it.late == g.late && g.late.gate == g.pos:
			g.late.gate = 0
			g.sub.enqueue(g.it)
			s.mark(g.sub)
		}
		if w := g.sub.wait; w != nil && (i+1 == len(list) || list[i+1].sub != g.sub) {
			w.gated = slices.DeleteFunc(w.gated, func(it *item) bool { return it.late == nil || it.late.gate == 0 })
		}
	}
}

// reach has an item whose snapshot is due when its replica is at a position.
type reach struct {
	sub   *Subscriber
	it    *item
	late  *late // of the item
	delay int
	pos   uint64
}

// awaitReached schedules a snapshot of an item for the time when its replica is past the rows that
// were sent. The hub's lock is held.
func (s *Shard) awaitReached(it *item) {
	r := reach{it.sub, it, it.late, it.tier().Delay, it.late.elsewhere.Most}
	s.reaches = append(s.reaches, r)
	s.hub.WakeAt(r.delay, r.pos)
}

// takeReached removes and returns the gates that are open now, and the items whose wait for their
// replica is over. The hub's lock is held.
func (s *Shard) takeReached() (open []gate, reached []reach) {
	if !s.hub.TakeWakes() {
		return nil, nil
	}
	s.reaches = slices.DeleteFunc(s.reaches, func(r reach) bool {
		switch {
		case r.sub.closed || r.it.late != r.late || r.late.elsewhere == nil:
			return true
		case r.pos <= s.hub.Reached(r.delay):
			reached = append(reached, r)
			return true
		}
		s.hub.WakeAt(r.delay, r.pos)
		return false
	})
	return s.takeGates(), reached
}

// openReached makes snapshots of the items of a list due.
func (s *Shard) openReached(list []reach) {
	for _, r := range list {
		if r.sub.closed || r.it.late != r.late || r.late.elsewhere == nil || r.late.elsewhere.Most > r.pos {
			continue // it waits for a later position
		}
		r.late.elsewhere = nil
		r.it.requestSnapshot()
		s.mark(r.sub)
	}
}
