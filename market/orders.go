package market

import (
	"errors"
	"math/bits"
)

// Errors returned by OrderBook. An OrderBook that returns an error is unchanged.
var (
	ErrUnknownOrder   = errors.New("unknown order")
	ErrDuplicateOrder = errors.New("order id exists already")
	ErrBadOrder       = errors.New("order without a side or with a size that is not above 0")
	ErrOverfill       = errors.New("fill larger than the rest of the order")
)

// OrderBook is a book that is maintained order by order, on top of an aggregated Book. The zero
// OrderBook is empty and ready to use. An OrderBook is not safe for concurrent use.
//
// Order ids are arbitrary numbers, including 0. OrderBook checks that the total of a level fits a
// Size, but not that it is Exact.
type OrderBook struct {
	book   Book
	orders orderTable
}

// Book returns the aggregated book. The caller may read it, and it changes with the orders.
func (b *OrderBook) Book() *Book { return &b.book }

// Len returns the number of orders.
func (b *OrderBook) Len() int { return b.orders.n }

// Order returns the state of an order. ok is false if the id is unknown.
func (b *OrderBook) Order(id uint64) (side Side, price Price, size Size, ok bool) {
	i, ok := b.orders.find(id)
	if !ok {
		return NoSide, 0, 0, false
	}
	side, size = b.orders.slots[i].remaining()
	return side, b.orders.slots[i].price, size, true
}

// Reset empties the book and keeps its memory for reuse.
func (b *OrderBook) Reset() {
	b.book.Reset()
	b.orders.reset()
}

// Add adds an order and returns its level. It returns ErrBadOrder, ErrDuplicateOrder, or ErrRange
// if the total of the level would overflow.
func (b *OrderBook) Add(id uint64, side Side, price Price, size Size) (Level, error) {
	if (side != Buy && side != Sell) || size <= 0 {
		return Level{}, ErrBadOrder
	}
	i, found := b.orders.find(id)
	if found {
		return Level{}, ErrDuplicateOrder
	}
	l, ok := b.book.adjust(side, price, size, +1)
	if !ok {
		return Level{}, ErrRange
	}
	b.orders.insert(i, newOrderSlot(id, side, price, size))
	return l, nil
}

// Replace gives an order another id, price and size; the id may be the same. It returns what Modify
// returns, or ErrDuplicateOrder.
func (b *OrderBook) Replace(id, newID uint64, price Price, size Size) (side Side, from, to Level, err error) {
	if newID != id {
		if _, found := b.orders.find(newID); found {
			return NoSide, Level{}, Level{}, ErrDuplicateOrder
		}
	}
	if side, from, to, err = b.Modify(id, price, size); err != nil || newID == id {
		return side, from, to, err
	}
	i, _ := b.orders.find(id)
	b.orders.remove(i)
	i, _ = b.orders.find(newID)
	b.orders.insert(i, newOrderSlot(newID, side, price, size))
	return side, from, to, nil
}

// Modify changes the price and the size of an order. It returns the order's side and the levels
// before and after the change, which are the same level if the price did not change. It returns
// ErrBadOrder, ErrUnknownOrder or ErrRange.
func (b *OrderBook) Modify(id uint64, price Price, size Size) (side Side, from, to Level, err error) {
	if size <= 0 {
		return NoSide, Level{}, Level{}, ErrBadOrder
	}
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, Level{}, ErrUnknownOrder
	}
	slot := &b.orders.slots[i]
	side, old := slot.remaining()
	oldPrice, ok := slot.price, false
	if price == oldPrice {
		to, ok = b.book.adjust(side, price, size-old, 0)
		from = to
	} else if to, ok = b.book.adjust(side, price, size, +1); ok {
		from, _ = b.book.adjust(side, oldPrice, -old, -1)
	}
	if !ok {
		return NoSide, Level{}, Level{}, ErrRange
	}
	*slot = newOrderSlot(id, side, price, size)
	return side, from, to, nil
}

