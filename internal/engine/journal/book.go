package journal

import (
	"context"
	"fmt"
	"math"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// BookSnapshot is a book at a time.
type BookSnapshot struct {
	Epoch      string
	Position   uint64 // of the newest change
	N          uint64 // N of order_book
	Time       int64  // T of the newest change
	At         int64  // publication of the newest change
	Bids, Asks []market.Level
}

// BookAt returns the book of an instrument as it was published at a time, in Unix ns, without the
// first change whose T is later than t and those that follow. It starts from the newest state
// before that time and applies later changes. Errors: ErrNoBook if there was no book or it was
// unknown, and ErrNotKept if the journal does not have rows of that time.
func (a *Archive) BookAt(ctx context.Context, id market.InstrumentID, published, t int64) (BookSnapshot, error) {
	number, ok := a.table.lookup(id)
	if !ok {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, market.ErrUnknownInstrument)
	}
	views := a.allViews()
	last := len(views) - 1
	for last >= 0 && views[last].beginsAfter(published) {
		last--
	}
	if last < 0 {
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
	}
	// If a segment ends, at that time, before its checkpoint reaches the book, it has only changes
	// of the book. The state is in an earlier segment.
	b := bookAt{number: number, until: published, event: t}
	first := last
	for ; ; first-- {
		b.reset()
		if err := b.segment(ctx, a, &views[first]); err != nil {
			return BookSnapshot{}, err
		}
		// If a complete checkpoint has no book, there was none before. An epoch begins without
		// books.
		if b.known || b.lost || b.gap || b.checkpoint || first == 0 || views[first-1].epoch != views[first].epoch {
			break
		}
	}
	for i := first + 1; !b.done; i++ {
		missing := views[i-1].endsEarly()
		if i < len(views) && !missing {
			v := &views[i]
			missing = (v.missing > 0 || len(v.gaps) > 0) && v.beginsAfter(min(published, t))
		}
		switch {
		case missing:
			b.skipRows(views[first:i])
			b.done = true
		case i == len(views):
			b.done = true
		case i <= last:
			b.checkpoint = false
			if err := b.segment(ctx, a, &views[i]); err != nil {
				return BookSnapshot{}, err
			}
		case views[i].sum.rows > 0:
			b.done = true
		}
	}
	// Rows that are being lost follow all others.
	if at, from, _ := a.lost.span(); at > lastPosition(a.views("")) && from <= min(published, t) {
		b.known, b.lost, b.gap = false, false, true
	}
	switch {
	case b.known:
		return b.snapshot(views[first].epoch), nil
	case b.gap && !b.lost, !b.lost && !b.checkpoint && first == 0 && views[0].number > 1:
		return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNotKept)
	}
	return BookSnapshot{}, fmt.Errorf("book of %s: %w", id, ErrNoBook)
}

// beginsAfter reports whether the whole segment is later than a time.
func (v *segmentView) beginsAfter(t int64) bool {
	if v.sum.rows == 0 {
		return len(v.gaps) == 0 || v.gaps[0].At > t
	}
	return v.sum.from > t
}

// segment applies the changes of a segment.
func (b *bookAt) segment(ctx context.Context, a *Archive, v *segmentView) error {
	b.begins, b.done, b.later, b.damage = math.MinInt64, false, false, v.losses()
	if at := min(b.until, b.event); v.beginsAfter(at) {
		b.begins = at + 1
	} else if v.missing > 0 {
		b.known, b.lost, b.gap = false, false, true
	}
	if err := a.walk(ctx, v, func(*record.Span, *record.Span) bool { return !b.done }, b.record); err != nil {
		return err
	}
	b.skipDamage(math.MaxInt64)
	return nil
}

// skipRows processes that rows are missing after segments. If they may be older than the time, the
// book is unknown.
func (b *bookAt) skipRows(before []segmentView) {
	for i := range before {
		if before[i].sum.rows > 0 && before[i].sum.to >= min(b.until, b.event) {
			return
		}
	}
	b.known, b.lost, b.gap = false, false, true
}

// reset forgets the book.
func (b *bookAt) reset() {
	b.known, b.lost, b.gap, b.checkpoint = false, false, false, false
}

// bookAt computes one book from segments.
type bookAt struct {
	number     uint32
	until      int64 // rows that were published later do not count
	event      int64 // nor do rows from the first one on whose T is later
	begins     int64 // greatest At of a message so far
	dec        record.Decoder
	book       market.Book
	last       BookSnapshot
	known      bool     // book is valid
	lost       bool     // the market reported the book as unknown
	gap        bool     // rows were lost before the time
	checkpoint bool     // a complete checkpoint before the time was read
	later      bool     // the checkpoint has a later book
	done       bool     // later rows are after the time
	damage     []Damage // of the segment, in the part that was not read yet
}

// skipDamage processes damage before offset. After damage that may be older than the time, the book
// is unknown until the next state. The damage of later rows ends the search.
func (b *bookAt) skipDamage(offset int64) {
	for len(b.damage) > 0 && b.damage[0].Offset < offset {
		b.damage = b.damage[1:]
		if b.begins <= min(b.until, b.event) {
			b.known, b.lost, b.gap = false, false, true
		} else {
			b.done = true
		}
	}
}

// record processes a record of a segment.
func (b *bookAt) record(c *record.Cursor, rec []byte) (bool, error) {
	kind := Kind(rec[0])
	mine := kind < record.NumKinds && bookKinds.Has(kind) && record.Instrument(rec) == b.number
	var h record.Head
	b.skipDamage(c.At(rec))
	switch {
	case b.done:
		return false, nil
	case kind == record.CheckpointEnd:
		b.checkpoint = b.checkpoint || b.begins <= b.until && !b.later
		return true, nil
	case kind >= record.NumKinds:
		return true, nil
	case !mine && kind != Gap:
		// Until the checkpoint is complete, every row counts for the time that the segment has
		// reached.
		if b.checkpoint || !h.Parse(rec, c.Base) {
			return true, nil
		}
		if h.Flags&record.FlagCheckpoint == 0 {
			b.begins = max(b.begins, h.At)
		}
		return true, nil
	}
	r, err := c.Row(&b.dec, rec)
	if err != nil {
		return false, err
	}
	at, t := r.At, r.Time
	switch {
	case r.Checkpoint: // it describes the state after the rows before it, which other clocks may date
		at, t = max(b.begins, at, t), max(b.begins, t)
	case kind == Gap:
		t = at
		fallthrough
	default:
		b.begins = max(b.begins, at)
	}
	if at > b.until || t > b.event {
		b.done, b.later = !r.Checkpoint && (mine || at <= b.until), r.Checkpoint
		return !b.done, nil
	}
	b.apply(r)
	return true, nil
}

func (b *bookAt) apply(r *Row) {
	switch r.Kind {
	case Gap:
		if r.CheckpointFollows {
			b.known, b.lost = false, false
		}
		b.gap = !b.known
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
	b.last.Position, b.last.N, b.last.Time, b.last.At = r.Position, r.N, r.Time, r.At
}

func (b *bookAt) snapshot(epoch string) BookSnapshot {
	s := b.last
	s.Epoch = epoch
	s.Bids = b.book.Append(nil, market.Buy, 0)
	s.Asks = b.book.Append(nil, market.Sell, 0)
	return s
}
