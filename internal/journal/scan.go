package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// ScanStart is where a scan of the stream begins. The zero ScanStart is the oldest stored row.
type ScanStart struct {
	Epoch    string // "": the newest
	Date     string // only rows filed under this day, by publication: 2006-01-02; "": all
	Position uint64 // rows after this position
	Time     int64  // rows published (At) from this time; 0: no limit
}

// Checkpoints in the kinds of a Scan includes rows of checkpoints: the state of an instrument at
// that place, at most once in each segment.
const Checkpoints KindSet = 1 << 31

// walkAll selects every span.
func walkAll(*span, *span) bool { return true }

// walk calls f for the records of a segment in order, until f returns false. take selects spans,
// given the next one (nil: none).
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

// walkFrames is walk by frames: f processes the records of the frame that c has entered.
func (a *Archive) walkFrames(ctx context.Context, v *segmentView, take func(s, next *span) bool, f func(c *cursor) (more bool, err error)) error {
	spans, err := v.spans()
	if err != nil {
		return notKept(err)
	}
	var file *segmentFile
	ahead := ahead{spans: spans}
	c := cursor{salt: v.salt, verified: v.verified}
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
				return notKept(err)
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

// ahead reads spans of a segment. It reads more at once after several sequential reads, which costs
// less.
type ahead struct {
	spans []span
	buf   []byte // spans of the next read; 0: one
	from  int64  // of buf in the segment
	most  int    // spans of the next read; 0: one
}

const maxAhead = 512 << 10 // more would not stay in the processor's cache

// read returns span i. It is valid until the next read.
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
		if !file.packed { // a packed one has a unit for each span
			a.most = min(max(2, 2*a.most), maxAhead/spanBytes)
		}
		a.buf, a.from, at = grow(a.buf, int(end-s.offset)), s.offset, 0
		n, err := file.ReadAt(a.buf, s.offset)
		if a.buf = a.buf[:n]; int64(n) < s.bytes {
			return nil, shortRead(file.name, s.offset, err)
		}
		// Errors after this span are reported when they are needed.
	}
	return a.buf[at : at+s.bytes], nil
}

// Scan yields the messages of an epoch in stream order, until yield returns false: those of
// instruments that match accepts (nil: all) and of the given kinds. A Gap reports lost rows,
// whatever match returns. Do not change or keep a row, whose memory is reused; its strings may be
// kept.
func (a *Archive) Scan(ctx context.Context, from ScanStart, match func(instrument uint32) bool, kinds KindSet, yield func(*Row) bool) error {
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
		// A checkpoint belongs to the rows that follow it.
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
	from   ScanStart
	match  func(uint32) bool
	kinds  KindSet
	yield  func(*Row) bool
	dec    decoder
	enough bool
}

// take skips spans before the start.
func (s *scan) take(p, next *span) bool {
	if s.kinds&Checkpoints != 0 {
		return true
	}
	return p.high >= s.from.Time && (next == nil || s.from.Position == 0 || next.position > s.from.Position)
}

// frame processes the records of a frame. It is optimized for 20 ns per row.
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
		if checkpoint && s.kinds&Checkpoints == 0 || s.match != nil && kind != Gap && !s.match(instrumentOf(rec)) {
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

// restoreFrom returns the segment of an epoch that Restore begins with: the one with the last
// complete checkpoint, or the first if there is none.
func restoreFrom(views []segmentView) int {
	from := len(views) - 1
	for from > 0 && views[from].checkpoint == 0 {
		from--
	}
	return from
}

// Restore yields the rows of the last complete checkpoint of this epoch, which have Checkpoint set,
// and the messages from its beginning, in order. Rows of a checkpoint are the state of their
// instrument at their place and replace earlier messages. Without a complete checkpoint it yields
// all messages of the epoch, before which nothing was numbered. It yields nothing for a new epoch.
// Call it before the first Append.
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
			// A later checkpoint is incomplete, otherwise this one would not be the last.
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
