package bars

import "github.com/ruedahq/rueda/market"

// Trade is a trade as it is stored to compute bars again. It has no pointers, so the garbage
// collector skips it.
type Trade struct {
	N     uint64
	ID    uint64 // hash of the market's trade id; 0: none
	At    int64  // event time
	Price market.Price
	Size  market.Size // current size; cancelled or void if it does not count
}

// TradeBytes is the memory of a Trade and its index entry, for budgets.
const TradeBytes = 40 + 8

// Sizes of cancelled trades. A void trade was cancelled before the bar of its second was sent, so
// that bar never included it.
const (
	cancelled market.Size = 0
	void      market.Size = -1
)

// tradeLog holds the trades of a trading day or a little more, in the order of N, in chunks that
// are dropped as a whole.
type tradeLog struct {
	chunks   []tradeChunk
	first    uint32       // number of the oldest trade that is stored; trades are numbered from 0
	indexes  []tradeIndex // indexes of trades by id, oldest first
	complete int64        // every trade from this T on is stored

	minutes map[int64][]uint32 // numbers of the trades of each minute, in order; nil: so far T has increased with N
}

type tradeChunk struct {
	trades   []Trade
	from, to int64 // minimum and maximum event time
}

// chunkTrades is the number of trades that are dropped at once.
const chunkTrades = 512

// add appends a trade and returns how many trades the log grew by. If full is set (all logs
// together are full), it drops its oldest trades first.
func (l *tradeLog) add(d Trade, full bool) (grown int) {
	if n := len(l.chunks); n == 0 || len(l.chunks[n-1].trades) == chunkTrades {
		var space []Trade
		switch {
		case full && n > 1:
			space = l.chunks[0].trades[:0]
			grown -= l.drop()
		case n > 0:
			space = make([]Trade, 0, chunkTrades)
		}
		l.chunks = append(l.chunks, tradeChunk{trades: space, from: d.At, to: d.At})
	}
	c := &l.chunks[len(l.chunks)-1]
	c.trades = append(c.trades, d)
	if number := l.first + uint32((len(l.chunks)-1)*chunkTrades+len(c.trades)-1); l.minutes != nil {
		l.minutes[d.At/minute] = append(l.minutes[d.At/minute], number)
	}
	if d.ID != 0 {
		l.index(d.ID, l.first+uint32((len(l.chunks)-1)*chunkTrades+len(c.trades)-1))
	}
	c.from, c.to = min(c.from, d.At), max(c.to, d.At)
	if full && len(l.chunks) == 1 {
		grown -= l.halve()
	}
	return grown + 1
}

// minTrades is the number of trades that a log keeps when all logs together are full.
const minTrades = 16

// halve drops the older half of the only chunk, unless few trades would remain, and returns the
// number of trades dropped.
func (l *tradeLog) halve() int {
	c := &l.chunks[0]
	if len(c.trades) < 2*minTrades {
		return 0
	}
	dropped, left := c.trades[:len(c.trades)/2], c.trades[len(c.trades)/2:]
	for i := range dropped {
		l.complete = max(l.complete, dropped[i].At+1)
	}
	*c = tradeChunk{trades: append([]Trade(nil), left...), from: left[0].At, to: left[0].At}
	for i := range left {
		c.from, c.to = min(c.from, left[i].At), max(c.to, left[i].At)
	}
	l.discarded(dropped)
	return len(dropped)
}

// drop drops the oldest chunk and returns its number of trades.
func (l *tradeLog) drop() int {
	c := l.chunks[0]
	l.complete = max(l.complete, c.to+1)
	l.chunks[0] = tradeChunk{}
	l.chunks = l.chunks[1:]
	l.discarded(c.trades)
	return len(c.trades)
}

// discarded removes the n oldest trades from the counts, and drops the indexes that have no other
// trades.
func (l *tradeLog) discarded(gone []Trade) {
	l.first += uint32(len(gone))
	if l.minutes != nil {
		for i := range gone {
			l.forget(gone[i].At / minute)
		}
	}
	for len(l.indexes) > 0 && l.indexes[0].last < l.first {
		l.indexes[0] = tradeIndex{}
		l.indexes = l.indexes[1:]
	}
}

// prune drops chunks that are entirely older than a time and returns the number of trades dropped.
func (l *tradeLog) prune(before int64) (dropped int) {
	for len(l.chunks) > 0 && l.chunks[0].to < before {
		dropped += l.drop()
	}
	return dropped
}

