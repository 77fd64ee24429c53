package sim

import (
	"github.com/ruedahq/rueda/market"
)

// cross is what an auction would come to, or came to.
type cross struct {
	price  int64
	volume int64 // 0: no two orders meet
	bids   int64 // all that buyers take at the price
	asks   int64 // all that sellers give
}

// cross finds the auction's price: the one at which most is exchanged; of several, that which
// leaves the least over; of several, the nearest to a reference, and the lower of two.
func (m *matcher) cross(reference int64) (c cross) {
	bid, hasBid := m.best(market.Buy)
	ask, hasAsk := m.best(market.Sell)
	if !hasBid || !hasAsk || bid < ask {
		return cross{}
	}
	w := walk{bids: m.sides[0], asks: m.sides[1]}
	w.i, w.j = len(w.bids), len(w.asks)
	for w.i > 0 && w.bids[w.i-1].key >= ask {
		w.i--
		w.now.bids += w.bids[w.i].size
	}
	// From the lowest price that a seller takes to the highest that a buyer gives. Something
	// changes at the prices of orders alone, and just above those of buyers.
	for price := ask; price <= bid; {
		c = w.at(price, reference, c)
		next := w.next(bid + 1)
		if next > price+1 && price < bid {
			c = w.at(min(max(reference, price+1), next-1), reference, c)
		}
		price = next
	}
	return c
}

// walk goes up the prices of an auction: demand falls and supply rises.
type walk struct {
	bids, asks []queue // by rising key: the best at the end
	i, j       int     // bids[i:] and asks[j:] take part at the price
	now        cross
}

// at goes up to a price, and is it or best, whichever is better.
func (w *walk) at(price, reference int64, best cross) cross {
	for w.j > 0 && -w.asks[w.j-1].key <= price {
		w.j--
		w.now.asks += w.asks[w.j].size
	}
	for w.i < len(w.bids) && w.bids[w.i].key < price {
		w.now.bids -= w.bids[w.i].size
		w.i++
	}
	w.now.price, w.now.volume = price, min(w.now.bids, w.now.asks)
	if w.now.better(&best, reference) {
		return w.now
	}
	return best
}

// next is the first price of an order above where the walk is, at most an end.
func (w *walk) next(end int64) int64 {
	i := w.i
	if i < len(w.bids) && w.bids[i].key == w.now.price {
		i++
	}
	if i < len(w.bids) {
		end = min(end, w.bids[i].key)
	}
	if w.j > 0 {
		end = min(end, -w.asks[w.j-1].key)
	}
	return end
}

func (c *cross) better(than *cross, reference int64) bool {
	if c.volume != than.volume {
		return c.volume > than.volume
	}
	if a, b := magnitude(c.bids-c.asks), magnitude(than.bids-than.asks); a != b {
		return a < b
	}
	return magnitude(c.price-reference) < magnitude(than.price-reference)
}

func magnitude(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// uncross executes the auction at a price: the best orders of both sides, the oldest first at
// each price.
func (m *matcher) uncross(price int64) {
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	m.calling = false
	bids, asks := &m.sides[0], &m.sides[1]
	nb, na := len(*bids), len(*asks) // how many queues of each side were there
	firstBid, firstAsk := nb, na     // queues from there on were touched
	for nb > 0 && na > 0 {
		b, a := &(*bids)[nb-1], &(*asks)[na-1]
		if b.key < price || -a.key > price {
			break
		}
		firstBid, firstAsk = min(firstBid, nb-1), min(firstAsk, na-1)
		n := min(m.orders[b.head].size, m.orders[a.head].size)
		m.fills = append(m.fills, fill{price: price, size: n})
		if m.execute(b, n) {
			nb--
		}
		if m.execute(a, n) {
			na--
		}
	}
	for i := len(*bids) - 1; i >= firstBid; i-- {
		m.touch(market.Buy, &(*bids)[i])
	}
	for i := len(*asks) - 1; i >= firstAsk; i-- {
		m.touch(market.Sell, &(*asks)[i])
	}
	*bids, *asks = (*bids)[:nb], (*asks)[:na]
}

// execute takes some of a queue's oldest order; it is true where the queue is empty then.
func (m *matcher) execute(q *queue, n int64) bool {
	o := &m.orders[q.head]
	o.size -= n
	q.size -= n
	if o.size == 0 {
		id := q.head
		m.unlink(q, id)
		m.release(id)
	}
	return q.orders == 0
}

// clear empties the book, as when orders end with their day.
func (m *matcher) clear() {
	m.sides[0], m.sides[1] = m.sides[0][:0], m.sides[1][:0]
	m.orders, m.free = m.orders[:1], 0
	m.crowd = m.crowd[:0]
	m.maker = [2 * maxMakerLevels]int32{}
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	m.calling = false
}
