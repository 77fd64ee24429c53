package sim

import "github.com/ruedahq/rueda/market"

// matcher is the order book of one instrument with price-time priority: an order matches the best
// price first and, at a price, the oldest order first. Prices are numbers of the grid, sizes are
// lots. Orders are linked inside one slice, so that nothing is allocated in the steady state.
type matcher struct {
	sides  [2][]queue // bids, asks; each by rising key, the best at the end
	orders []order    // orders[0] is not used: 0 means no order
	free   int32      // first of the unused orders, linked by next
	crowd  []int32    // all orders except the market maker's, in no order
	maker  [2 * maxMakerLevels]int32

	// inCall is set while orders rest without matching, before an auction.
	inCall bool

	// Results of the last submit or cancel, overwritten by the next.
	fills   []fill
	touched []touch
}

// maxMakerLevels is the maximum number of levels per side that the market maker quotes.
const maxMakerLevels = 8

// queue is a price level with its orders linked from the oldest to the newest. The key is the price
// on the bid side and the negative price on the ask side, so that a larger key is better on both.
type queue struct {
	key        int64
	size       int64
	head, tail int32
	orders     uint32
}

type order struct {
	key        int64
	size       int64
	prev, next int32
	index      int32 // index in crowd, or ^slot of the market maker
	side       market.Side
}

// fill is an execution, at the price of the resting order.
type fill struct {
	price int64
	size  int64
}

// touch is the new state of a level that changed; size 0: removed.
type touch struct {
	side   market.Side
	price  int64
	size   int64
	orders uint32
}

// crowdOrder is passed instead of a slot if the order is not the market maker's.
const crowdOrder = -1

func newMatcher() matcher {
	return matcher{orders: make([]order, 1)}
}

// key converts a price of a side to a key, and a key to a price.
func key(side market.Side, price int64) int64 {
	if side == market.Sell {
		return -price
	}
	return price
}

func (m *matcher) side(side market.Side) *[]queue {
	return &m.sides[side-market.Buy]
}

func opposite(side market.Side) market.Side {
	return market.Buy + market.Sell - side
}

// best returns the best price of a side.
func (m *matcher) best(side market.Side) (price int64, ok bool) {
	q := *m.side(side)
	if len(q) == 0 {
		return 0, false
	}
	return key(side, q[len(q)-1].key), true
}

// submit matches an order against the other side up to its limit. The remainder rests in the book
// if rest is set, and is dropped otherwise. slot is the market maker's slot, or crowdOrder.
func (m *matcher) submit(side market.Side, limit, size int64, rest bool, slot int) {
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	other := opposite(side)
	queues := m.side(other)
	own := key(side, limit)
	for size > 0 && len(*queues) > 0 && !m.inCall {
		q := &(*queues)[len(*queues)-1]
		if q.key < -own {
			break // beyond the limit
		}
		size = m.match(q, other, size)
		m.touch(other, q)
		if q.orders == 0 {
			*queues = (*queues)[:len(*queues)-1]
		}
	}
	if size > 0 && rest {
		m.insert(side, own, size, slot)
	}
}

// match fills orders of a queue, oldest first, and returns the remaining size.
func (m *matcher) match(q *queue, side market.Side, size int64) int64 {
	for size > 0 && q.head != 0 {
		o := &m.orders[q.head]
		n := min(size, o.size)
		size -= n
		o.size -= n
		q.size -= n
		m.fills = append(m.fills, fill{price: key(side, q.key), size: n})
		if o.size == 0 {
			id := q.head
			m.unlink(q, id)
			m.release(id)
		}
	}
	return size
}

// cancel removes an order from the book.
func (m *matcher) cancel(id int32) {
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	o := &m.orders[id]
	queues := m.side(o.side)
	i := find(*queues, o.key)
	q := &(*queues)[i]
	q.size -= o.size
	m.unlink(q, id)
	m.touch(o.side, q)
	if q.orders == 0 {
		s := *queues
		copy(s[i:], s[i+1:])
		*queues = s[:len(s)-1]
	}
	m.release(id)
}

func (m *matcher) touch(side market.Side, q *queue) {
	m.touched = append(m.touched, touch{side: side, price: key(side, q.key), size: q.size, orders: q.orders})
}

// insert adds an order at the end of its queue and creates the queue if needed.
func (m *matcher) insert(side market.Side, k, size int64, slot int) {
	queues := m.side(side)
	i := find(*queues, k)
	if i == len(*queues) || (*queues)[i].key != k {
		s := append(*queues, queue{})
		copy(s[i+1:], s[i:])
		s[i] = queue{key: k}
		*queues = s
	}
	id := m.free
	if id != 0 {
		m.free = m.orders[id].next
	} else {
		id = int32(len(m.orders))
		m.orders = append(m.orders, order{})
	}
	q := &(*queues)[i]
	m.orders[id] = order{key: k, size: size, prev: q.tail, index: ^int32(slot), side: side}
	if slot == crowdOrder {
		m.orders[id].index = int32(len(m.crowd))
		m.crowd = append(m.crowd, id)
	} else {
		m.maker[slot] = id
	}
	if q.tail == 0 {
		q.head = id
	} else {
		m.orders[q.tail].next = id
	}
	q.tail = id
	q.size += size
	q.orders++
	m.touch(side, q)
}

// unlink removes an order from its queue's list.
func (m *matcher) unlink(q *queue, id int32) {
	o := &m.orders[id]
	if o.prev == 0 {
		q.head = o.next
	} else {
		m.orders[o.prev].next = o.next
	}
	if o.next == 0 {
		q.tail = o.prev
	} else {
		m.orders[o.next].prev = o.prev
	}
	q.orders--
}

// release frees an order and removes it from the crowd or the market maker's slots.
func (m *matcher) release(id int32) {
	o := &m.orders[id]
	if o.index < 0 {
		m.maker[^o.index] = 0
	} else {
		last := m.crowd[len(m.crowd)-1]
		m.crowd[o.index] = last
		m.orders[last].index = o.index
		m.crowd = m.crowd[:len(m.crowd)-1]
	}
	*o = order{next: m.free}
	m.free = id
}

// find returns the index of a key, or the index at which to insert it. Most keys are near the best
// price.
func find(s []queue, k int64) int {
	i := len(s)
	for n := 0; i > 0 && s[i-1].key >= k; n++ {
		if n == 8 {
			lo, hi := 0, i
			for lo < hi {
				if mid := int(uint(lo+hi) >> 1); s[mid].key < k {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			return lo
		}
		i--
	}
	return i
}
