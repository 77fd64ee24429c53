package stream

import "github.com/ruedahq/rueda/internal/ring"

// A notice lies in the rings of several channels, and a client is sent it once. A set remembers the notices
// that it has sent for as long as one of its rings may bring them again.

// noticeKey names the notices of an instrument that are in the same rings, and in the same order there.
type noticeKey struct {
	in   *instrument
	kind ring.Flag // Lost, or 0
}

const (
	noticedBytes = 80      // about what a notice takes that a set remembers, for the budget
	noticedPiece = 1 << 15 // notices that a shard looks at in one report, of one set at least
)

// unnoticed says whether a notice of an instrument with sequence n is news, and
// takes note of it.
func (s *Subscriber) unnoticed(key noticeKey, n uint64) bool {
	m := s.more()
	if m.noticed[key] >= n {
		return false
	}
	if m.noticed == nil {
		m.noticed = make(map[noticeKey]uint64)
		s.shard.noticing[s] = struct{}{}
		s.shard.hub.memory.notices.Add(1)
	}
	m.noticed[key] = n
	s.countNoticed()
	return true
}

// countNoticed tells the hub's memory what the notices take that the set remembers.
func (s *Subscriber) countNoticed() {
	bytes := len(s.set.noticed) * noticedBytes
	s.Hold(bytes - s.set.noticedBytes)
	s.set.noticedBytes = bytes
}

// forgetNotices has sets forget the notices that none of their rings can bring again.
func (s *Shard) forgetNotices() {
	if len(s.noticing) == 0 {
		return
	}
	looked, bound := 0, s.position
	s.hub.mu.Lock()
	if len(s.touched) == 0 {
		bound = s.hub.committed // nothing of what came since is for this shard
	}
	s.hub.mu.Unlock()
	for sub := range s.noticing {
		looked += 1 + len(sub.set.noticed)
		if sub.forgetNotices(bound); looked >= noticedPiece {
			return
		}
	}
}

// forgetNotices forgets the notices that all rings of the set have passed, at every delay. The shard has taken all up
// to bound. A notice of a book that is not known is kept, since a state would tell it again; not so where memory is short.
func (s *Subscriber) forgetNotices(bound uint64) {
	if s.head != 0 {
		return
	}
	for _, it := range s.queue() {
		bound = min(bound, it.ringPosition())
	}
	h := s.shard.hub
	all := h.memory.level.Load() >= relieveReaders
	kept := make(map[noticeKey]uint64)
	h.mu.Lock()
	for key, n := range s.set.noticed {
		if !key.in.passed(h, n, bound) || key.kind == 0 && key.in.Stale && !all {
			kept[key] = n
		}
		h.mu.step()
	}
	h.mu.Unlock()
	s.set.noticed = kept
	s.countNoticed()
	if len(kept) == 0 {
		s.dropNoticed()
	}
}

// dropNoticed lets go of all notices that the set remembers.
func (s *Subscriber) dropNoticed() {
	if s.set == nil || s.set.noticed == nil {
		return
	}
	s.set.noticed = nil
	s.countNoticed()
	delete(s.shard.noticing, s)
	s.shard.hub.memory.notices.Add(-1)
}

// passed says whether the instrument has told its status n, at every delay, at or before a position. The hub's lock is held.
func (in *instrument) passed(h *Hub, n, pos uint64) bool {
	live := h.lookup(in.id)
	if live == nil {
		live = in
	}
	if in.Statuses.Seek(pos) < n || live.Statuses.Seek(pos) < n {
		return false
	}
	for _, x := range live.later {
		if x.Statuses.Seek(pos) < n {
			return false
		}
	}
	return true
}
