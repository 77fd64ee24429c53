package decode

import (
	"math/bits"

	"github.com/ruedahq/rueda/market"
)

// Order is an order that rests in a book.
type Order struct {
	ID    uint64
	Price market.Price
	Size  uint32 // above 0, in whole units, as files have it
	Side  market.Side
}

// Orders finds the resting orders of one instrument by their ids: feeds tell of a
// change by the id alone, and by how much instead of to what. It is open addressing
// with linear probing, where a removal shifts the cluster behind it back. There is no
// pointer in it for the collector to follow. The zero Orders is empty and ready.
type Orders struct {
	slots []Order // a power of two, at most three quarters used; Size 0 is an empty slot
	n     int
	shift uint // 64 - log2(len(slots))
}

// Len is the number of orders.
func (t *Orders) Len() int { return t.n }

// home is where the search for an id begins: Fibonacci hashing, which spreads runs of
// neighbouring ids.
func (t *Orders) home(id uint64) int {
	return int((id * 0x9E3779B97F4A7C15) >> t.shift)
}

// Find is the order of an id, nil where there is none. It is valid until the next
// Add or Remove.
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

// Add puts an order with a size above 0. It is false where the id is there already.
func (t *Orders) Add(o Order) bool {
	if (t.n+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	i, free := t.place(o.ID)
	if free {
		t.slots[i] = o
		t.n++
	}
	return free
}

// place is where an id belongs, and whether nothing is there.
func (t *Orders) place(id uint64) (i int, free bool) {
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
			i, _ := t.place(o.ID)
			t.slots[i] = o
		}
	}
}

// Remove takes out an order, if it is there, and moves back those behind it that would
// be cut off from their home.
func (t *Orders) Remove(id uint64) {
	if t.n == 0 {
		return
	}
	i, free := t.place(id)
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
		// s may move to i unless its home lies behind i, on the way to j.
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

// MaxOrders is how many orders a decoder holds at a time, of all instruments
// together: several times what the largest exchanges have, and 0.8 GB of memory.
const MaxOrders = 1 << 24
