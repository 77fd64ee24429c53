package stream

import (
	"slices"
	"sort"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A tape keeps the newest trades (or statuses) of an instrument as compact rows,
// from which their messages are encoded again, byte for byte, for a client that
// resumes. Rows lie in chunks that are dropped whole; a chunk's rows are never
// written twice, so that a view of them may be read without the hub's lock.
type tape struct {
	chunks  [][]row
	least   []int64 // header T of the oldest row of each chunk: late trades are not in order
	kept    int
	last    uint64 // N of the newest row; 0: none ever
	lastAt  int64  // publication time of the newest row
	dropped uint64 // position of the newest row that was dropped
}

const (
	chunkRows = 512
	rowBytes  = 96 // of a row, for the budget
)

// row is one trade, cancel, correction, status or bar.
type row struct {
	pos     uint64
	at      int64 // publication
	time    int64 // header T
	latency int64 // header D
	price   market.Price
	size    market.Size
	id      string
	more    *more
	bar     *bars.Bar // of a bar; the row has no more
	kind    market.Kind
	side    market.Side
	phase   market.Phase
}

// more is what few rows have.
type more struct {
	oldPrice   market.Price
	oldSize    market.Size
	refN       uint64
	conditions []string
	reason     string
	until      int64
}

// add appends a row, gives it the next N and returns how many rows it grew by
// (under 0 where a chunk was dropped). keep bounds the rows of the tape.
func (t *tape) add(r row, keep int, full bool) int {
	t.last++
	t.lastAt = r.at
	if n := len(t.chunks); n == 0 || len(t.chunks[n-1]) == chunkRows {
		t.chunks = append(t.chunks, nil)
		t.least = append(t.least, r.time)
	}
	i := len(t.chunks) - 1
	t.chunks[i] = append(t.chunks[i], r)
	t.least[i] = min(t.least[i], r.time)
	t.kept++
	grown := 1
	for len(t.chunks) > 1 && (full || t.kept-len(t.chunks[0]) >= keep) {
		gone := t.chunks[0]
		t.dropped = gone[len(gone)-1].pos
		t.kept -= len(gone)
		grown -= len(gone)
		t.chunks[0] = nil
		t.chunks, t.least = t.chunks[1:], t.least[1:]
		full = false
	}
	return grown
}

// first is the N of the oldest row kept.
func (t *tape) first() uint64 { return t.last - uint64(t.kept) + 1 }

// after is the rows whose N is above n, as views; n must be at least first()-1.
func (t *tape) after(n uint64) [][]row {
	skip := int(n + 1 - t.first())
	for i, c := range t.chunks {
		if skip < len(c) {
			views := slices.Clone(t.chunks[i:])
			views[0] = c[skip:]
			return views
		}
		skip -= len(c)
	}
	return nil
}

// at is the N of the newest row kept whose position is at most pos, or first()-1.
func (t *tape) seek(pos uint64) uint64 {
	n := t.first() - 1
	i := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i][0].pos > pos })
	for _, c := range t.chunks[:max(0, i-1)] {
		n += uint64(len(c))
	}
	if i > 0 {
		c := t.chunks[i-1]
		n += uint64(sort.Search(len(c), func(j int) bool { return c[j].pos > pos }))
	}
	return n
}

// find is the N of the newest trade of an id; 0 where it is not kept.
func (t *tape) find(id string) uint64 {
	n := t.last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		for j := len(c) - 1; j >= 0; j-- {
			if c[j].id == id && c[j].kind == market.KindTrade {
				return n
			}
			n--
		}
	}
	return 0
}

// newest is the newest row that keep accepts.
func (t *tape) newest(keep func(*row) bool) (r *row, n uint64) {
	n = t.last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		for j := len(c) - 1; j >= 0; j-- {
			if keep(&c[j]) {
				return &c[j], n
			}
			n--
		}
	}
	return nil, 0
}

// message appends the payload of the row with sequence n.
func (r *row) message(b []byte, ident wire.Ident, n uint64) []byte {
	h := wire.Header{Ident: ident, N: n, Time: r.time, Latency: r.latency}
	if r.bar != nil {
		k := barMessage(r.bar)
		return wire.AppendBar(b, &h, &k)
	}
	m := r.more
	if m == nil {
		m = &more{}
	}
	if r.kind == market.KindStatus {
		return wire.AppendStatus(b, &h, r.phase, m.reason, m.until, false)
	}
	t := wire.Trade{Kind: r.kind, Side: r.side, Price: r.price, Size: r.size, ID: r.id,
		OldPrice: m.oldPrice, OldSize: m.oldSize, RefN: m.refN, Conditions: m.conditions}
	return wire.AppendTrade(b, &h, &t)
}
