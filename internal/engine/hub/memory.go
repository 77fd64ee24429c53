package hub

import (
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/ring"
)

// Config.Memory limits the memory that rings, recent rows, replays and the output of slow clients
// use together. A segment of a ring counts from its first message until no shard holds it. For
// this, each shard reports the oldest segment of each ring that it holds. The hub asks for reports
// once a second, and more often when memory is short. It then releases the last segment of each
// ring that got no message since the previous report. relief.go describes what the hub does above
// the limit.

// memory counts the memory that Config.Memory limits. The hub's lock guards the fields that are not
// atomic.
type memory struct {
	limit     int64
	rings     int64        // bytes of segments
	own       atomic.Int64 // bytes of sessions that are not shared
	level     atomic.Int32 // level of relief
	notices   atomic.Int32 // number of sets of subscriptions that remember notices
	followers int64        // number of instruments of replicas
	covers    int64        // number of pairs of a topic and an instrument with messages for it
	listed    []*Topic     // topics with messages in their rings
	due       int64        // by the hub's clock: when the next step of measuring is due; 0: nothing is held
	warnDue   int64        // by the hub's clock: when the next warning about full memory is allowed
	asked     int64        // by the hub's clock: when the shards were asked to report; 0: they were not
	next      int          // index in listed at which measuring continues
}

// topicMemory is the part of memory for one topic.
type topicMemory struct {
	bytes  int64 // counted for its ring
	listed bool
	end    ring.Offset // end of its ring at the last measuring
}

const (
	defaultMemory = 1 << 30

	// topicBytes estimates the memory of a topic and its shards' views, without the ring.
	topicBytes = 2 << 10
	coverBytes = 256 // estimates the memory of one pair in covers

	measureEvery  = int64(time.Second)
	measureSeldom = int64(time.Minute)            // while a shard does not report, because it has no turns
	measureNext   = int64(100 * time.Millisecond) // while memory is short
	reportTime    = int64(20 * time.Millisecond)  // from one check to the next whether all shards have reported
	reportTimeout = int64(2 * time.Second)        // then the previous report of a shard counts
	measuredPiece = 256                           // topics that one hold of the hub's lock measures
)

// grew counts a new segment of a topic's ring. The hub's lock is held.
func (h *publisher) grew(tp *Topic) {
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

// release subtracts the ring of a topic that has no readers any more.
func (m *memory) release(tp *Topic) {
	m.rings -= tp.memory.bytes
	tp.memory.bytes = 0
}

// measure takes the next step of measuring if it is due. It returns how long to wait before the
// next step. It returns 0 if no step is needed until a ring gets a message. The hub's lock is held.
func (h *publisher) measure(now int64) (wait time.Duration) {
	m := &h.memory
	switch {
	case m.due == 0:
		return 0
	case now < m.due:
		return time.Duration(m.due - now)
	case m.asked == 0:
		m.asked, m.next = now, 0
		for _, p := range h.ports {
			p.askReport()
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

// measured ends a measuring, and returns how long to wait before the next one. 0 means the same as
// in measure.
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

// reported returns whether all shards with readers have reported what they hold.
func (h *publisher) reported() bool {
	for _, p := range h.ports {
		if p.topics > 0 && p.ReportAsked() {
			return false
		}
	}
	return true
}

// measureTopic counts the bytes that a topic's ring holds. It releases the last segment if the ring
// got no message since the last measuring. It reports whether the ring still holds messages.
func (h *publisher) measureTopic(tp *Topic) (more bool) {
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
