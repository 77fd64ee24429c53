package decode

import (
	"math/bits"

	"github.com/ruedahq/rueda/market"
)

// Order is an order that rests in a book.
type Order struct {
	ID    uint64
	Price market.Price
	Size  uint32 // above 0, in whole units, as in files
	Side  market.Side
}

// Orders maps ids to the resting orders of one instrument. Feeds identify an order by its id alone,
// and give the change of its size instead of the new size. Orders uses open addressing with linear
// probing; a removal shifts the following entries back. It contains no pointers for the garbage
// collector to follow. The zero Orders is empty and ready to use.
type Orders struct {
	slots []Order // a power of two, at most three quarters used; Size 0 marks an empty slot
	n     int
	shift uint // 64 - log2(len(slots))
}

// Len returns the number of orders.
func (t *Orders) Len() int { return t.n }

// home returns the slot at which the search for an id begins. It uses Fibonacci hashing, which
// spreads runs of consecutive ids.
func (t *Orders) home(id uint64) int {
	return int((id * 0x9E3779B97F4A7C15) >> t.shift)
}

// Find returns the order with an id, or nil. The pointer is valid until the next Add or Remove.
func (t *Orders) Find(id uint64) *Order {
	if t.n == 0 {
		return nil
	}
	mask := len(t.slots) - 1
	for i := t.home(id); ; i = (i + 1) & mask {
		s := &t.slots[i&mask]
		if s.Size == 0 {
			return nil
		}
		if s.ID == id {
			return s
		}
	}
}

// Add adds an order with a size above 0. It returns false if the id exists already.
func (t *Orders) Add(o Order) bool {
	if (t.n+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	i, free := t.slot(o.ID)
	if free {
		t.slots[i] = o
		t.n++
	}
	return free
}

// slot returns the slot of an id, and whether it is free.
func (t *Orders) slot(id uint64) (i int, free bool) {
	mask := len(t.slots) - 1
	for i = t.home(id); ; i = (i + 1) & mask {
		s := &t.slots[i&mask]
		if s.Size == 0 {
			return i, true
		}
		if s.ID == id {
			return i, false
		}
	}
}

func (t *Orders) grow() {
	old := t.slots
	t.slots = make([]Order, max(16, 2*len(old)))
	t.shift = uint(64 - bits.TrailingZeros(uint(len(t.slots))))
	for _, o := range old {
		if o.Size != 0 {
			i, _ := t.slot(o.ID)
			t.slots[i] = o
		}
	}
}

// Remove removes an order, if it exists, and moves back the entries that could no longer be found
// past it.
func (t *Orders) Remove(id uint64) {
	if t.n == 0 {
		return
	}
	i, free := t.slot(id)
	if free {
		return
	}
	mask := len(t.slots) - 1
	t.n--
	for j := i; ; {
		j = (j + 1) & mask
		s := &t.slots[j]
		if s.Size == 0 {
			break
		}
		// s may move to i unless its home lies after i, on the way to j.
		if (j-t.home(s.ID))&mask >= (j-i)&mask {
			t.slots[i] = *s
			i = j
		}
	}
	t.slots[i] = Order{}
}

// Reset empties the table and keeps its memory.
func (t *Orders) Reset() {
	if t.n > 0 {
		clear(t.slots)
		t.n = 0
	}
}

// MaxOrders is the maximum number of orders that a decoder holds at a time, for all instruments
// together. It is several times what the largest exchanges have, and takes 0.8 GB of memory.
const MaxOrders = 1 << 24
