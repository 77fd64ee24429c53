package bars

import "github.com/ruedahq/rueda/market"

// Deal is a trade as it is kept to count bars again: without pointers, so that
// the garbage collector passes it by.
type Deal struct {
	N     uint64
	ID    uint64 // hash of the market's trade id; 0: it has none
	At    int64  // T
	Price market.Price
	Size  market.Size // now; cancelled or void where it does not count
}

// DealBytes is the memory of a Deal, for budgets.
const DealBytes = 40

// A deal that was cancelled counts no more. One that was before the bar of its second was
// told never did, as far as that bar goes.
const (
	cancelled market.Size = 0
	void      market.Size = -1
)

// ledger is the deals of a trading day or little more, in the order of N, in chunks
// that are dropped whole.
type ledger struct {
	chunks   []dealChunk
	complete int64 // every deal from this T on is here
}

type dealChunk struct {
	deals    []Deal
	from, to int64 // the least and the greatest T
}

// chunkDeals is how many deals are dropped at once.
const chunkDeals = 512

// add appends a deal and returns how many deals the ledger grew by. Where all ledgers together are
// full it drops its own oldest first.
func (l *ledger) add(d Deal, full bool) (grown int) {
	if n := len(l.chunks); n == 0 || len(l.chunks[n-1].deals) == chunkDeals {
		var room []Deal
		switch {
		case full && n > 1:
			room = l.chunks[0].deals[:0]
			grown -= l.drop()
		case n > 0:
			room = make([]Deal, 0, chunkDeals)
		}
		l.chunks = append(l.chunks, dealChunk{deals: room, from: d.At, to: d.At})
	}
	c := &l.chunks[len(l.chunks)-1]
	c.deals = append(c.deals, d)
	c.from, c.to = min(c.from, d.At), max(c.to, d.At)
	return grown + 1
}

// drop lets the oldest chunk go and returns its number of deals.
func (l *ledger) drop() int {
	c := l.chunks[0]
	l.complete = max(l.complete, c.to+1)
	l.chunks[0] = dealChunk{}
	l.chunks = l.chunks[1:]
	return len(c.deals)
}

// prune lets go of what is older than a time, by whole chunks, and returns the number of deals.
func (l *ledger) prune(before int64) (gone int) {
	for len(l.chunks) > 0 && l.chunks[0].to < before {
		gone += l.drop()
	}
	return gone
}

func (l *ledger) len() (n int) {
	for i := range l.chunks {
		n += len(l.chunks[i].deals)
	}
	return n
}

// find is the newest deal of an id; nil where it is not here.
func (l *ledger) find(id uint64) *Deal {
	for i := len(l.chunks) - 1; i >= 0 && id != 0; i-- {
		list := l.chunks[i].deals
		for j := len(list) - 1; j >= 0; j-- {
			if list[j].ID == id {
				return &list[j]
			}
		}
	}
	return nil
}

// count is the figures of the deals of a time, from start to before end, and of how
// many there ever were.
func (l *ledger) count(start, end int64) (t Tally, ever int) {
	for i := range l.chunks {
		c := &l.chunks[i]
		if c.to < start || c.from >= end {
			continue
		}
		for j := range c.deals {
			d := &c.deals[j]
			if d.At < start || d.At >= end || d.Size == void {
				continue
			}
			ever++
			if d.Size > 0 {
				t.Add(d.At, d.Price, d.Size)
			}
		}
	}
	return t, ever
}
