package market

import (
	"errors"
	"math/bits"
)

// Errors of OrderBook. The book is unchanged where one is returned.
var (
	ErrUnknownOrder   = errors.New("unknown order")
	ErrDuplicateOrder = errors.New("order id is in the book already")
	ErrBadOrder       = errors.New("order without a side or with a size that is not above 0")
	ErrOverfill       = errors.New("fill larger than what is left of the order")
)

// OrderBook is a book kept order by order: what each order adds, changes or
// takes away goes into the level it stands in. The zero OrderBook is empty and
// ready. It is not safe for concurrent use.
//
// Order ids are any numbers, 0 too. A level's total is checked to fit a Size, not
// to be Exact: whoever writes it out has that to see to.
type OrderBook struct {
	book   Book
	orders orderTable
}

// Book is the aggregated book. It is for reading, and changes with the orders.
func (b *OrderBook) Book() *Book { return &b.book }

// Len is the number of orders.
func (b *OrderBook) Len() int { return b.orders.n }

// Order is the state of an order; ok is false where there is none of that id.
func (b *OrderBook) Order(id uint64) (side Side, price Price, size Size, ok bool) {
	i, ok := b.orders.find(id)
	if !ok {
		return NoSide, 0, 0, false
	}
	side, size = b.orders.slots[i].rest()
	return side, b.orders.slots[i].price, size, true
}

// Reset empties the book and keeps its memory.
func (b *OrderBook) Reset() {
	b.book.Reset()
	b.orders.reset()
}

// Add puts a new order and returns its level. Errors: ErrBadOrder,
// ErrDuplicateOrder, ErrRange where the level's total would not fit.
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

// Modify gives an order another price and size. It returns the order's side, the
// level it left and the level it is in now, which are the same level where the
// price did not change. Errors: ErrBadOrder, ErrUnknownOrder, ErrRange.
func (b *OrderBook) Modify(id uint64, price Price, size Size) (side Side, from, to Level, err error) {
	if size <= 0 {
		return NoSide, Level{}, Level{}, ErrBadOrder
	}
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, Level{}, ErrUnknownOrder
	}
	slot := &b.orders.slots[i]
	side, old := slot.rest()
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

// Delete takes an order out and returns its side and the level it left.
// The error is ErrUnknownOrder.
func (b *OrderBook) Delete(id uint64) (Side, Level, error) {
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, ErrUnknownOrder
	}
	side, size := b.orders.slots[i].rest()
	price := b.orders.slots[i].price
	b.orders.remove(i)
	l, _ := b.book.adjust(side, price, -size, -1)
	return side, l, nil
}

// Fill takes an executed size off an order, which leaves the book when nothing
// is left of it, and returns its side and level. Errors: ErrBadOrder,
// ErrUnknownOrder, ErrOverfill.
func (b *OrderBook) Fill(id uint64, size Size) (Side, Level, error) {
	if size <= 0 {
		return NoSide, Level{}, ErrBadOrder
	}
	i, found := b.orders.find(id)
	if !found {
		return NoSide, Level{}, ErrUnknownOrder
	}
	slot := &b.orders.slots[i]
	side, left := slot.rest()
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

// orderTable finds orders by id: open addressing with linear probing. A removal
// shifts the cluster behind it back, so that no tombstones gather over a day of
// adds and deletes. There is no pointer in it for the collector to follow.
type orderTable struct {
	slots []orderSlot // a power of two; at most three quarters used
	n     int
	shift uint // 64 - log2(len(slots))
}

// orderSlot is one order. Its side is the sign of signed, buy above 0; an
// empty slot has 0 there.
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

// rest is the side and what is left of the order.
func (s *orderSlot) rest() (Side, Size) {
	if s.signed < 0 {
		return Sell, -s.signed
	}
	return Buy, s.signed
}

// home is where the search for an id begins: Fibonacci hashing, which spreads
// the runs of neighbouring ids that exchanges give out.
func (t *orderTable) home(id uint64) int {
	return int((id * 0x9E3779B97F4A7C15) >> t.shift)
}

// find is the slot of an id, or the slot where insert may put it.
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

// insert puts an order where find said that it belongs.
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

// remove empties a slot and moves back those behind it that would be cut off
// from their home.
func (t *orderTable) remove(i int) {
	mask := len(t.slots) - 1
	t.n--
	for j := i; ; {
		j = (j + 1) & mask
		s := &t.slots[j]
		if s.signed == 0 {
			break
		}
		// s may move to i unless its home lies behind i, on the way to j.
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
