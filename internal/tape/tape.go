package tape

import (
	"slices"
	"sort"

	"github.com/ruedahq/rueda/market"
)

// A Tape keeps the newest rows of a sequence. Its fields are for reading, but where one
// begins behind rows that it never had: there Last, LastAt and Dropped say so.
type Tape struct {
	Last    uint64 // N of the newest row; 0: none ever
	LastAt  int64  // publication time of the newest row
	Dropped uint64 // position of the newest row that was dropped
	Kept    int    // rows

	chunks [][]Row
	least  []int64 // header T of the oldest row of each chunk: late trades are not in order
}

const (
	ChunkRows = 512 // rows that are dropped at once
	leastRows = 8   // rows that a tape keeps where all of them together are full; of bars, of which there are more tapes, one
	RowBytes  = 96  // of a row, for the budget
)

// Add appends a row, gives it the next N and returns how many rows it grew by
// (under 0 where a chunk was dropped). keep bounds the rows of the tape.
func (t *Tape) Add(r Row, keep int, full bool) int {
	t.Last++
	t.LastAt = r.At
	if n := len(t.chunks); n == 0 || len(t.chunks[n-1]) == ChunkRows {
		t.chunks = append(t.chunks, nil)
		t.least = append(t.least, r.Time)
	}
	i := len(t.chunks) - 1
	t.chunks[i] = append(t.chunks[i], r)
	t.least[i] = min(t.least[i], r.Time)
	t.Kept++
	grown := 1
	for len(t.chunks) > 1 && (full || t.Kept-len(t.chunks[0]) >= keep) {
		gone := t.chunks[0]
		t.Dropped = gone[len(gone)-1].Pos
		t.Kept -= len(gone)
		grown -= len(gone)
		t.chunks[0] = nil
		t.chunks, t.least = t.chunks[1:], t.least[1:]
		full = false
	}
	if full {
		grown -= t.halve()
	}
	return grown
}

// halve drops the older half of the only chunk, unless few rows are left, and returns how many.
func (t *Tape) halve() int {
	c, least := t.chunks[0], leastRows
	if c[0].Bar != nil {
		least = 1
	}
	if len(c) < 2*least {
		return 0
	}
	n := len(c) / 2
	t.Dropped = c[n-1].Pos
	t.Kept -= n
	t.chunks[0] = slices.Clone(c[n:]) // views of what is dropped stay as they are
	t.least[0] = c[n].Time
	for i := range c[n:] {
		t.least[0] = min(t.least[0], c[n+i].Time)
	}
	return n
}

// Drops says whether Add with these arguments might let go of rows.
func (t *Tape) Drops(keep int, full bool) bool {
	return len(t.chunks) > 0 && (full || t.Kept+1-len(t.chunks[0]) >= keep)
}

// Leaves is how many rows, the new one among them, Add leaves at least where all tapes are full.
func (t *Tape) Leaves() int {
	switch n := len(t.chunks); {
	case n == 0:
		return 1
	case n == 1 && t.Kept < ChunkRows:
		return t.Kept + 1 - (t.Kept+1)/2
	}
	return t.Kept + 1 - len(t.chunks[0])
}

// First is the N of the oldest row kept.
func (t *Tape) First() uint64 { return t.Last - uint64(t.Kept) + 1 }

// After is the rows whose N is above n, as views; n must be at least First()-1.
func (t *Tape) After(n uint64) [][]Row {
	skip := int(n + 1 - t.First())
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

// Seek is the N of the newest row kept whose position is at most pos, or First()-1.
func (t *Tape) Seek(pos uint64) uint64 {
	n := t.First() - 1
	i := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i][0].Pos > pos })
	for _, c := range t.chunks[:max(0, i-1)] {
		n += uint64(len(c))
	}
	if i > 0 {
		c := t.chunks[i-1]
		n += uint64(sort.Search(len(c), func(j int) bool { return c[j].Pos > pos }))
	}
	return n
}

// Find is the N of the newest trade of an id; 0 where it is not kept.
func (t *Tape) Find(id string) uint64 {
	n := t.Last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		for j := len(c) - 1; j >= 0; j-- {
			if c[j].ID == id && c[j].Kind == market.KindTrade {
				return n
			}
			n--
		}
	}
	return 0
}

// Newest is the newest row that keep accepts.
func (t *Tape) Newest(keep func(*Row) bool) (r *Row, n uint64) {
	n = t.Last
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

// Before is the N of the last row that is older than a time, among those kept: of the one before
// them where none is, and then found is false.
func (t *Tape) Before(from int64) (n uint64, found bool) {
	n = t.Last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		if t.least[i] >= from {
			n -= uint64(len(c))
			continue
		}
		for j := len(c) - 1; j >= 0; j-- {
			if c[j].Time < from {
				return n, true
			}
			n--
		}
	}
	return n, false
}
