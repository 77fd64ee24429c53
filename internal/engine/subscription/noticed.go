package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
)

// A notice is in the rings of several channels, but a client receives it once. A set remembers a
// sent notice as long as one of its rings may bring it again.

// noticeKey identifies the notices of an instrument that are in the same rings, in the same order.
type noticeKey struct {
	in   *hub.Instrument
	kind ring.Flag // Lost, or 0
}

const (
	noticedBytes = 80      // estimated memory of a notice that a set remembers
	noticedPiece = 1 << 15 // notices that a shard visits in one report; it visits at least those of one set
)

// unnoticed reports whether notice n of an instrument is new, and remembers it.
func (s *Subscriber) unnoticed(key noticeKey, n uint64) bool {
	m := s.more()
	if m.noticed[key] >= n {
		return false
	}
	if m.noticed == nil {
		m.noticed = make(map[noticeKey]uint64)
		s.shard.noticing[s] = struct{}{}
		s.shard.hub.CountNotices(1)
	}
	m.noticed[key] = n
	s.countNoticed()
	return true
}

// countNoticed updates the memory that is counted for the notices of the set.
func (s *Subscriber) countNoticed() {
	bytes := len(s.set.noticed) * noticedBytes
	s.Hold(bytes - s.set.noticedBytes)
	s.set.noticedBytes = bytes
}

// forgetNotices drops the notices of all sets that none of their rings can bring again.
func (s *Shard) forgetNotices() {
	if len(s.noticing) == 0 {
		return
	}
	looked := 0
	s.hub.Lock()
	s.hub.NoteQuiet()
	bound := s.hub.Taken(0)
	s.hub.Unlock()
	for sub := range s.noticing {
		looked += 1 + len(sub.set.noticed)
		if sub.forgetNotices(bound); looked >= noticedPiece {
			return
		}
	}
}

// forgetNotices drops the notices that all rings of the set have passed, at every delay. The shard
// has taken all messages up to bound. A notice of a stale book is kept, because a snapshot would
// repeat it. If memory is short, it is dropped too.
func (s *Subscriber) forgetNotices(bound uint64) {
	if s.head != 0 {
		return
	}
	for _, it := range s.queue() {
		bound = min(bound, it.ringPosition())
	}
	h := s.shard.hub
	all := h.MemoryShort()
	kept := make(map[noticeKey]uint64)
	h.Lock()
	for key, n := range s.set.noticed {
		if !h.StatusPassed(key.in, n, bound) || key.kind == 0 && key.in.Stale && !all {
			kept[key] = n
		}
		h.Step(1)
	}
	h.Unlock()
	s.set.noticed = kept
	s.countNoticed()
	if len(kept) == 0 {
		s.dropNoticed()
	}
}

// dropNoticed drops all notices that the set remembers.
func (s *Subscriber) dropNoticed() {
	if s.set == nil || s.set.noticed == nil {
		return
	}
	s.set.noticed = nil
	s.countNoticed()
	delete(s.shard.noticing, s)
	s.shard.hub.CountNotices(-1)
}
