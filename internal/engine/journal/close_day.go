package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// writeDay writes the index of a day from its segments, which no longer change.
func (a *Archive) writeDay(ctx context.Context, path string, date int32, views []segmentView, enc *zstd.Encoder) error {
	bytes := int64(0)
	for i := range views {
		bytes += views[i].end
	}
	w, err := dayfile.Create(&a.sys, path, bytes, enc)
	if err != nil {
		return err
	}
	meta := dayfile.Meta{Date: dateOf(date)}
	for i := range views {
		if err := a.addSegment(ctx, w, &meta, &views[i]); err != nil {
			return w.Abandon(err)
		}
	}
	a.table.each(func(number uint32, text []byte, realClock bool) {
		meta.Definitions = append(meta.Definitions, dayfile.Definition{Number: number, Text: text, RealClock: realClock})
	})
	return w.Finish(ctx, &meta)
}

// addSegment adds the rows and the description of a segment to the index of its day.
func (a *Archive) addSegment(ctx context.Context, w *dayfile.Writer, meta *dayfile.Meta, v *segmentView) error {
	epoch := slices.Index(meta.Epochs, v.epoch)
	if epoch < 0 {
		epoch = len(meta.Epochs)
		meta.Epochs = append(meta.Epochs, v.epoch)
	}
	spans, err := v.spans()
	if err != nil {
		return err
	}
	w.AddSpans(spans)
	meta.Journal = hex.EncodeToString(v.journal[:])
	meta.Segments = append(meta.Segments, dayfile.Segment{
		Number: v.number, Name: v.name, Epoch: v.epoch, Salt: v.salt, Day: v.day, End: v.end,
		Rows: v.sum.rows, First: v.sum.first, Last: v.sum.last, From: v.sum.from, To: v.sum.to,
		Least: v.sum.least, Most: v.sum.most, Resumed: v.resumed, Gaps: v.gaps, Damage: v.damage, Torn: v.torn, Spans: len(spans),
	})
	return a.walk(ctx, v, walkAll, func(c *record.Cursor, rec []byte) (bool, error) {
		return true, w.Add(c, rec, uint16(epoch))
	})
}

// segmentsOf returns the segments that the index of a day describes.
func segmentsOf(meta *dayfile.Meta) []*segment {
	var list []*segment
	for _, m := range meta.Segments {
		s := &segment{name: filepath.Base(m.Name), end: m.End, gaps: m.Gaps, damage: m.Damage, torn: m.Torn, resumed: m.Resumed}
		s.header = header{number: m.Number, epoch: m.Epoch, day: m.Day, salt: m.Salt}
		// An invalid id makes the segments foreign, which is reported.
		_, _ = hex.Decode(s.journal[:], []byte(meta.Journal)[:min(32, len(meta.Journal))])
		s.summary, s.low = summary{m.Rows, m.First, m.Last, m.From, m.To, m.Least, m.Most}, meta.Version < dayfile.Version
		list = append(list, s)
	}
	return list
}

// Hash returns a hash of all messages of an epoch ("": the newest) in stream order. Journals with
// equal rows have equal hashes.
func (a *Archive) Hash(ctx context.Context, epoch string) (string, error) {
	return a.hash(ctx, a.views(epoch))
}

// HashDay reads the rows of a day, 2006-01-02, and returns their hash. It is that of Days if the
// day is closed and its files have not changed since. The error is ErrNotKept if the journal does
// not have the day.
func (a *Archive) HashDay(ctx context.Context, date string) (string, error) {
	views := a.selectViews(func(d *day, _ *segment) bool { return dateOf(d.date) == date })
	if len(views) == 0 {
		return "", ErrNotKept
	}
	return a.hash(ctx, views)
}

// hash returns the hash of all messages of segments.
func (a *Archive) hash(ctx context.Context, views []segmentView) (string, error) {
	sum, scratch := sha256.New(), []byte(nil)
	for i := range views {
		err := a.walk(ctx, &views[i], walkAll, func(c *record.Cursor, rec []byte) (bool, error) {
			if !record.IsMessage(rec) {
				return true, nil
			}
			var h record.Head
			if !h.Parse(rec, c.Base) {
				return false, c.BadRecord(rec)
			}
			scratch = record.AppendCanonical(scratch[:0], &h, rec)
			sum.Write(scratch)
			return true, nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
