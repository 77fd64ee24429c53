package sim

import (
	"github.com/ruedahq/rueda/market"
)

// cross is the result of an auction, or what the result would be.
type cross struct {
	price  int64
	volume int64 // 0: no orders match
	bids   int64 // total that buyers take at the price
	asks   int64 // total that sellers offer
}

// cross finds the price of an auction: the one with the largest volume; among equals the one with
// the smallest imbalance; among equals the one closest to a reference, and the lower of two.
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
	// Visit the prices from the best ask to the best bid. The result changes only at the prices of
	// orders, and just above those of buyers.
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

// walk visits the prices of an auction upwards: demand falls and supply rises.
type walk struct {
	bids, asks []queue // by rising key: the best at the end
	i, j       int     // bids[i:] and asks[j:] participate at the price
	now        cross
}

// at moves up to a price and returns the better of best and the result at that price.
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

// next returns the price of the next order above the current one, at most end.
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

// uncross executes the auction at a price: the best orders of both sides first, and at each price
// the oldest first.
func (m *matcher) uncross(price int64) {
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	m.inCall = false
	bids, asks := &m.sides[0], &m.sides[1]
	nb, na := len(*bids), len(*asks) // remaining queues of each side
	firstBid, firstAsk := nb, na     // first queue of each side that was touched
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

// execute fills part of a queue's oldest order. It returns true if the queue is then empty.
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

// clear empties the book, for example at the end of the day.
func (m *matcher) clear() {
	m.sides[0], m.sides[1] = m.sides[0][:0], m.sides[1][:0]
	m.orders, m.free = m.orders[:1], 0
	m.crowd = m.crowd[:0]
	m.maker = [2 * maxMakerLevels]int32{}
	m.fills, m.touched = m.fills[:0], m.touched[:0]
	m.inCall = false
}
