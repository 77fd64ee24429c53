package market

// Book is an aggregated order book. Each side is a sorted slice with the best level at the end, so
// that a change near the best price moves few levels. The zero Book is empty and ready to use. A
// Book is not safe for concurrent use.
type Book struct {
	bids []Level // rising price
	asks []Level // falling price
}

// Set stores the total size at a price; size 0 deletes the level. It returns the previous level
// (Size 0 if there was none) and reports whether the book changed. The caller must pass Buy or Sell
// and a size that is not negative.
func (b *Book) Set(side Side, l Level) (old Level, changed bool) {
	levels := &b.bids
	if side == Sell {
		levels = &b.asks
	}
	s := *levels
	i := find(s, side, l.Price)
	if i < len(s) && s[i].Price == l.Price {
		old = s[i]
		if l.Size == 0 {
			copy(s[i:], s[i+1:])
			*levels = s[:len(s)-1]
			return old, true
		}
		s[i] = l
		return old, old != l
	}
	if l.Size == 0 {
		return Level{Price: l.Price}, false
	}
	s = append(s, Level{})
	copy(s[i+1:], s[i:])
	s[i] = l
	*levels = s
	return Level{Price: l.Price}, true
}

// adjust changes the size and the number of orders of a level by the given amounts. It creates or
// deletes the level as needed and returns its new state (Size 0 if deleted). If the new size would
// overflow, it changes nothing and ok is false.
func (b *Book) adjust(side Side, price Price, size Size, orders int32) (l Level, ok bool) {
	levels := &b.bids
	if side == Sell {
		levels = &b.asks
	}
	s := *levels
	i := find(s, side, price)
	if i < len(s) && s[i].Price == price {
		if size > maxSize-s[i].Size {
			return Level{}, false
		}
		s[i].Size += size
		s[i].Orders = uint32(int32(s[i].Orders) + orders)
		if s[i].Size > 0 {
			return s[i], true
		}
		copy(s[i:], s[i+1:])
		*levels = s[:len(s)-1]
		return Level{Price: price}, true
	}
	l = Level{Price: price, Size: size, Orders: uint32(orders)}
	s = append(s, Level{})
	copy(s[i+1:], s[i:])
	s[i] = l
	*levels = s
	return l, true
}

const maxSize = Size(1<<63 - 1)

// Merge stores many levels of a side in one pass, where repeated calls of Set would move the slice
// for each level. The levels must be sorted worst first, each price once. Merge calls changed for
// each level that changed, with its previous and its new state.
func (b *Book) Merge(side Side, levels []Level, changed func(was, now Level)) {
	s := &b.bids
	if side == Sell {
		s = &b.asks
	}
	worse := func(x, y Price) bool { return side == Sell && x > y || side != Sell && x < y }
	old := *s
	merged := make([]Level, 0, len(old)+len(levels))
	for _, l := range levels {
		for len(old) > 0 && worse(old[0].Price, l.Price) {
			merged, old = append(merged, old[0]), old[1:]
		}
		was := Level{Price: l.Price}
		if len(old) > 0 && old[0].Price == l.Price {
			was, old = old[0], old[1:]
		}
		if l.Size > 0 {
			merged = append(merged, l)
		}
		if was != l && (was.Size > 0 || l.Size > 0) {
			changed(was, l)
		}
	}
	*s = append(merged, old...)
}

// find returns the index of price, or the index at which to insert it. It scans the last few levels
// first, because most changes are near the best price, and then uses binary search.
func find(s []Level, side Side, price Price) int {
	const scan = 8
	n := len(s)
	i := n
	if side == Sell {
		for ; i > 0 && n-i < scan; i-- {
			if s[i-1].Price >= price {
				if s[i-1].Price == price {
					return i - 1
				}
				return i
			}
		}
		lo, hi := 0, i
		for lo < hi {
			m := int(uint(lo+hi) >> 1)
			if s[m].Price > price {
				lo = m + 1
			} else {
				hi = m
			}
		}
		return lo
	}
	for ; i > 0 && n-i < scan; i-- {
		if s[i-1].Price <= price {
			if s[i-1].Price == price {
				return i - 1
			}
			return i
		}
	}
	lo, hi := 0, i
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if s[m].Price < price {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// Reset empties the book and keeps its memory for reuse.
func (b *Book) Reset() {
	b.bids, b.asks = b.bids[:0], b.asks[:0]
}

// Len returns the number of levels of a side.
func (b *Book) Len(side Side) int {
	if side == Sell {
		return len(b.asks)
	}
	return len(b.bids)
}

// At returns the i-th best level of a side; 0 is the best. i must be less than Len.
func (b *Book) At(side Side, i int) Level {
	if side == Sell {
		return b.asks[len(b.asks)-1-i]
	}
	return b.bids[len(b.bids)-1-i]
}

// Best returns the best level of a side. ok is false if the side is empty.
func (b *Book) Best(side Side) (l Level, ok bool) {
	s := b.bids
	if side == Sell {
		s = b.asks
	}
	if len(s) == 0 {
		return Level{}, false
	}
	return s[len(s)-1], true
}

// Find returns the level at a price. ok is false if there is none.
func (b *Book) Find(side Side, price Price) (l Level, ok bool) {
	s := b.bids
	if side == Sell {
		s = b.asks
	}
	i := find(s, side, price)
	if i < len(s) && s[i].Price == price {
		return s[i], true
	}
	return Level{}, false
}

// Append appends the best n levels of a side to dst, best first. If n <= 0 it appends all levels.
func (b *Book) Append(dst []Level, side Side, n int) []Level {
	s := b.bids
	if side == Sell {
		s = b.asks
	}
	if n <= 0 || n > len(s) {
		n = len(s)
	}
	for i := len(s) - 1; i >= len(s)-n; i-- {
		dst = append(dst, s[i])
	}
	return dst
}

// Crossed reports whether the best bid is at or above the best ask. A locked book (equal prices)
// counts as crossed.
func (b *Book) Crossed() bool {
	return len(b.bids) > 0 && len(b.asks) > 0 &&
		b.bids[len(b.bids)-1].Price >= b.asks[len(b.asks)-1].Price
}
