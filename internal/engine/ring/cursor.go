package ring

// Cursor is a position in a ring, before one of its messages. It keeps that message and all later
// ones in memory. Cursors of one ring can be compared for equality.
type Cursor[T any] struct {
	seg *segment[T]
	rec int
}

// Offset is the position of a cursor. Offsets can be ordered. Unlike a cursor, an offset keeps
// nothing in memory.
type Offset struct {
	start uint64 // of the segment
	rec   int
}

// Offset returns the offset of a cursor.
func (c Cursor[T]) Offset() Offset { return Offset{c.seg.start, c.rec} }

// Before reports whether an offset is before another one of the same ring.
func (o Offset) Before(p Offset) bool {
	return o.start < p.start || o.start == p.start && o.rec < p.rec
}

// Segment identifies the segment of a cursor by the bytes of memory of all segments before it.
func (c Cursor[T]) Segment() uint64 { return c.seg.start }

// SameSegment reports whether two cursors are in one segment.
func (c Cursor[T]) SameSegment(d Cursor[T]) bool { return c.seg == d.seg }

// Peek returns the message at a cursor and its frame; ok is false at the tail. It moves the cursor
// out of a segment that it has passed.
func (c *Cursor[T]) Peek(tail Cursor[T]) (rec *Record[T], frame []byte, ok bool) {
	c.Release(tail)
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

// Next moves a cursor past the message that Peek has returned.
func (c *Cursor[T]) Next() { c.rec++ }

// Release moves a cursor out of the segments before the tail's that it has passed, so that it does
// not keep them in memory.
func (c *Cursor[T]) Release(tail Cursor[T]) {
	for c.seg != tail.seg && c.rec >= c.seg.n {
		c.seg, c.rec = c.seg.next, 0
	}
}

// Forward does the same for a cursor that may be a tail itself. The writer's lock is held.
func (c *Cursor[T]) Forward() {
	for c.seg.next != nil && c.rec >= c.seg.n {
		c.seg, c.rec = c.seg.next, 0
	}
}

// Ahead returns a cursor up to n messages ahead of c, in the segment of the next message, and not
// past the tail.
func (c Cursor[T]) Ahead(n int, tail Cursor[T]) Cursor[T] {
	c.Release(tail)
	end := tail.rec
	if c.seg != tail.seg {
		end = c.seg.n
	}
	c.rec = min(c.rec+n, end)
	return c
}

// Waiting counts the messages between a cursor and a tail, and the bytes of their frames.
func (c Cursor[T]) Waiting(tail Cursor[T]) (messages, bytes int) {
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
		c = Cursor[T]{c.seg.next, 0}
	}
}

// Frames returns the frames between a cursor and a tail. The result is memory of the ring itself,
// which must not be changed, or a copy if the frames are in several segments. It is nil if a copy
// would be longer than limit, or if nothing waits.
func (c Cursor[T]) Frames(tail Cursor[T], limit int) []byte {
	if c.seg == tail.seg {
		return c.seg.frames(c.rec, tail.rec)
	}
	if _, n := c.Waiting(tail); n > limit {
		return nil
	}
	var b []byte
	for ; c.seg != tail.seg; c = (Cursor[T]{c.seg.next, 0}) {
		b = append(b, c.seg.frames(c.rec, c.seg.n)...)
	}
	b = append(b, c.seg.frames(c.rec, tail.rec)...)
	return b[:len(b):len(b)]
}
