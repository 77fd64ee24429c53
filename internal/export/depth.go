package export

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
)

// tellEvery is how many rows of books go by between two reports.
const tellEvery = 1 << 16

// book is a book on its way through the day.
type book struct {
	market.Book
	known bool   // there was a state
	last  uint64 // N of its newest row
	prior uint64 // and of the one before
}

// note takes what a row says of the book as a whole. Where its N does not follow on the one before, rows were lost:
// the book is not known until the checkpoint behind the hole tells it.
func (b *book) note(r *journal.Row) {
	switch r.Kind {
	case journal.BookUpdate:
		b.known = b.known && r.N == b.last+1
	case journal.BookLost:
		b.known = false
	case journal.BookState:
		b.known = true
	}
	b.prior, b.last = b.last, r.N
}

// set applies a row.
func (b *book) set(r *journal.Row) {
	b.note(r)
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

// old says whether a row of a checkpoint tells nothing new. A state of a book that is known tells
// something where rows were lost before it: then it is of another N than the newest row.
func (b *book) old(r *journal.Row) bool {
	switch r.Kind {
	case journal.BookState:
		return b.known && r.N == b.last
	case journal.BookLost:
		return !b.known
	}
	return true
}

// depths writes books in the order of the stream. Whoever rebuilds them needs to know how they
// stood when the day began: the journal's checkpoint tells that, and it is written as a
// state of each book. It may come behind the first few updates, which it has in it. Where rows
// were lost, the checkpoint that ends the hole tells the books anew, and which of them are not known. The
// rows of a day are those published on it.
type depths struct {
	*writing
	epoch  string
	follow bool // the table needs the books, not just the rows
	number map[uint32]*listing
	failed error
	seen   int
}

func (x *writing) depth(ctx context.Context, follow bool) error {
	d := &depths{writing: x, follow: follow, number: make(map[uint32]*listing, len(x.list))}
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
		err := x.journal.Scan(ctx, journal.Place{Epoch: epoch, Date: x.date}, match, kinds, d.row)
		if d.failed != nil {
			return d.failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// row takes a row of the scan and says whether to go on.
func (d *depths) row(r *journal.Row) bool {
	if d.seen++; d.seen%tellEvery == 0 {
		d.told(d.rows, min(1, max(0, float64(r.At-d.start)/float64(24*time.Hour))))
	}
	in := d.number[r.Instrument]
	b := &in.book
	if r.Checkpoint {
		if b.old(r) {
			return true
		}
		r.Latency = -1
	}
	if d.follow {
		b.set(r)
	} else {
		b.note(r)
	}
	if d.follow && !b.known {
		return true // its message cannot be made; the state that comes has it in it
	}
	d.count()
	d.failed = d.table.put(in, d.epoch, r, false)
	return d.failed == nil
}
