package replay

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/recent"
)

// ReadRows is the number of rows of one reading.
const ReadRows = 1000

// Lost is a range of rows of an instrument that the journal does not have, although it should.
type Lost struct {
	In       *hub.Instrument
	From, To uint64 // N; From 0: unknown
}

// Reading is a request to read the next rows of the journal, and later its result. It reads without
// the Rows that it belongs to.
type Reading struct {
	ranges []*Range
	parts  []Part
	rows   int
	done   int    // number of ranges that are finished
	rest   *Range // the rest of the next one, if its reading has begun
	lost   []Lost // before the rows
	ended  bool   // the rows after parts are missing: the next reading reports them
	err    error
}

// Read returns a request to read the next rows of the journal.
func (r *Rows) Read() *Reading { return &Reading{ranges: r.ranges[:len(r.ranges):len(r.ranges)]} }

// Take takes the rows that were read. It returns the rows that are missing before them, and the
// error of the journal, if there was one.
func (r *Rows) Take(f *Reading) ([]Lost, error) {
	r.read = append(r.read, f.parts...)
	r.ranges = r.ranges[f.done:]
	if f.rest != nil {
		r.ranges[0] = f.rest
	}
	return f.lost, f.err
}

// Do reads rows until it has enough, or its time is over.
func (f *Reading) Do(ctx context.Context, j *journal.Journal) {
	for begin := time.Now(); f.done < len(f.ranges) && f.rows < ReadRows && time.Since(begin) < readjob.ReadTime; {
		o := *f.ranges[f.done]
		if f.err = f.find(ctx, j, &o); f.err == nil && !f.ended {
			f.err = f.readSeries(ctx, j, &o)
		}
		if f.err == nil && (f.ended || o.N < o.To) {
			f.rest = &o
			return
		}
		f.done++
		if f.err != nil {
			return
		}
	}
}

// find searches the first row after Pos if Seek is set, and sets N to the number before it, or
// before the missing rows in front of it. The positions of a series increase. Most clients were
// connected recently, so the search begins near the end.
func (f *Reading) find(ctx context.Context, j *journal.Journal, o *Range) error {
	if !o.Seek {
		return nil
	}
	begin, high := o.N, o.To
	for step := uint64(ReadRows); o.N < high; step *= 4 {
		mid := max(o.N+(high-o.N+1)/2, high-min(high, step))
		behind, found := false, false
		err := j.Read(ctx, o.Series, journal.Range{Epoch: j.Epoch(), AfterN: mid - 1, ToN: mid}, func(_ string, r *journal.Row) bool {
			behind, found = r.Position > o.Pos, true
			return false
		})
		switch {
		case isMissing(err), err == nil && !found:
			x := *o
			x.N = mid - 1
			next, pos, err := x.nextStored(ctx, j)
			if err != nil {
				return err
			}
			if behind = next > o.To || pos > o.Pos; !behind {
				mid = next
			}
		case err != nil:
			return err
		}
		if behind {
			high = mid - 1
		} else {
			o.N = mid
		}
	}
	o.Seek, o.Open = false, o.Open && o.N == begin
	return nil
}

// readSeries reads the rows that follow N, and sets N to the last of them. If there is none, the
// rows up to the next one, or up to To, are lost.
func (f *Reading) readSeries(ctx context.Context, j *journal.Journal, o *Range) error {
	if o.N >= o.To {
		return nil
	}
	var rows []recent.Row
	from, next, ended := o.N, o.To+1, false
	err := j.Read(ctx, o.Series, journal.Range{Epoch: j.Epoch(), AfterN: o.N, ToN: o.To}, func(_ string, r *journal.Row) bool {
		if ended = o.Until > 0 && r.Position > o.Until; ended || r.N != o.N+1 {
			next = r.N
			return false
		}
		o.N, o.Pos, o.ByN, o.Open = r.N, r.Position, false, false
		rows = append(rows, recent.RowOf(r, o.In.Zone()))
		f.rows++
		return f.rows < ReadRows
	})
	if len(rows) > 0 {
		f.parts = append(f.parts, Part{In: o.In, N: from + 1, Rows: [][]recent.Row{rows}})
	}
	switch {
	case err != nil && !isMissing(err):
		return err
	case ended && (len(rows) > 0 || next == o.N+1):
		o.To = o.N
	case len(rows) > 0: // the next reading finds what is missing after them
	case err != nil:
		if next, _, err = o.nextStored(ctx, j); err != nil {
			return err
		}
		fallthrough
	default:
		f.lose(o, next-1)
	}
	return nil
}

// nextStored returns N and position of the first row after N that can be read; To+1 if there is
// none. The row after N cannot be read. Rows between two unreadable parts may count as unreadable.
func (o *Range) nextStored(ctx context.Context, j *journal.Journal) (next, pos uint64, err error) {
	next = o.To + 1
	stored := func(n uint64) (ok bool) { // rows from n on
		if n > o.To || err != nil {
			return true
		}
		err = j.Read(ctx, o.Series, journal.Range{Epoch: j.Epoch(), AfterN: n - 1, ToN: o.To}, func(_ string, r *journal.Row) bool {
			next, pos = r.N, r.Position
			return false
		})
		if isMissing(err) {
			err = nil
			return false
		}
		return true
	}
	low, high := o.N+1, o.N+2
	for !stored(high) {
		low, high = high, high+2*(high-o.N)
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; stored(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return next, pos, err
}

// isMissing reports whether an error means that rows are missing or damaged, so that another
// reading would fail too.
func isMissing(err error) bool {
	_, damaged := errors.AsType[*journal.Damage](err)
	return damaged || errors.Is(err, journal.ErrNotKept)
}

// lose notes that the next rows of a range are lost, up to N to, and moves past them. If the
// reading already has rows, it ends here instead, so that these are sent first.
func (f *Reading) lose(o *Range, to uint64) {
	if f.ended = len(f.parts) > 0; f.ended {
		return
	}
	l := Lost{In: o.In, From: o.N + 1, To: to}
	if o.Open {
		l.From = 0
	}
	if n := len(f.lost); n > 0 && f.lost[n-1].In == l.In && f.lost[n-1].To+1 == l.From {
		f.lost[n-1].To = l.To
	} else if l.To > 0 && l.From <= l.To {
		f.lost = append(f.lost, l)
	}
	o.N, o.Open = to, false
}