// Delete removes an order and returns its side and the level it left. It returns ErrUnknownOrder.
func (b *OrderBook) Delete(id uint64) (Side, Level, error) {
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, ErrUnknownOrder
	}
	side, size := b.orders.slots[i].remaining()
	price := b.orders.slots[i].price
	b.orders.remove(i)
	l, _ := b.book.adjust(side, price, -size, -1)
	return side, l, nil
}

// Fill reduces an order by an executed size, removes it if nothing remains, and returns its side
// and level. It returns ErrBadOrder, ErrUnknownOrder or ErrOverfill.
func (b *OrderBook) Fill(id uint64, size Size) (Side, Level, error) {
	if size <= 0 {
		return NoSide, Level{}, ErrBadOrder
	}
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, ErrUnknownOrder
	}
	slot := &b.orders.slots[i]
	side, left := slot.remaining()
	price, gone := slot.price, int32(0)
	switch {
	case size > left:
		return NoSide, Level{}, ErrOverfill
	case size == left:
		b.orders.remove(i)
		gone = 1
	default:
		*slot = newOrderSlot(id, side, price, left-size)
	}
	l, _ := b.book.adjust(side, price, -size, -gone)
	return side, l, nil
}

// orderTable maps ids to orders by open addressing with linear probing. A removal shifts the
// following entries back, so that tombstones do not accumulate over a day of adds and deletes. The
// table contains no pointers for the garbage collector to follow.
type orderTable struct {
	slots []orderSlot // a power of two; at most three quarters used
	n     int
	shift uint // 64 - log2(len(slots))
}

// orderSlot holds one order. The sign of signed is the side (positive is buy); 0 marks an empty
// slot.
type orderSlot struct {
	id     uint64
	price  Price
	signed Size
}

func newOrderSlot(id uint64, side Side, price Price, size Size) orderSlot {
	if side == Sell {
		size = -size
	}
	return orderSlot{id: id, price: price, signed: size}
}

// remaining returns the side and the remaining size of the order.
func (s *orderSlot) remaining() (Side, Size) {
	if s.signed < 0 {
		return Sell, -s.signed
	}
	return Buy, s.signed
}

// home returns the slot at which the search for an id begins. It uses Fibonacci hashing, which
// spreads the runs of consecutive ids that exchanges assign.
func (t *orderTable) home(id uint64) int {
	return int((id * 0x9E3779B97F4A7C15) >> t.shift)
}

// find returns the slot of an id, or the slot at which to insert it.
func (t *orderTable) find(id uint64) (i int, found bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := len(t.slots) - 1
	for i = t.home(id); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.signed == 0 {
			return i, false
		}
		if s.id == id {
			return i, true
		}
	}
}

// insert stores an order at the slot that find returned.
func (t *orderTable) insert(i int, s orderSlot) {
	if (t.n+1)*4 > len(t.slots)*3 {
		t.grow()
		i, _ = t.find(s.id)
	}
	t.slots[i] = s
	t.n++
}

func (t *orderTable) grow() {
	old := t.slots
	size := max(16, 2*len(old))
	t.slots = make([]orderSlot, size)
	t.shift = uint(64 - bits.TrailingZeros(uint(size)))
	for _, s := range old {
		if s.signed != 0 {
			i, _ := t.find(s.id)
			t.slots[i] = s
		}
	}
}

// remove empties a slot and moves back the entries that could no longer be found past it.
func (t *orderTable) remove(i int) {
	mask := len(t.slots) - 1
	t.n--
	for j := i; ; {
		j = (j + 1) & mask
		s := &t.slots[j]
		if s.signed == 0 {
			break
		}
		// s may move to i unless its home lies after i, on the way to j.
		if (j-t.home(s.id))&mask >= (j-i)&mask {
			t.slots[i] = *s
			i = j
		}
	}
	t.slots[i] = orderSlot{}
}

func (t *orderTable) reset() {
	clear(t.slots)
	t.n = 0
}
