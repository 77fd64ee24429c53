package stream

import (
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/ring"
)

// Config.Memory limits what rings, recent rows, replays and the output of slow clients use together.
// A segment is counted from when a ring begins it until no shard holds it any more. To know that, each
// shard reports the oldest segment that it holds of each ring, once a second and more often when
// memory is short. The hub then releases the last segments of rings to which nothing came since the
// report before. relief.go describes what is cut above the limit.

// memory counts the memory that Config.Memory limits. The hub's lock guards what is not atomic.
type memory struct {
	limit     int64
	rings     int64        // of segments
	own       atomic.Int64 // of sessions, not shared with others
	level     atomic.Int32 // of relief
	notices   atomic.Int32 // sets of subscriptions that remember notices
	followers int64        // instruments of replicas
	covers    int64        // instruments whose messages topics take, each counted for each topic
	listed    []*topic     // topics whose rings hold anything
	due       int64        // by the hub's clock: when the next step of measuring is due; 0: nothing is held
	warnDue   int64        // by the hub's clock: when it may be logged again that all of this is full
	asked     int64        // when the shards were asked to report; 0: they were not
	next      int          // index in listed at which measuring continues
}

// topicMemory is what the memory knows of a topic.
type topicMemory struct {
	bytes  int64 // counted for it
	listed bool
	end    ring.Offset // of its ring at the last measuring
}

const (
	defaultMemory = 1 << 30

	// topicBytes is about the memory of a topic and its shards' views, without the ring.
	topicBytes = 2 << 10
	coverBytes = 256 // the same, of an instrument whose messages a topic takes

	measureEvery  = int64(time.Second)
	measureSeldom = int64(time.Minute)            // if a shard does not report, because it has no turns
	measureNext   = int64(100 * time.Millisecond) // while memory is short
	reportTime    = int64(20 * time.Millisecond)  // between two checks whether all shards have reported
	reportTimeout = int64(2 * time.Second)        // after that, the last report of a shard counts
	measuredPiece = 256                           // topics in one hold of the hub's lock
)

// used returns the memory that is limited, in bytes. The hub's lock is held.
func (h *publisher) used() int64 {
	m := &h.memory
	return m.rings + m.own.Load() + h.shared.Bytes() + topicBytes*int64(len(h.topics)) + coverBytes*m.covers + followerBytes*m.followers
}

// grew counts the segment that a topic's ring has begun. The hub's lock is held.
func (h *publisher) grew(tp *topic) {
	m, bytes := &h.memory, tp.ring.SegmentBytes()
	m.rings += bytes
	tp.memory.bytes += bytes
	if !tp.memory.listed {
		tp.memory.listed = true
		m.listed = append(m.listed, tp)
	}
	switch {
	case m.due == 0:
		m.due = h.clock() + measureEvery
		h.kickClock()
	case m.asked == 0 && m.level.Load() == 0 && h.used() > m.limit:
		if now := h.clock(); m.due > now+measureNext {
			m.due = now
			h.kickClock()
		}
	}
}

// release subtracts the ring of a topic that nobody reads any more.
func (m *memory) release(tp *topic) {
	m.rings -= tp.memory.bytes
	tp.memory.bytes = 0
}

// measure takes the next step of measuring if it is due, and returns how long to wait before the one
// after it; 0: until a ring begins to hold something. The hub's lock is held.
func (h *publisher) measure(now int64) (wait time.Duration) {
	m := &h.memory
	switch {
	case m.due == 0:
		return 0
	case now < m.due:
		return time.Duration(m.due - now)
	case m.asked == 0:
		m.asked, m.next = now, 0
		for _, s := range h.shards {
			s.askReport()
		}
		m.due = now + reportTime
		return time.Duration(reportTime)
	case m.next == 0 && now < m.asked+reportTimeout && !h.reported():
		m.due = now + reportTime
		return time.Duration(reportTime)
	}
	for range measuredPiece {
		if m.next >= len(m.listed) {
			return h.measured(now)
		}
		tp := m.listed[m.next]
		if h.measureTopic(tp) {
			m.next++
			continue
		}
		tp.memory.listed = false
		last := len(m.listed) - 1
		m.listed[m.next], m.listed[last] = m.listed[last], nil
		m.listed = m.listed[:last]
	}
	return 1
}

