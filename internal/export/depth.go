package export

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
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
	b.previous, b.last = b.last, r.N
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
}

func (x *tableWriter) depth(ctx context.Context, follow bool) error {
	d := &depthWriter{tableWriter: x, follow: follow, number: make(map[uint32]*listing, len(x.list))}
	for _, in := range x.list {
		d.number[in.number] = in
	}
	match := func(n uint32) bool { return d.number[n] != nil }
	kinds := journal.Kinds(journal.BookState, journal.BookUpdate, journal.BookLost) | journal.Checkpoints
	for _, epoch := range x.journal.Epochs() {
		d.epoch = epoch
		for _, in := range x.list {
			in.book = book{}
		}
		err := x.journal.Scan(ctx, journal.ScanStart{Epoch: epoch, Date: x.date}, match, kinds, d.row)
		if d.failed != nil {
			return d.failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// row handles a row of the scan and reports whether to continue.
func (d *depthWriter) row(r *journal.Row) bool {
	if d.seen++; d.seen%progressEvery == 0 {
		d.progress(d.rows, min(1, max(0, float64(r.At-d.start)/float64(24*time.Hour))))
	}
	in := d.number[r.Instrument]
	b := &in.book
	if r.Checkpoint {
		if b.redundant(r) {
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
