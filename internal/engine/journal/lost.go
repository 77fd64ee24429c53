package journal

import (
	"context"
	"errors"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// Lost is a range of rows of a series that are missing in the journal: before or between stored
// rows of their epoch, or perhaps after the last one.
type Lost struct {
	Epoch      string
	From, To   uint64 // N; To 0: unknown, because no later row is stored
	Start, End int64  // Time of the row before the range and of the one after it; 0: there is none
	Position   uint64 // of the row after it, or after which no rows of the epoch are missing
	At         int64  // when that row was published
	Since      int64  // when the first row of any series was lost, if rows are being lost now; or 0
}

// Lost returns the rows of a range that are missing, oldest first: those between stored rows, after
// the last one, and before the first one of an epoch whose beginning is stored. Rows that were
// removed with the oldest days are not lost. A row at the beginning or end of a range of times
// counts with the missing ones next to it. The range must have an epoch. Its order and date do not
// matter.
//
// It reads nothing if no rows are missing in the epoch, as far as is known, and the reads of f have
// found no gap.
func (f *Found) Lost(ctx context.Context, r Range) ([]Lost, error) {
	a := f.archive
	if f.series.Channel == Books || !f.incomplete && !a.lacks(a.views(r.Epoch)) {
		return nil, nil
	}
	all, err := a.find(f.series, r.Epoch, "")
	if err != nil {
		return nil, err
	}
	defer all.Close()
	r.Reverse, r.SkipDamage = false, true
	x := runs{epoch: r.Epoch}
	if x.base, x.begun, err = a.before(ctx, f.series, r.Epoch); err != nil {
		return nil, err
	}
	x.last = x.base
	s := seriesReader{archive: a, series: f.series, r: r.bounded(), yield: func(string, *Row) bool { return true }, runs: &x}
	for i := range all.parts {
		if err := s.part(ctx, &all.parts[i]); err != nil {
			return nil, err
		}
	}
	if err := all.tail(ctx, &x); err != nil {
		return nil, err
	}
	n := 0
	for _, l := range x.list {
		if err := all.neighbours(ctx, &l); err != nil {
			return nil, err
		}
		l.From = max(l.From, r.AfterN+1)
		if r.ToN > 0 && (l.To == 0 || l.To > r.ToN) {
			l.To = r.ToN
		}
		if l.To != 0 && l.From > l.To {
			continue
		}
		until := l.End
		if until == 0 {
			until = l.At
		}
		if (r.End == 0 || l.Start < r.End) && (r.Start == 0 || until >= r.Start) {
			x.list[n] = l
			n++
		}
	}
	return x.list[:n], nil
}

// Incomplete reports whether the journal lacks rows between others, as far as is known.
func (a *Archive) Incomplete() bool { return a.lacks(a.allViews()) }

// lacks reports whether rows are missing between those of segments, as far as is known.
func (a *Archive) lacks(views []segmentView) bool {
	return a.lost.any.Load() || slices.ContainsFunc(views, func(v segmentView) bool { return v.lostUntil() > 0 })
}

// lostUntil returns the position of the last row that is missing before or in a segment; 0: none.
func (v *segmentView) lostUntil() uint64 {
	at := v.missing
	for _, g := range v.gaps {
		at = max(at, g.Position)
	}
	for _, d := range v.losses() {
		if d.To == 0 { // no row follows it
			d.To = v.sum.last + 1
		}
		at = max(at, d.To)
	}
	return at
}

// endsEarly reports whether rows are missing after those of a segment.
func (v *segmentView) endsEarly() bool {
	n := len(v.gaps)
	return n > 0 && v.gaps[n-1].Position > v.sum.last
}

// before returns the N of the newest row of a series before those that an epoch has: 0, unless rows
// were removed with the oldest days. Then the checkpoint of the first segment has it. ok is false
// if that is damaged.
func (a *Archive) before(ctx context.Context, series Series, epoch string) (n uint64, ok bool, err error) {
	views := a.views(epoch)
	if len(views) == 0 || slices.Index(a.Epochs(), epoch) > 0 { // only the oldest one can lack its beginning
		return 0, true, nil
	}
	v := &views[0]
	if v.number <= 1 || v.sum.first == 1 {
		return 0, true, nil
	}
	b := a.oldest.Load()
	if b == nil || b.segment != v.number {
		if b, err = a.readBegin(ctx, v); err != nil {
			return 0, false, err
		}
		if b.minSeqs != nil {
			a.oldest.Store(b)
		}
	}
	number, _ := a.table.lookup(series.Instrument)
	if f := b.minSeqs[number]; f != nil {
		n = max(f[record.Slot(series.Channel, series.Interval)], 1) - 1
	}
	return n, b.minSeqs != nil, nil
}

// epochBegin has the least N of the series in a segment, the first one of the oldest epoch. minSeqs
// is nil if they are not known.
type epochBegin struct {
	segment uint32
	minSeqs minSeqs
}

// readBegin reads a segment up to the end of its checkpoint.
func (a *Archive) readBegin(ctx context.Context, v *segmentView) (*epochBegin, error) {
	b, f, dec := &epochBegin{segment: v.number}, minSeqs{}, record.Decoder{}
	damage := v.losses()
	err := a.walk(ctx, v, walkAll, func(c *record.Cursor, rec []byte) (bool, error) {
		switch kind := Kind(rec[0]); {
		case len(damage) > 0 && c.At(rec) > damage[0].Offset:
			return false, nil
		case kind == record.CheckpointEnd:
			b.minSeqs = f
			return false, nil
		case kind >= record.NumKinds, kind == Gap:
			return true, nil
		}
		r, err := c.Row(&dec, rec)
		switch {
		case err != nil:
			return false, err
		case r.Kind == Numbers:
			f.count(r.Instrument, &r.Counts)
		case !r.Checkpoint:
			f.begin(r)
		}
		return true, nil
	})
	if _, damaged := errors.AsType[*Damage](err); damaged {
		return b, nil
	}
	return b, err
}

// runs collects which rows of a series are stored in an epoch, and so which are not.
type runs struct {
	epoch string
	begun bool   // a gap before the next row counts, after base; false: it is not known whether rows were there
	base  uint64 // N of the newest row that was removed with the oldest days
	last  uint64 // N of the newest row so far
	known uint64 // greatest N of a row that cannot be read
	list  []Lost
}

// stored notes that the rows from first to last are stored.
func (x *runs) stored(first, last uint64) {
	if x == nil {
		return
	}
	if x.begun && first > x.last+1 {
		x.list = append(x.list, Lost{Epoch: x.epoch, From: x.last + 1, To: first - 1})
	}
	x.begun, x.last = true, max(x.last, last)
}

// unreadable notes that rows up to N cannot be read.
func (x *runs) unreadable(n uint64) {
	if x != nil {
		x.known = max(x.known, n)
	}
}

// tail adds the rows that are missing after the last stored one of a series. A later checkpoint of
// the newest epoch says which. Without one, and in another epoch, it is unknown whether there were
// any.
func (f *Found) tail(ctx context.Context, x *runs) error {
	if !x.begun {
		return nil
	}
	a, last := f.archive, uint64(0)
	views := a.views(x.epoch)
	l := Lost{Epoch: x.epoch, From: x.last + 1, To: x.known}
	newest := &views[len(views)-1]
	certain := newest.checkpoint != 0 || len(newest.gaps) == 0
	if x.epoch == a.Epoch() && certain && !slices.ContainsFunc(views, func(v segmentView) bool { return v.endsEarly() }) {
		if l.To = max(l.To, a.Oldest(f.series)-1); l.To <= x.last {
			return nil
		}
	} else if x.last == x.base {
		return nil
	} else if err := f.row(ctx, x.epoch, x.last, func(r *Row) { last = r.Position }); err != nil {
		return err
	}
	for _, v := range views {
		if at := v.lostUntil(); at > last {
			l.Position, l.At = max(l.Position, at), max(l.At, v.complete())
		}
	}
	if at, from, to := a.lost.span(); at > 0 && x.epoch == a.Epoch() {
		l.Position, l.At, l.Since = max(l.Position, at), max(l.At, to), from
	}
	if l.To > x.last || l.Position > 0 {
		x.list = append(x.list, l)
	}
	return nil
}

// neighbours sets what is known of the rows before and after a range.
func (f *Found) neighbours(ctx context.Context, l *Lost) error {
	err := f.row(ctx, l.Epoch, l.From-1, func(r *Row) { l.Start = r.Time })
	if l.To > 0 && err == nil {
		err = f.row(ctx, l.Epoch, l.To+1, func(r *Row) { l.End, l.Position, l.At = r.Time, r.Position, r.At })
	}
	return err
}

// row calls see with a row if it is stored.
func (f *Found) row(ctx context.Context, epoch string, n uint64, see func(*Row)) error {
	if n == 0 {
		return nil
	}
	return f.Read(ctx, Range{Epoch: epoch, AfterN: n - 1, ToN: n, SkipDamage: true}, func(_ string, r *Row) bool {
		see(r)
		return false
	})
}
