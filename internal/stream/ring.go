package stream

import (
	"time"
	"unsafe"
)

// A ring is a chain of append-only segments. The hub appends under its lock; a
// shard reads, without it, up to a tail that it took under the lock. The tail stands behind
// what is committed, so that nobody is shown a row that the journal does not have. Nothing
// below such a tail is ever written again, so that a segment needs no further
// care: when no cursor points at it or before it, it is garbage.
type ring struct {
	last   *segment
	used   int    // bytes of last
	n      int    // records of last
	echoes int    // records flagged so, ever
	done   cursor // behind what is committed
	shown  int    // echoes before done
}

// The size of a segment follows the rate of its topic (see nextSize), since most topics are quiet.
const (
	firstSegment = 512
	fullSegment  = 64 << 10
	bytesARecord = 96 // expected, for the room of records in a segment
)

type segment struct {
	buf   []byte
	recs  []record
	n     int      // records, set when the segment is full
	next  *segment // set when the segment is full
	begin uint64   // bytes of memory of all segments before this one, ever
}

// record describes a message in a segment's buffer: one frame, ready to be sent.
type record struct {
	in   *instrument
	pos  uint64 // global position
	n    uint64 // sequence in (channel, instrument)
	at   int64  // publication time, Unix ns
	end  uint32 // of the frame in buf; it begins where the one before it ends
	flag flag
}

type flag uint8

const (
	// notice marks a status that concerns the data of other channels too: the
	// feed went down or came back, or lost something.
	notice flag = 1 << iota
	// echo marks a notice put into the ring of another channel. A subscriber
	// that has its status already skips it.
	echo
	// lost marks the notice of a gap, which is in the rings of all channels; other notices are in
	// those of the book and its quotes.
	lost
)

// cursor is a place in a ring: before record rec of seg.
type cursor struct {
	seg *segment
	rec int
}

// ringPlace is where a cursor stands in a ring. Unlike a cursor it can be compared, and it keeps no
// segment from being freed.
type ringPlace struct {
	begin uint64 // of the segment
	n     int
}

// place returns where the cursor stands.
func (c cursor) place() ringPlace { return ringPlace{c.seg.begin, c.rec} }

// before reports whether p lies before q in their ring.
func (p ringPlace) before(q ringPlace) bool {
	return p.begin < q.begin || p.begin == q.begin && p.n < q.n
}

func newRing() ring {
	s := &segment{} // of no room: nothing may ever come
	return ring{last: s, done: cursor{seg: s}}
}

func newSegment(size int) *segment {
	return &segment{buf: make([]byte, size), recs: make([]record, max(4, size/bytesARecord))}
}

// tail is how far the ring may be read. It is never the end of a segment that has another behind
// it. The hub's lock is held.
func (r *ring) tail() cursor {
	for r.done.seg.next != nil && r.done.rec >= r.done.seg.n {
		r.done = cursor{r.done.seg.next, 0}
	}
	return r.done
}

// end is behind the newest message. Only what is held back until it is committed may be read so
// far.
func (r *ring) end() cursor { return cursor{r.last, r.n} }

// commit moves the tail.
func (r *ring) commit(to cursor, echoes int) { r.done, r.shown = to, echoes }

// begin ends the last segment and goes on with another. What a reader has of the old one stays as it is.
func (r *ring) begin(s *segment) {
	full := r.last
	s.begin = full.begin + uint64(full.bytes())
	full.n, full.next = r.n, s
	r.last, r.used, r.n = s, 0, 0
}

// recordBytes is the memory of a record.
const recordBytes = int64(unsafe.Sizeof(record{}))

// bytes is the memory of a segment.
func (s *segment) bytes() int64 { return int64(len(s.buf)) + recordBytes*int64(len(s.recs)) }

// A segment that was full sooner than quickFill makes the next one twice as large, one that took longer
// than slowFill half as large: a ring that is read in time holds about what was published in a second.
const (
	quickFill = int64(100 * time.Millisecond)
	slowFill  = int64(time.Second)
)

// nextSize is the size of the segment after s, which is full at a time (Unix ns).
func (s *segment) nextSize(at int64) int {
	if len(s.buf) == 0 {
		return firstSegment
	}
	size := len(s.buf)
	switch took := at - s.recs[0].at; {
	case took < quickFill:
		size *= 2
	case took > slowFill:
		size /= 2
	}
	return max(firstSegment, min(size, fullSegment))
}

// append puts a frame at the end. rec.end is filled in. grew says that it began a segment.
func (r *ring) append(frame []byte, rec record) (grew bool) {
	if r.used+len(frame) > len(r.last.buf) || r.n == len(r.last.recs) {
		r.begin(newSegment(max(r.last.nextSize(rec.at), len(frame))))
		grew = true
	}
	copy(r.last.buf[r.used:], frame)
	r.used += len(frame)
	rec.end = uint32(r.used)
	r.last.recs[r.n] = rec
	r.n++
	if rec.flag&echo != 0 {
		r.echoes++
	}
	return grew
}

// span is the frames of the records from one to another of a segment.
func (s *segment) span(from, to int) []byte {
	if from == to {
		return nil
	}
	start := uint32(0)
	if from > 0 {
		start = s.recs[from-1].end
	}
	end := s.recs[to-1].end
	return s.buf[start:end:end]
}

// peek is the record at c and its frame, or ok false at the tail. It steps c into the next
// segment where its own is done.
func (c *cursor) peek(tail cursor) (rec *record, frame []byte, ok bool) {
	for c.seg != tail.seg {
		if c.rec < c.seg.n {
			break
		}
		c.seg, c.rec = c.seg.next, 0
	}
	if c.seg == tail.seg && c.rec >= tail.rec {
		return nil, nil, false
	}
	rec = &c.seg.recs[c.rec]
	start := uint32(0)
	if c.rec > 0 {
		start = c.seg.recs[c.rec-1].end
	}
	return rec, c.seg.buf[start:rec.end], true
}

// waiting counts what lies between a cursor and a tail.
func (c cursor) waiting(tail cursor) (messages, bytes int) {
	for {
		n := tail.rec
		if c.seg != tail.seg {
			n = c.seg.n
		}
		if n > c.rec {
			messages += n - c.rec
			bytes += int(c.seg.recs[n-1].end)
			if c.rec > 0 {
				bytes -= int(c.seg.recs[c.rec-1].end)
			}
		}
		if c.seg == tail.seg {
			return messages, bytes
		}
		c = cursor{c.seg.next, 0}
	}
}
