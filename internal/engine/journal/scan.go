package journal

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// ScanStart is where a scan of the stream begins. The zero ScanStart is the oldest stored row.
type ScanStart struct {
	Epoch    string // "": the newest
	Date     string // only rows filed under this day, by publication: 2006-01-02; "": all
	Position uint64 // rows after this position
	Time     int64  // rows published (At) from this time; 0: no limit

	Damaged func(error) // called if rows cannot be read; a Gap follows for them. nil: the scan ends with the error
}

// Checkpoints in the kinds of a Scan includes rows of checkpoints: the state of an instrument at
// that place, at most once in each segment.
const Checkpoints KindSet = 1 << 31

// walkAll selects every span.
func walkAll(*record.Span, *record.Span) bool { return true }

// walk calls f for the records of a segment in order, until f returns false. take selects spans,
// given the next one (nil: none).
func (a *Archive) walk(ctx context.Context, v *segmentView, take func(s, next *record.Span) bool, f func(c *record.Cursor, rec []byte) (more bool, err error)) error {
	return a.walkFrames(ctx, v, take, nil, func(c *record.Cursor) (bool, error) {
		for c.Pos < c.End {
			rec, err := c.Next()
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

// walkFrames calls f for the frames of a segment in order, until f returns false. f processes the
// records of the frame that c has entered. If skip is not nil, damage does not end the walk: skip
// is called with it, and the next span follows.
func (a *Archive) walkFrames(ctx context.Context, v *segmentView, take func(s, next *record.Span) bool, skip func(error), f func(c *record.Cursor) (more bool, err error)) error {
	spans, err := v.spans()
	if a.rebuild(v.index, err) {
		now, e := a.current(v.number)
		if e != nil {
			return e
		}
		v = &now
		spans, err = v.spans()
	}
	if err != nil {
		return notKept(err)
	}
	var file *segmentFile
	ahead := ahead{spans: spans}
	c := record.Cursor{Salt: v.salt, Verified: v.verified}
	for i := range spans {
		var next *record.Span
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
			if c.File = file.name; file.reason != "" {
				return c.Damage(0, file.reason)
			}
		}
		buf, err := ahead.read(file, i)
		more := true
		if err == nil {
			c.Reset(spans[i].Offset, buf)
			more, err = eachFrame(&c, f)
		}
		if _, damaged := errors.AsType[*Damage](err); damaged && skip != nil {
			skip(err)
			continue
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// eachFrame calls f for each frame, until f returns false.
func eachFrame(c *record.Cursor, f func(c *record.Cursor) (more bool, err error)) (more bool, err error) {
	for {
		if err := c.Enter(); errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		if more, err := f(c); err != nil || !more {
			return false, err
		}
		c.Pos = c.End
	}
}

// ahead reads spans of a segment. It reads more at once after several sequential reads, which costs
// less.
type ahead struct {
	spans []record.Span
	buf   []byte // spans of the next read; 0: one
	from  int64  // of buf in the segment
	most  int    // spans of the next read; 0: one
}

const maxAhead = 512 << 10 // more would not stay in the processor's cache

// read returns span i. It is valid until the next read.
func (a *ahead) read(file *segmentFile, i int) ([]byte, error) {
	s := &a.spans[i]
	at := s.Offset - a.from
	if at < 0 || at+s.Bytes > int64(len(a.buf)) {
		end := s.Offset + s.Bytes
		for k := 1; k < a.most && i+k < len(a.spans); k++ {
			next := &a.spans[i+k]
			if next.Offset < end || next.Bytes < 0 || next.Offset+next.Bytes-s.Offset > maxAhead {
				break
			}
			end = next.Offset + next.Bytes
		}
		if !file.packed { // a packed one has a unit for each span
			a.most = min(max(2, 2*a.most), maxAhead/record.SpanBytes)
		}
		size := int(end - s.Offset)
		a.buf, a.from, at = slices.Grow(a.buf[:0], size)[:size], s.Offset, 0
		n, err := file.ReadAt(a.buf, s.Offset)
		if a.buf = a.buf[:n]; int64(n) < s.Bytes {
			return nil, shortRead(file.name, s.Offset, err)
		}
		// Errors after this span are reported when they are needed.
	}
	return a.buf[at : at+s.Bytes], nil
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
	begun := false // a segment is of the date
	for i := range views {
		v := &views[i]
		if from.Date != "" && dateOf(v.day) != from.Date {
			if !begun {
				continue
			}
			s.after(v.missingBefore())
			break
		}
		if begun = true; kinds&Checkpoints == 0 && v.sum.rows == 0 && len(v.gaps) == 0 {
			continue
		}
		// A checkpoint belongs to the rows that follow it.
		if from.Position > 0 && v.sum.last <= from.Position || v.sum.to < from.Time {
			s.after(v.missingAfter())
			continue
		}
		if s.missing(v); s.enough {
			return nil
		}
		var skip func(error)
		if from.Damaged != nil {
			skip = s.skip
		}
		err := a.walkFrames(ctx, v, s.take, skip, s.frame)
		if _, damaged := errors.AsType[*Damage](err); skip != nil && (damaged || errors.Is(err, ErrNotKept)) {
			s.skip(err) // the whole segment
			err = nil
		}
		if err != nil || s.enough {
			return err
		}
		if s.after(v.missingAfter()); s.enough {
			return nil
		}
	}
	if n := len(views) - 1; s.skipped && !s.enough && kinds.Has(Gap) {
		yield(gapRow(views[n].sum.last, views[n].sum.to))
	}
	return nil
}

type scan struct {
	from   ScanStart
	match  func(uint32) bool
	kinds  KindSet
	yield  func(*Row) bool
	dec    record.Decoder
	enough bool

	damage  []Damage // of the segment, in the part that was not read yet
	skipped bool     // rows before the next one could not be read
	said    uint64   // position of the last Gap for missing rows
}

// skip notes that rows cannot be read.
func (s *scan) skip(err error) {
	s.skipped = true
	s.from.Damaged(err)
}

// missing yields a Gap for the rows that are missing before a segment.
func (s *scan) missing(v *segmentView) {
	s.damage = v.losses()
	if v.missing > s.from.Position && v.sum.from >= s.from.Time && s.kinds.Has(Gap) {
		s.enough, s.skipped, s.said = !s.yield(v.missingRow()), false, v.missing
	}
}

// after yields a Gap for the rows that are missing after those of the segments so far; nil: none.
func (s *scan) after(r *Row) {
	if r != nil && !s.enough && r.Position > max(s.from.Position, s.said) && r.At >= s.from.Time && s.kinds.Has(Gap) {
		s.enough, s.skipped, s.said = !s.yield(r), false, r.Position
	}
}

// gap yields a Gap for the rows that are missing before a record of a segment.
func (s *scan) gap(c *record.Cursor, rec []byte, offset int64) {
	last, at, lost := c.Base.Position, c.Base.At, s.skipped
	if h := (record.Head{}); record.IsMessage(rec) && h.Parse(rec, c.Base) {
		last, at = h.Position-1, h.At
	}
	for len(s.damage) > 0 && s.damage[0].Offset <= offset {
		if d := &s.damage[0]; d.To > 0 {
			last, lost = d.To, true
		}
		s.damage = s.damage[1:]
	}
	if s.skipped = false; lost && last > max(s.from.Position, s.said) && at >= s.from.Time && s.kinds.Has(Gap) {
		s.enough, s.said = !s.yield(gapRow(last, at)), last
	}
}

// missingRow returns the Gap of the rows that are missing before a segment.
func (v *segmentView) missingRow() *Row { return gapRow(v.missing, v.sum.from) }

// missingBefore returns a Gap if rows are missing before the first one of a segment, or nil.
func (v *segmentView) missingBefore() *Row {
	switch {
	case v.missing > 0:
		return v.missingRow()
	case len(v.gaps) > 0 && v.gaps[0].Position < v.sum.first:
		return gapRow(v.gaps[0].Position, v.gaps[0].At)
	}
	return nil
}

// missingAfter returns a Gap if rows are missing after the last one of a segment, and no file says
// so, or nil.
func (v *segmentView) missingAfter() *Row {
	if !v.endsEarly() {
		return nil
	}
	g := v.gaps[len(v.gaps)-1]
	return gapRow(g.Position, g.At)
}

// gapRow returns a Gap for the missing rows up to a position. at is when the row after them was
// published.
func gapRow(position uint64, at int64) *Row {
	return &Row{Kind: Gap, CheckpointFollows: true, Position: position, Time: at, At: at, Latency: -1, Reason: record.ReasonMissing}
}

// take skips spans before the start.
func (s *scan) take(p, next *record.Span) bool {
	if s.kinds&Checkpoints != 0 {
		return true
	}
	return p.High >= s.from.Time && (next == nil || s.from.Position == 0 || next.Position > s.from.Position)
}

// frame processes the records of a frame. It is optimized for 20 ns per row.
func (s *scan) frame(c *record.Cursor) (bool, error) {
	b := c.Buf[c.Pos:c.End]
	levels := s.kinds.Has(BookUpdate)
	for len(b) >= record.HeadSize {
		if s.skipped || len(s.damage) > 0 {
			if s.gap(c, b, c.Offset+int64(c.End-len(b))); s.enough {
				return false, nil
			}
		}
		if levels && record.IsLevel(b) {
			rec := (*[record.LevelSize]byte)(b)
			if s.match != nil && !s.match(record.Instrument(rec[:])) {
				b = b[record.LevelSize:]
				continue
			}
			if r := s.dec.DecodeLevel(rec, c.Base); r != nil {
				b = b[record.LevelSize:]
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
		n := record.WantedSize(b)
		if n < record.HeadSize || n > len(b) {
			break
		}
		rec := b[:n]
		b = b[n:]
		if kind >= record.NumKinds || s.kinds>>kind&1 == 0 {
			continue
		}
		checkpoint := flags&record.FlagCheckpoint != 0
		if checkpoint && s.kinds&Checkpoints == 0 || s.match != nil && kind != Gap && !s.match(record.Instrument(rec)) {
			continue
		}
		r, ok := s.dec.Decode(rec, c.Base)
		if !ok {
			return false, c.Damage(c.End-len(b)-n, record.ReasonRecord)
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
		return false, c.Damage(c.End-len(b), record.ReasonRecord)
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
	var dec record.Decoder
	for i := from; i < len(views); i++ {
		take := func(p, next *record.Span) bool { return i > from || next == nil || next.Offset > begin }
		err := j.walk(context.Background(), &views[i], take, func(c *record.Cursor, rec []byte) (bool, error) {
			kind := Kind(rec[0])
			if !begun {
				begun = kind == record.CheckpointBegin && c.At(rec) > begin
				return true, nil
			}
			whole = whole || kind == record.CheckpointEnd
			if kind == record.SourceNumber {
				restoreSource(j, rec)
				return true, nil
			}
			// A later checkpoint is incomplete, otherwise this one would not be the last.
			if kind >= record.NumKinds || whole && rec[1]&record.FlagCheckpoint != 0 {
				return true, nil
			}
			r, err := c.Row(&dec, rec)
			if err != nil {
				return false, err
			}
			return true, yield(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
