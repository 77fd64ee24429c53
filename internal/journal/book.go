package journal

import (
	"context"
	"fmt"
	"math"

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

// BookAt is the book of an instrument as it had been published at a time: it begins with the checkpoint
// before that time and applies the changes behind it. The error is ErrNoBook where there
// was no book or it was not known, and ErrNotKept where the journal has nothing of that
// time, or lost it.
func (a *Archive) BookAt(ctx context.Context, id market.InstrumentID, t int64) (BookSnapshot, error) {
	number, ok := a.table.lookup(id)
	if !ok {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, market.ErrUnknownInstrument)
	}
	views := a.allViews()
	kept := false
	for i := len(views) - 1; i >= 0; i-- {
		v := &views[i]
		if v.sum.rows == 0 || v.sum.from > t {
			continue
		}
		b := bookAt{number: number, until: t, begins: math.MinInt64, damage: v.losses()}
		if err := a.walk(ctx, v, func(*span, *span) bool { return !b.over }, b.record); err != nil {
			return BookSnapshot{}, err
		}
		b.pass(math.MaxInt64)
		switch {
		case b.known:
			return b.snapshot(v.epoch), nil
		case b.lost:
			return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNoBook)
		case b.hole:
			return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
		}
		kept = true
		// The checkpoint had no book of it, so there was none before either; or the
		// checkpoint comes later than the time, and the segment before has one.
		if b.checkpoint {
			break
		}
	}
	if !kept {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
	}
	return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNoBook)
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
		// The checkpoint in front of it says how things stood when it ended.
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
