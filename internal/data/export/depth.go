package export

import (
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// progressEvery is the number of book rows between two calls of the progress function.
const progressEvery = 1 << 16

// book is the state of a book during the day.
type book struct {
	market.Book
	known    bool   // there was a snapshot
	last     uint64 // N of its newest row
	previous uint64 // N of the row before
	time     int64  // event time of its newest row
	begun    bool   // last is right, also if it is 0
	gap      bool   // rows are missing after the newest one, perhaps none of this book
}

// track updates the state of the book as a whole. If its N is not consecutive, rows were lost, and
// the book is unknown until the checkpoint after the gap.
func (b *book) track(r *journal.Row) {
	switch r.Kind {
	case journal.BookUpdate:
		b.known = b.known && r.N == b.last+1
	case journal.BookLost:
		b.known = false
	case journal.BookState:
		b.known = true
	}
	b.previous, b.last, b.time, b.begun, b.gap = b.last, r.N, r.Time, true, false
}

// set applies a row.
func (b *book) set(r *journal.Row) {
	b.track(r)
	if r.Kind == journal.BookState {
		b.Reset()
	}
	if !b.known {
		return
	}
	for _, l := range r.Bids {
		b.Set(market.Buy, l)
	}
	for _, l := range r.Asks {
		b.Set(market.Sell, l)
	}
}

// redundant reports whether a row of a checkpoint has no new information. A snapshot of a known
// book has if rows before it were lost; its N then differs from that of the newest row.
func (b *book) redundant(r *journal.Row) bool {
	switch r.Kind {
	case journal.BookState:
		return b.known && r.N == b.last
	case journal.BookLost:
		return !b.known
	}
	return true
}

// depthWriter writes books in the order of the stream. A reader who rebuilds them needs their state
// at the beginning of the day. The journal's checkpoint has it, and it is written as a snapshot of
// each book. The checkpoint may come after the first updates, which it then includes. If rows were
// lost, the checkpoint at the end of the gap repeats the changed books, and lists the unknown ones.
// The rows of a day are those published on it.
type depthWriter struct {
	*tableWriter
	epoch  string
	follow bool // the table needs complete books, not only the rows
	number map[uint32]*listing
	failed error
	seen   int
	before bool // the rows before the day were looked at
}

func (x *tableWriter) depth(ctx context.Context, follow bool) error {
	d := &depthWriter{tableWriter: x, follow: follow, number: make(map[uint32]*listing, len(x.list))}
	for _, in := range x.list {
		d.number[in.number] = in
		if err := x.notKept(ctx, in, journal.Series{Instrument: in.ID, Channel: journal.Books}); err != nil {
			return err
		}
	}
	for i, epoch := range x.journal.Epochs() {
		d.epoch, d.before = epoch, false
		for _, in := range x.list {
			in.book = book{begun: i > 0 || x.journal.FirstSegment() <= 1}
		}
		err := d.scan(ctx, x.date, func(r *journal.Row) bool { return d.row(ctx, r) })
		if err == nil {
			err = d.failed
		}
		if err == nil {
			err = d.lookAfter(ctx)
		}
		if err != nil {
			return err
		}
		for _, in := range x.list {
			if in.book.gap && in.book.last > 0 {
				d.lose(in, 0, 0)
			}
		}
	}
	return nil
}

// scan yields the rows of books of the epoch that are filed under a date.
func (d *depthWriter) scan(ctx context.Context, date string, yield func(*journal.Row) bool) error {
	match := func(n uint32) bool { return d.number[n] != nil }
	kinds := journal.Kinds(journal.BookState, journal.BookUpdate, journal.BookLost, journal.Gap) | journal.Checkpoints
	return d.journal.Scan(ctx, journal.ScanStart{Epoch: d.epoch, Date: date, Damaged: func(error) {}}, match, kinds, yield)
}

// lookBefore finds the newest row of each book before the day, because rows are missing before the
// first one of the day.
func (d *depthWriter) lookBefore(ctx context.Context) error {
	days := d.journal.Days()
	first := slices.IndexFunc(days, func(x journal.Day) bool { return x.Date == d.date })
	for _, x := range slices.Backward(days[:max(0, first)]) {
		found := false
		err := d.scan(ctx, x.Date, func(r *journal.Row) bool {
			if r.Kind == journal.Gap {
				return true
			}
			if b := &d.number[r.Instrument].book; !b.known && r.N >= b.last {
				b.last, b.time, b.begun = r.N, r.Time, true
			}
			found = true
			return true
		})
		if err != nil || found {
			return err
		}
	}
	return nil
}

// lookAfter finds the first row after the day of each book of which rows are missing at its end.
func (d *depthWriter) lookAfter(ctx context.Context) error {
	left := 0
	for _, in := range d.list {
		if in.book.gap {
			left++
		}
	}
	days := d.journal.Days()
	first := slices.IndexFunc(days, func(x journal.Day) bool { return x.Date == d.date })
	for _, x := range days[first+1:] {
		if left == 0 {
			break
		}
		found := false
		err := d.scan(ctx, x.Date, func(r *journal.Row) bool {
			if r.Kind == journal.Gap {
				return true
			}
			found = true
			if in := d.number[r.Instrument]; in.book.gap {
				d.missing(in, r)
				left--
			}
			return left > 0
		})
		if err != nil || found {
			return err
		}
	}
	return nil
}

// lose adds missing rows of a book: those after its newest row, up to N to. end is the event time
// of the row after them.
func (d *depthWriter) lose(in *listing, to uint64, end int64) {
	d.lost = append(d.lost, Lost{Instrument: in.ID, Epoch: d.epoch, Range: Range{in.book.last + 1, to, in.book.time, end}})
}

// missing notes what is missing before a row. The state of a checkpoint is that after the row of
// its N, which is missing too.
func (d *depthWriter) missing(in *listing, r *journal.Row) {
	before := r.N
	if !r.Checkpoint {
		before--
	}
	if b := &in.book; (b.gap || b.last > 0) && before > b.last {
		d.lose(in, before, r.Time)
	}
	in.book.gap = false
}

// row handles a row of the scan and reports whether to continue.
func (d *depthWriter) row(ctx context.Context, r *journal.Row) bool {
	if d.seen++; d.seen%progressEvery == 0 {
		d.progress(d.rows, min(1, max(0, float64(r.At-d.start)/float64(24*time.Hour))))
	}
	if r.Kind == journal.Gap {
		if !d.before {
			d.before = true
			d.failed = d.lookBefore(ctx)
		}
		for _, in := range d.list {
			in.book.gap = in.book.begun
		}
		return d.failed == nil
	}
	in := d.number[r.Instrument]
	b := &in.book
	d.missing(in, r)
	if r.Checkpoint {
		if b.redundant(r) {
			b.last = r.N
			return true
		}
		r.Latency = -1
	}
	if d.follow {
		b.set(r)
	} else {
		b.track(r)
	}
	if d.follow && !b.known {
		return true // its message cannot be encoded; the next snapshot includes it
	}
	d.count()
	d.failed = d.table.put(in, d.epoch, r, false)
	return d.failed == nil
}