// measured ends a measuring, and returns how long to wait before the next one.
func (h *publisher) measured(now int64) (wait time.Duration) {
	m := &h.memory
	m.asked = 0
	h.relieve()
	switch {
	case m.level.Load() > 0:
		m.due = now + measureNext
	case len(m.listed) > 0 && !h.reported(), len(m.listed) == 0 && m.notices.Load() > 0:
		m.due = now + measureSeldom
	case len(m.listed) > 0:
		m.due = now + measureEvery
	default:
		m.due = 0
		m.listed = nil
		return 0
	}
	return time.Duration(m.due - now)
}

// reported reports whether all shards have reported what they hold.
func (h *publisher) reported() bool {
	for _, s := range h.shards {
		if len(s.views) > 0 && s.measure.Load() {
			return false
		}
	}
	return true
}

// measureTopic counts what a topic's ring holds, and releases its last segment if nothing came since
// the last measuring. It reports whether the ring holds something.
func (h *publisher) measureTopic(tp *topic) (more bool) {
	r, m := &tp.ring, &h.memory
	if tp.refs == 0 {
		return false
	}
	if tp.memory.end == r.End().Offset() {
		r.Trim()
	}
	tp.memory.end = r.End().Offset()
	oldest := r.End().Segment()
	for i := range tp.seen {
		if s := &tp.seen[i]; s.readers > 0 {
			oldest = min(oldest, s.oldest)
		}
	}
	bytes := r.Bytes(oldest)
	m.rings += bytes - tp.memory.bytes
	tp.memory.bytes = bytes
	return bytes > 0
}

// report is a shard's account of what it holds of the rings.
type report struct {
	round uint64
}

// askReport has the shard report at its next Turn. The hub's lock is held.
func (s *Shard) askReport() {
	s.measure.Store(true)
	if !s.woken {
		s.woken = true
		s.wake(false)
	}
}

// reportHeld reports the oldest segment that the shard holds of each ring, if it was asked to. It is
// called when the last turn is over: what an item did not gather it holds by a cursor of its own.
func (s *Shard) reportHeld() {
	if !s.measure.Load() {
		return
	}
	s.report.round++
	for i := len(s.waiters) - 1; i >= 0; i-- { // relief may end the waiting of one, whose place the last one takes
		sub := s.waiters[i]
		sub.relieve()
		for _, it := range sub.queue() {
			it.noteHeld(s.report.round)
		}
	}
	h := s.hub
	for from, more := 0, true; more; from += measuredPiece {
		h.mu.Lock()
		list := h.memory.listed
		list = list[min(from, len(list)):]
		more = len(list) > measuredPiece
		for _, tp := range list[:min(measuredPiece, len(list))] {
			if v := s.views[tp]; v != nil {
				tp.seen[s.index].oldest = v.holds(s.report.round)
			}
		}
		h.mu.Unlock()
	}
	s.forgetNotices()
	s.measure.Store(false)
}

// noteHeld notes the oldest segment that the item holds, and releases one that it has gathered whole.
func (it *item) noteHeld(round uint64) {
	if !it.reads() || it.late == nil {
		return
	}
	v, at := it.view, &it.late.at
	if it.late.replay != nil {
		it.late.replay.toSpans(it.sub.shard.hub, it.channel())
	}
	at.Release(v.tail)
	if v.round != round {
		v.round, v.low = round, at.Segment()
	}
	v.low = min(v.low, at.Segment())
}

// holds returns the oldest segment that a view holds between two turns. The view releases what it has
// given to all its readers. The hub's lock is held.
func (v *view) holds(round uint64) uint64 {
	v.tail.Forward()
	v.prev, v.plain, v.other = v.tail, nil, nil
	if v.round == round {
		return min(v.low, v.tail.Segment())
	}
	return v.tail.Segment()
}

// unwait ends the subscriber's waiting.
func (s *Subscriber) unwait() {
	if s.wait == nil {
		return
	}
	list := s.shard.waiters
	last := list[len(list)-1]
	list[s.wait.slot] = last
	last.wait.slot = s.wait.slot
	list[len(list)-1] = nil
	s.shard.waiters = list[:len(list)-1]
	s.wait = nil
}
