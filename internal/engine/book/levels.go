package book

import (
	"cmp"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// Levels holds levels of both sides, best first. In a change, size 0 deletes the level.
type Levels struct {
	Bids, Asks []market.Level
}

// Read sets l to the n best levels of a book, or to all levels if n is 0.
func (l *Levels) Read(b *Book, n int) {
	m := b.Levels()
	l.Bids = m.Append(l.Bids[:0], market.Buy, n)
	l.Asks = m.Append(l.Asks[:0], market.Sell, n)
}

// Copy sets l to a copy of other.
func (l *Levels) Copy(other *Levels) {
	l.Bids = append(l.Bids[:0], other.Bids...)
	l.Asks = append(l.Asks[:0], other.Asks...)
}

// Split sets l to the new levels of compact changes.
func (l *Levels) Split(changes []Change) {
	bids, asks := l.Bids[:0], l.Asks[:0]
	for _, c := range changes {
		if c.Side == market.Sell {
			asks = append(asks, c.Now)
		} else {
			bids = append(bids, c.Now)
		}
	}
	l.Bids, l.Asks = bids, asks
}

// Diff sets l to the changes that turn the levels was into the levels now.
func (l *Levels) Diff(was, now *Levels) {
	l.Bids = diff(l.Bids[:0], was.Bids, now.Bids, market.Buy)
	l.Asks = diff(l.Asks[:0], was.Asks, now.Asks, market.Sell)
}

// Empty reports whether l has no levels.
func (l *Levels) Empty() bool { return len(l.Bids) == 0 && len(l.Asks) == 0 }

func (l *Levels) add(side market.Side, x market.Level) {
	if side == market.Sell {
		l.Asks = append(l.Asks, x)
	} else {
		l.Bids = append(l.Bids, x)
	}
}

func (l *Levels) sort() {
	slices.SortFunc(l.Bids, func(a, b market.Level) int { return cmp.Compare(b.Price, a.Price) })
	slices.SortFunc(l.Asks, func(a, b market.Level) int { return cmp.Compare(a.Price, b.Price) })
}

// diff appends the changes that turn the levels was into the levels now, both best first: changed
// sizes, new levels, and deletions.
func diff(dst, was, now []market.Level, side market.Side) []market.Level {
	better := func(a, b market.Price) bool {
		if side == market.Sell {
			return a < b
		}
		return a > b
	}
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case j == len(now) || i < len(was) && better(was[i].Price, now[j].Price):
			dst = append(dst, market.Level{Price: was[i].Price})
			i++
		case i == len(was) || better(now[j].Price, was[i].Price):
			dst = append(dst, now[j])
			j++
		default:
			if was[i] != now[j] {
				dst = append(dst, now[j])
			}
			i++
			j++
		}
	}
	return dst
}
