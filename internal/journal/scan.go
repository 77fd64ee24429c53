package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// Place is where a scan of the stream begins. The zero Place is the oldest row kept.
type Place struct {
	Epoch    string // "": the newest
	Date     string // no rows but those filed under this day, by publication: 2006-01-02; "": all
	Position uint64 // rows behind this position
	Time     int64  // rows published (At) from this time on; 0: open
}

// Checkpoints in the kinds of a Scan asks for the rows of checkpoints too: how an instrument stood at
// that place, once or not at all in each segment that is read.
const Checkpoints KindSet = 1 << 31

// walkAll takes every span.
func walkAll(*span, *span) bool { return true }

// walk goes through the records of a segment, all of them in order, until f says that it is
// enough. take chooses the spans by what is known of them, and of the next one (nil: it is the last).
func (a *Archive) walk(ctx context.Context, v *segmentView, take func(s, next *span) bool, f func(c *cursor, rec []byte) (more bool, err error)) error {
	return a.walkFrames(ctx, v, take, func(c *cursor) (bool, error) {
		for c.pos < c.end {
			rec, err := c.next()
			if err != nil {
				return false, err
			}
			if more, err := f(c, rec); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	})
}

// walkFrames is walk by frames: f goes through the records of the one that c is in.
func (a *Archive) walkFrames(ctx context.Context, v *segmentView, take func(s, next *span) bool, f func(c *cursor) (more bool, err error)) error {
	spans, err := v.pieces()
	if err != nil {
		return gone(err)
	}
	var file *segmentFile
	ahead := ahead{spans: spans}
	c := cursor{salt: v.salt, proved: v.proved}
	for i := range spans {
		var next *span
		if i+1 < len(spans) {
			next = &spans[i+1]
		}
		if !take(&spans[i], next) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if file == nil {
			if file, err = a.openSegment(v.segment); err != nil {
				return gone(err)
			}
			defer func() { _ = file.Close() }() // was only read from
			if c.file = file.name; file.reason != "" {
				return c.damage(0, file.reason)
			}
		}
		buf, err := ahead.read(file, i)
		if err != nil {
			return err
		}
		c.set(spans[i].offset, buf)
		for {
			if err := c.enter(); err != nil {
				if errors.Is(err, io.EOF) {
					break
				}
				return err
			}
			if more, err := f(&c); err != nil || !more {
				return err
			}
			c.pos = c.end
		}
	}
	return nil
}

// ahead reads spans of a segment, the more at once the more of them were wanted: one by one a copy
// of them costs more.
type ahead struct {
	spans []span
	buf   []byte
	from  int64 // of buf in the segment
	most  int   // spans of the next read; 0: one
}

const maxAhead = 512 << 10 // more would not stay in the processor's cache

// read is span i. It is valid until the next read.
func (a *ahead) read(file *segmentFile, i int) ([]byte, error) {
	s := &a.spans[i]
	at := s.offset - a.from
	if at < 0 || at+s.bytes > int64(len(a.buf)) {
		end := s.offset + s.bytes
		for k := 1; k < a.most && i+k < len(a.spans); k++ {
			next := &a.spans[i+k]
			if next.offset < end || next.bytes < 0 || next.offset+next.bytes-s.offset > maxAhead {
				break
			}
			end = next.offset + next.bytes
		}
		if !file.packed { // its pieces are spans
			a.most = min(max(2, 2*a.most), maxAhead/spanBytes)
		}
		a.buf, a.from, at = room(a.buf, int(end-s.offset)), s.offset, 0
		n, err := file.ReadAt(a.buf, s.offset)
		if a.buf = a.buf[:n]; int64(n) < s.bytes {
			return nil, shortRead(file.name, s.offset, err)
		}
		// What is wrong behind this span is told when it is wanted.
	}
	return a.buf[at : at+s.bytes], nil
}

// Scan yields the messages of an epoch in the order of the stream, until yield returns false: those
// of the instruments that match takes (nil: all) and of the kinds asked for. Rows that
// were lost are told by a Hole, if that is asked for, whatever match says. A row is to be looked at and not
// changed; its memory is used again for the next one, its strings may be kept.
func (a *Archive) Scan(ctx context.Context, from Place, match func(instrument uint32) bool, kinds KindSet, yield func(*Row) bool) error {
	if from.Time == 0 {
		from.Time = -1 << 63
	}
	s := scan{from: from, match: match, kinds: kinds, yield: yield}
	views := a.views(from.Epoch)
	for i := range views {
		v := &views[i]
		if from.Date != "" && dateOf(v.day) != from.Date {
			continue
		}
		if kinds&Checkpoints == 0 && v.sum.rows == 0 && len(v.gaps) == 0 {
			continue
		}
		// A checkpoint counts as one with the rows that come behind it.
		if from.Position > 0 && v.sum.last <= from.Position || v.sum.to < from.Time {
			continue
		}
		if err := a.walkFrames(ctx, v, s.take, s.frame); err != nil || s.enough {
			return err
		}
	}
	return nil
}

type scan struct {
	from   Place
	match  func(uint32) bool
	kinds  KindSet
	yield  func(*Row) bool
	dec    decoder
	enough bool
}

// take leaves out spans that lie before the place.
func (s *scan) take(p, next *span) bool {
	if s.kinds&Checkpoints != 0 {
		return true
	}
	return p.high >= s.from.Time && (next == nil || s.from.Position == 0 || next.position > s.from.Position)
}

// frame goes through the records of a frame. It is written for speed: 20 ns are the bar for a row.
func (s *scan) frame(c *cursor) (bool, error) {
	b := c.buf[c.pos:c.end]
	levels := s.kinds.Has(BookUpdate)
	for len(b) >= headSize {
		if levels && word(b, 0)&shortBits == levelWord && len(b) >= levelSize {
			rec := (*[levelSize]byte)(b)
			if s.match != nil && !s.match(instrumentOf(rec[:])) {
				b = b[levelSize:]
				continue
			}
			if r := s.dec.level(rec, c.base); r != nil {
				b = b[levelSize:]
				if r.Position <= s.from.Position && s.from.Position > 0 || r.At < s.from.Time {
					continue
				}
				if !s.yield(r) {
					s.enough = true
					return false, nil
				}
				continue
			}
		}
		kind, flags := Kind(b[0]), b[1]
		n := int(binary.LittleEndian.Uint16(b[2:])) * 8
		if flags&flagLong != 0 {
			n = recordSize(b)
		}
		if n < headSize || n > len(b) {
			break
		}
		rec := b[:n]
		b = b[n:]
		if kind >= numKinds || s.kinds>>kind&1 == 0 {
			continue
		}
		checkpoint := flags&flagCheckpoint != 0
		if checkpoint && s.kinds&Checkpoints == 0 || s.match != nil && kind != Hole && !s.match(instrumentOf(rec)) {
			continue
		}
		r, ok := s.dec.row(rec, c.base)
		if !ok {
			return false, c.damage(c.end-len(b)-n, reasonRecord)
		}
		if !checkpoint && (r.Position <= s.from.Position && s.from.Position > 0 || r.At < s.from.Time) {
			continue
		}
		if !s.yield(r) {
			s.enough = true
			return false, nil
		}
	}
	if len(b) > 0 {
		return false, c.damage(c.end-len(b), reasonRecord)
	}
	return true, nil
}

// restoreFrom is the segment of an epoch that Restore begins with: the one with the last whole checkpoint, or where
// none is whole the first.
func restoreFrom(views []segmentView) int {
	from := len(views) - 1
	for from > 0 && views[from].checkpoint == 0 {
		from--
	}
	return from
}

// Restore yields the rows of the last whole checkpoint of this epoch, which have Checkpoint set, and the
// messages from where it begins, in order: a checkpoint's rows are the state of their instrument at their place, which
// takes the place of what messages in front of them said. Where no checkpoint is whole, the messages are those from the
// beginning of the epoch, when nothing was numbered. It yields nothing where the epoch is new. It is called before the
// first Append.
func (j *Journal) Restore(yield func(*Row) error) error {
	views := j.views("")
	if len(views) == 0 {
		return nil
	}
	from := restoreFrom(views)
	begin := views[from].checkpoint
	begun, whole := begin == 0, begin == 0
	var dec decoder
	for i := from; i < len(views); i++ {
		take := func(p, next *span) bool { return i > from || next == nil || next.offset > begin }
		err := j.walk(context.Background(), &views[i], take, func(c *cursor, rec []byte) (bool, error) {
			kind := Kind(rec[0])
			if !begun {
				begun = kind == recCheckpoint && c.at(rec) > begin
				return true, nil
			}
			whole = whole || kind == recCheckpointEnd
			// A later checkpoint was not finished, or this one would not be the last.
			if kind >= numKinds || whole && rec[1]&flagCheckpoint != 0 {
				return true, nil
			}
			r, ok := dec.row(rec, c.base)
			if !ok {
				return false, c.damage(c.pos-len(rec), reasonRecord)
			}
			return true, yield(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