func (l *tradeLog) len() (n int) {
	for i := range l.chunks {
		n += len(l.chunks[i].trades)
	}
	return n
}

// A tradeIndex finds trades by their id. It is a table with open addressing, at most half full.
// Each index covers a range of consecutive trades that fits its slots, so that it is never rebuilt.
type tradeIndex struct {
	slots []uint32 // number of a trade, relative to the index's first, plus 1; 0: empty
	first uint32   // number of the first trade
	last  uint32   // number of the last trade
	used  int
}

// Slots of an index. The first index is small, because most instruments trade little.
const (
	firstSlots = 16
	maxSlots   = 64 << 10
)

// index records the number of a trade. Among trades with the same id it keeps the newest.
func (l *tradeLog) index(id uint64, number uint32) {
	n := len(l.indexes)
	if n == 0 || 2*l.indexes[n-1].used >= len(l.indexes[n-1].slots) {
		size := firstSlots
		if n > 0 {
			size = min(2*len(l.indexes[n-1].slots), maxSlots)
		}
		l.indexes = append(l.indexes, tradeIndex{slots: make([]uint32, size), first: number})
		n++
	}
	x := &l.indexes[n-1]
	slot := x.find(l, id)
	if x.slots[slot] == 0 {
		x.used++
	}
	x.slots[slot], x.last = number-x.first+1, number
}

// find returns the slot of an id, or the empty slot at which to insert it. Dropped trades match no
// id.
func (x *tradeIndex) find(l *tradeLog, id uint64) int {
	mask := len(x.slots) - 1
	for slot := int(id) & mask; ; slot = (slot + 1) & mask {
		if n := x.slots[slot]; n == 0 || l.at(x.first+n-1) != nil && l.at(x.first+n-1).ID == id {
			return slot
		}
	}
}

// at returns the trade with a number, nil if it was dropped.
func (l *tradeLog) at(number uint32) *Trade {
	if number < l.first {
		return nil
	}
	i := number - l.first
	return &l.chunks[i/chunkTrades].trades[i%chunkTrades]
}

// find returns the newest trade with an id, or nil.
func (l *tradeLog) find(id uint64) *Trade {
	for i := len(l.indexes) - 1; i >= 0 && id != 0; i-- {
		x := &l.indexes[i]
		if n := x.slots[x.find(l, id)]; n != 0 {
			return l.at(x.first + n - 1)
		}
	}
	return nil
}

// count returns the figures of the trades with times from start to before end, and the number of
// trades that the bar of that time ever included.
func (l *tradeLog) count(start, end int64) (t Totals, ever int) {
	count := func(d *Trade) {
		if d == nil || d.At < start || d.At >= end || d.Size == void {
			return
		}
		ever++
		if d.Size > 0 {
			t.Add(d.At, d.Price, d.Size)
		}
	}
	if l.minutes == nil && l.spread(start, end) > maxSpread {
		l.indexMinutes()
	}
	if l.minutes != nil {
		for m := start / minute; m*minute < end; m++ {
			for _, number := range l.minutes[m] {
				count(l.at(number))
			}
		}
		return t, ever
	}
	for i := range l.chunks {
		c := &l.chunks[i]
		if c.to < start || c.from >= end {
			continue
		}
		for j := range c.trades {
			count(&c.trades[j])
		}
	}
	return t, ever
}

const (
	minute = int64(60e9)

	// maxSpread is how many chunks are searched for the trades of a time.
	maxSpread = 16
)

// spread is how many chunks may have trades of a time. If T mostly rises with N, they are few. If
// trades arrive in no order, all chunks may have some, and each new trade would search all earlier
// ones.
func (l *tradeLog) spread(start, end int64) (n int) {
	for i := range l.chunks {
		if c := &l.chunks[i]; c.to >= start && c.from < end {
			n++
		}
	}
	return n
}

// indexMinutes records the minute of each trade from now on.
func (l *tradeLog) indexMinutes() {
	l.minutes = make(map[int64][]uint32)
	number := l.first
	for i := range l.chunks {
		for j := range l.chunks[i].trades {
			m := l.chunks[i].trades[j].At / minute
			l.minutes[m] = append(l.minutes[m], number)
			number++
		}
	}
}

// forget removes the numbers of a minute whose trades were dropped.
func (l *tradeLog) forget(m int64) {
	list := l.minutes[m]
	for len(list) > 0 && list[0] < l.first {
		list = list[1:]
	}
	if len(list) == 0 {
		delete(l.minutes, m)
	} else {
		l.minutes[m] = list
	}
}
