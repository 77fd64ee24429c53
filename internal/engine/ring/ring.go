// Package ring stores the messages of a topic once, for all their readers.
//
// A [Ring] is a chain of append-only segments of framed messages. One writer appends under its own
// lock and commits: [Ring.Commit] moves the tail up to which readers see messages. A reader has a
// [Cursor] and reads from it up to a tail. Messages before a tail are never written again, so they
// are read without the writer's lock. A segment that no cursor points to or before is garbage.
//
// The writer's lock guards all methods of Ring and [Cursor.Forward]. The other methods of Cursor
// need no lock: they read up to a tail that was taken under it.
//
// This package is pure: no goroutines, no clock, no I/O.
package ring

import (
	"time"
	"unsafe"
)

// Ring has the messages of a topic. T is the subject of a message, such as an instrument. Use New
// to create one.
type Ring[T any] struct {
	last   *segment[T]
	used   int // bytes of last
	n      int // records of last
	echoes int // records with the flag Echo, ever
	done   Mark[T]
}

// Mark is the end of a ring at some time.
type Mark[T any] struct {
	end    Cursor[T]
	echoes int // before end
}

// The size of a segment follows the rate of its topic (see nextSize), since most topics are quiet.
const (
	firstSegment = 512 // bytes
	fullSegment  = 64 << 10
	bytesARecord = 96 // expected; a segment has space for so many records
)

type segment[T any] struct {
	buf  []byte
	recs []Record[T]
	n    int         // records, set when the segment is full
	next *segment[T] // set when the segment is full
	// start is the bytes of memory of all earlier segments of the ring
	start uint64
}

// Record describes one message, whose frame is ready to be sent.
type Record[T any] struct {
	Of       T      // what the message is about
	Position uint64 // of the newest row that the message contains
	N        uint64 // sequence number
	At       int64  // publication time, Unix ns
	end      uint32 // of the frame in buf; the frame begins where the one before it ends
	Flag     Flag
}

// Flag marks messages that not all readers of a ring are sent.
type Flag uint8

const (
	// Notice marks a status that concerns the data of other channels too: the feed is down or up
	// again, or has lost something.
	Notice Flag = 1 << iota
	// Echo marks a copy of a notice in the ring of another channel. A subscriber that also receives
	// the status skips it.
	Echo
	// Lost marks the notice of a gap, which is in the rings of all channels. Other notices are in
	// those of the book and of quotes made from it.
	Lost
)

// New returns an empty ring, which uses no memory for messages.
func New[T any]() Ring[T] {
	s := &segment[T]{}
	return Ring[T]{last: s, done: Mark[T]{end: Cursor[T]{seg: s}}}
}

func newSegment[T any](size int) *segment[T] {
	return &segment[T]{buf: make([]byte, size), recs: make([]Record[T], max(4, size/bytesARecord))}
}

// Append appends a message and copies its frame. It reports whether the message began a new
// segment.
func (r *Ring[T]) Append(frame []byte, rec Record[T]) (grew bool) {
	if r.used+len(frame) > len(r.last.buf) || r.n == len(r.last.recs) {
		r.begin(newSegment[T](max(r.last.nextSize(rec.At), len(frame))))
		grew = true
	}
	copy(r.last.buf[r.used:], frame)
	r.used += len(frame)
	rec.end = uint32(r.used)
	r.last.recs[r.n] = rec
	r.n++
	if rec.Flag&Echo != 0 {
		r.echoes++
	}
	return grew
}

// begin ends the last segment and continues with s.
func (r *Ring[T]) begin(s *segment[T]) {
	full := r.last
	s.start = full.start + uint64(full.bytes())
	full.n, full.next = r.n, s
	r.last, r.used, r.n = s, 0, 0
}

// Trim releases the memory of the last segment, once its readers have passed it. It does nothing if
// some messages are not committed.
func (r *Ring[T]) Trim() {
	if len(r.last.buf) > 0 && r.Tail() == r.End() {
		r.begin(&segment[T]{})
		r.Tail()
	}
}

// Mark returns the present end of the ring, for Commit.
func (r *Ring[T]) Mark() Mark[T] { return Mark[T]{r.End(), r.echoes} }

// Commit moves the tail to a mark.
func (r *Ring[T]) Commit(to Mark[T]) { r.done = to }

// Tail returns the cursor up to which the ring may be read, behind the newest committed message. It
// is never the end of a segment that is followed by another one.
func (r *Ring[T]) Tail() Cursor[T] {
	r.done.end.Forward()
	return r.done.end
}

// End returns the cursor behind the newest message. Messages up to this cursor may be read only if
// they are held until they are committed.
func (r *Ring[T]) End() Cursor[T] { return Cursor[T]{r.last, r.n} }

// Echoes returns the number of messages with the flag Echo, and how many of them are before the
// tail. Messages whose segments were released count too.
func (r *Ring[T]) Echoes() (all, committed int) { return r.echoes, r.done.echoes }

// SegmentBytes returns the memory of the last segment.
func (r *Ring[T]) SegmentBytes() int64 { return r.last.bytes() }

// Bytes returns the memory of the segments from one on, given by Cursor.Segment.
func (r *Ring[T]) Bytes(from uint64) int64 {
	return int64(r.last.start-from) + r.last.bytes()
}

// bytes returns the memory of a segment.
func (s *segment[T]) bytes() int64 {
	return int64(len(s.buf)) + int64(unsafe.Sizeof(Record[T]{}))*int64(len(s.recs))
}

// If a segment fills up faster than quickFill, the next one is twice as large. If it takes longer
// than slowFill, the next one is half as large. A ring that is read in time therefore holds about
// one second of messages.
const (
	quickFill = int64(100 * time.Millisecond)
	slowFill  = int64(time.Second)
)

// nextSize returns the size of the segment after s, which is full at a time (Unix ns).
func (s *segment[T]) nextSize(at int64) int {
	if len(s.buf) == 0 {
		return firstSegment
	}
	size := len(s.buf)
	switch took := at - s.recs[0].At; {
	case took < quickFill:
		size *= 2
	case took > slowFill:
		size /= 2
	}
	return max(firstSegment, min(size, fullSegment))
}

// frames returns the frames of the records from one to another.
func (s *segment[T]) frames(from, to int) []byte {
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
