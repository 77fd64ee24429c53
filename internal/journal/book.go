package journal

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// BookSnapshot is a book as it was at a time.
type BookSnapshot struct {
	Epoch      string
	N          uint64 // order_book's N
	Time       int64  // T of the newest change
	At         int64  // its publication
	Bids, Asks []market.Level
}

// BookAt is the book of an instrument as it had been published at a time: it begins with the newest state
// before that time and applies the changes behind it. The error is ErrNoBook where there
// was no book or it was not known, and ErrNotKept where the journal has nothing of that
// time, or lost it.
func (a *Archive) BookAt(ctx context.Context, id market.InstrumentID, t int64) (BookSnapshot, error) {
	number, ok := a.table.lookup(id)
	if !ok {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, market.ErrUnknownInstrument)
	}
	views := slices.DeleteFunc(a.allViews(), func(v segmentView) bool { return v.beginsAfter(t) })
	if len(views) == 0 {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
	}
	// A segment that ends, at that time, before its checkpoint tells the book, has but changes of it: the state is in
	// a segment before.
	b := bookAt{number: number, until: t}
	first := len(views) - 1
	for ; ; first-- {
		b.reset()
		if err := b.segment(ctx, a, &views[first]); err != nil {
			return BookSnapshot{}, err
		}
		// Where a whole checkpoint had no book of it, there was none before either. An epoch begins with none.
		if b.known || b.lost || b.hole || b.checkpoint || first == 0 || views[first-1].epoch != views[first].epoch {
			break
		}
	}
	for i := first + 1; i < len(views); i++ {
		b.checkpoint = false
		if err := b.segment(ctx, a, &views[i]); err != nil {
			return BookSnapshot{}, err
		}
	}
	switch {
	case b.known:
		return b.snapshot(views[first].epoch), nil
	case b.hole && !b.lost, !b.lost && !b.checkpoint && first == 0 && views[0].number > 1:
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
	}
	return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNoBook)
}

// beginsAfter says whether all of the segment is later than a time.
func (v *segmentView) beginsAfter(t int64) bool {
	if v.sum.rows == 0 {
		return len(v.gaps) == 0 || v.gaps[0].At > t
	}
	return v.sum.from > t
}

// segment follows the book through a segment.
func (b *bookAt) segment(ctx context.Context, a *Archive, v *segmentView) error {
	b.begins, b.over, b.damage = math.MinInt64, false, v.losses()
	if err := a.walk(ctx, v, func(*span, *span) bool { return !b.over }, b.record); err != nil {
		return err
	}
	b.pass(math.MaxInt64)
	return nil
}

// reset forgets what is known of the book.
func (b *bookAt) reset() {
	b.known, b.lost, b.hole, b.checkpoint = false, false, false, false
}

// allViews are the segments of all epochs, oldest first.
func (a *Archive) allViews() (list []segmentView) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, d := range a.days {
		for _, s := range d.segments {
			v := s.view()
			v.index = d.index
			list = append(list, v)
		}
	}
	return list
}

// bookAt follows one book through a segment.
type bookAt struct {
	number     uint32
	until      int64
	begins     int64 // greatest At of a message so far
	dec        decoder
	book       market.Book
	last       BookSnapshot
	known      bool     // book is the book
	lost       bool     // the market said that it is not known
	hole       bool     // rows were lost before the time
	checkpoint bool     // a whole checkpoint from before the time was seen
	over       bool     // what follows is later than the time
	damage     []Damage // of the segment, what is not passed yet
}

// pass goes on to a place in the segment. Behind what cannot be read, which may be older than the time, the book is
// not known until it is told anew.
func (b *bookAt) pass(offset int64) {
	for len(b.damage) > 0 && b.damage[0].Offset < offset {
		b.damage = b.damage[1:]
		if b.begins <= b.until {
			b.known, b.lost, b.hole = false, false, true
		}
	}
}

func (b *bookAt) record(c *cursor, rec []byte) (bool, error) {
	kind := Kind(rec[0])
	mine := kind < numKinds && bookKinds.Has(kind) && instrumentOf(rec) == b.number
	var h head
	b.pass(c.at(rec))
	switch {
	case kind == recCheckpointEnd:
		b.checkpoint = b.checkpoint || b.begins <= b.until
		return true, nil
	case kind >= numKinds:
		return true, nil
	case !mine && kind != Hole:
		// Until the checkpoint is through, every row tells how late it is.
		if b.checkpoint || !h.parse(rec, c.base) {
			return true, nil
		}
		if h.flags&flagCheckpoint == 0 {
			b.begins = max(b.begins, h.at)
		}
		return true, nil
	}
	r, ok := b.dec.row(rec, c.base)
	if !ok {
		return false, c.damage(c.pos-len(rec), reasonRecord)
	}
	at := r.At
	if r.Checkpoint {
		// It tells how things stood behind the rows before it, whenever they changed last.
		at = b.begins
	} else {
		b.begins = max(b.begins, at)
	}
	if at > b.until {
		b.over = mine && !r.Checkpoint
		return !b.over, nil
	}
	b.apply(r)
	return true, nil
}

func (b *bookAt) apply(r *Row) {
	switch r.Kind {
	case Hole:
		if r.CheckpointBehind {
			b.known, b.lost = false, false
		}
		b.hole = !b.known
		return
	case BookState:
		b.book.Reset()
		b.known, b.lost = true, false
	case BookLost:
		b.known, b.lost = false, true
		return
	}
	if !b.known {
		return
	}
	for _, l := range r.Bids {
		b.book.Set(market.Buy, l)
	}
	for _, l := range r.Asks {
		b.book.Set(market.Sell, l)
	}
	b.last.N, b.last.Time, b.last.At = r.N, r.Time, r.At
}

func (b *bookAt) snapshot(epoch string) BookSnapshot {
	s := b.last
	s.Epoch = epoch
	s.Bids = b.book.Append(nil, market.Buy, 0)
	s.Asks = b.book.Append(nil, market.Sell, 0)
	return s
}
