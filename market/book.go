package market

// Book is an aggregated order book. Each side is one sorted slice with its best
// level at the end, so that the levels that change most are moved least.
// The zero Book is empty and ready. It is not safe for concurrent use.
type Book struct {
	bids []Level // rising price
	asks []Level // falling price
}

// Set puts a level: an absolute size at a price, 0 to delete it. It returns what
// stood there before (Size 0: nothing) and whether the book changed. Side is Buy
// or Sell and the size not negative: whoever takes events in has seen to it.
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

// adjust changes the size and the number of orders of a level, which is made or
// deleted as needed, and returns it as it then is (Size 0: deleted). Where the
// size would not fit it changes nothing and ok is false.
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

// Merge puts many levels of a side at once, in one pass over it, where Set would
// move the side for each. levels are worst first, each price once. changed is
// called for each level that changed, with what stood there before.
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

// find is the index of price, or where it belongs. Most changes are near the
// best level, so the last few are scanned before the rest is halved.
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

// Reset empties the book and keeps its memory.
func (b *Book) Reset() {
	b.bids, b.asks = b.bids[:0], b.asks[:0]
}

// Len is the number of levels of a side.
func (b *Book) Len(side Side) int {
	if side == Sell {
		return len(b.asks)
	}
	return len(b.bids)
}

// At is the i-th best level of a side, 0 the best; i must be under Len.
func (b *Book) At(side Side, i int) Level {
	if side == Sell {
		return b.asks[len(b.asks)-1-i]
	}
	return b.bids[len(b.bids)-1-i]
}

// Best is the best level of a side; ok is false where the side is empty.
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

// Find is the level at a price; ok is false where there is none.
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

// Append appends the best n levels of a side to dst, best first; n <= 0 means all.
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

// Crossed says whether the best bid is at or above the best ask: a locked book
// counts as crossed.
func (b *Book) Crossed() bool {
	return len(b.bids) > 0 && len(b.asks) > 0 &&
		b.bids[len(b.bids)-1].Price >= b.asks[len(b.asks)-1].Price
}
