package replay

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/readjob"
	"github.com/ruedahq/rueda/internal/recent"
)

// ReadRows is the number of rows of one reading.
const ReadRows = 1000

// errGone states that the journal no longer has rows that were promised.
var errGone = errors.New("rows are no longer kept")

// Reading is a request to read the next rows of the journal, and later its result. It reads without
// the Rows that it belongs to.
type Reading struct {
	ranges []*Range
	parts  []Part
	rows   int
	done   int    // number of ranges that are finished
	rest   *Range // the rest of the next one, if its reading has begun
	err    error
}

// Read returns a request to read the next rows of the journal.
func (r *Rows) Read() *Reading { return &Reading{ranges: r.ranges[:len(r.ranges):len(r.ranges)]} }

// Take takes the rows that were read. It returns the error of the journal, if there was one.
func (r *Rows) Take(f *Reading) error {
	r.read = append(r.read, f.parts...)
	r.ranges = r.ranges[f.done:]
	if f.rest != nil {
		r.ranges[0] = f.rest
	}
	return f.err
}

// Do reads rows until it has enough, or its time is over.
func (f *Reading) Do(ctx context.Context, j *journal.Journal) {
	for begin := time.Now(); f.done < len(f.ranges) && f.rows < ReadRows && time.Since(begin) < readjob.ReadTime; {
		o := *f.ranges[f.done]
		if f.err = o.find(ctx, j); f.err == nil {
			f.err = f.readSeries(ctx, j, &o)
		}
		if f.err == nil && o.N < o.To {
			f.rest = &o
			return
		}
		f.done++
		if f.err != nil {
			return
		}
	}
}

// find sets N to the N before the first row after Pos, if Seek is set. The positions of a series
// increase. Most clients were connected recently, so the search begins near the end. It returns
// errGone if the journal no longer has the rows.
func (o *Range) find(ctx context.Context, j *journal.Journal) error {
	if !o.Seek {
		return nil
	}
	high := o.To
	for step := uint64(ReadRows); o.N < high; step *= 4 {
		mid := max(o.N+(high-o.N+1)/2, high-min(high, step))
		behind := false // a missing row counts as not after Pos; the check below finds lost rows
		err := j.Read(ctx, o.Series, journal.Range{Epoch: j.Epoch(), AfterN: mid - 1, ToN: mid}, func(_ string, r *journal.Row) bool {
			behind = r.Position > o.Pos
			return false
		})
		if err != nil {
			return err
		}
		if behind {
			high = mid - 1
		} else {
			o.N = mid
		}
	}
	if o.Pos < j.Begins() {
		return errGone // a day was removed meanwhile; other lost rows do not come before the promised rows
	}
	o.Seek = false
	return nil
}

// readSeries reads the rows that follow N, and sets N to the last of them. It returns errGone if
// the journal no longer has them.
func (f *Reading) readSeries(ctx context.Context, j *journal.Journal, o *Range) error {
	if o.N >= o.To {
		return nil
	}
	var rows []recent.Row
	from, ended := o.N, false
	err := j.Read(ctx, o.Series, journal.Range{Epoch: j.Epoch(), AfterN: o.N, ToN: o.To}, func(_ string, r *journal.Row) bool {
		if ended = o.Until > 0 && r.Position > o.Until; ended || r.N != o.N+1 {
			return false
		}
		o.N, o.Pos, o.ByN = r.N, r.Position, false
		rows = append(rows, recent.RowOf(r))
		f.rows++
		return f.rows < ReadRows
	})
	if len(rows) > 0 {
		f.parts = append(f.parts, Part{In: o.In, N: from + 1, Rows: [][]recent.Row{rows}})
	}
	switch {
	case ended:
		o.To = o.N
	case err == nil && len(rows) == 0:
		err = errGone
	}
	return err
}
