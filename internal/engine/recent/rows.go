package recent

import (
	"slices"
	"sort"

	"github.com/ruedahq/rueda/market"
)

// Rows keeps the newest rows of a sequence. Its exported fields are for reading. A caller may set
// Last, LastAt and Dropped at the beginning, if the sequence begins with rows that are not stored.
type Rows struct {
	Last    uint64 // N of the newest row; 0: none yet
	LastAt  int64  // publication time of the newest row
	Dropped uint64 // position of the newest row that was dropped
	Stored  int    // number of stored rows

	chunks [][]Row
	oldest []int64 // oldest event time in each chunk; late trades are out of order
}

const (
	ChunkRows = 512 // number of rows that are dropped at once
	// rows kept if the memory of all Rows together is full; one for bars, which have more sequences
	minRows  = 8
	RowBytes = 96 // estimated memory of a row, for budgets
)

// Add appends a row, assigns it the next N and returns the change in the number of stored rows,
// which is negative if a chunk was dropped. keep limits the number of rows. full means that the
// memory of all Rows together is full.
func (t *Rows) Add(r Row, keep int, full bool) int {
	t.Last++
	t.LastAt = r.At
	if n := len(t.chunks); n == 0 || len(t.chunks[n-1]) == ChunkRows {
		t.chunks = append(t.chunks, nil)
		t.oldest = append(t.oldest, r.Time)
	}
	i := len(t.chunks) - 1
	t.chunks[i] = append(t.chunks[i], r)
	t.oldest[i] = min(t.oldest[i], r.Time)
	t.Stored++
	grown := 1
	for len(t.chunks) > 1 && (full || t.Stored-len(t.chunks[0]) >= keep) {
		dropped := t.chunks[0]
		t.Dropped = dropped[len(dropped)-1].Pos
		t.Stored -= len(dropped)
		grown -= len(dropped)
		t.chunks[0] = nil
		t.chunks, t.oldest = t.chunks[1:], t.oldest[1:]
		full = false
	}
	if full {
		grown -= t.halve()
	}
	return grown
}

// halve drops the older half of the only chunk, unless few rows would remain, and returns the
// number of rows dropped.
func (t *Rows) halve() int {
	c, least := t.chunks[0], minRows
	if c[0].Bar != nil {
		least = 1
	}
	if len(c) < 2*least {
		return 0
	}
	n := len(c) / 2
	t.Dropped = c[n-1].Pos
	t.Stored -= n
	t.chunks[0] = slices.Clone(c[n:]) // a copy, because views of the old rows may still be in use
	t.oldest[0] = c[n].Time
	for i := range c[n:] {
		t.oldest[0] = min(t.oldest[0], c[n+i].Time)
	}
	return n
}

// Drops reports whether Add with these arguments might drop rows.
func (t *Rows) Drops(keep int, full bool) bool {
	return len(t.chunks) > 0 && (full || t.Stored+1-len(t.chunks[0]) >= keep)
}

// Leaves returns the minimum number of rows, including the new one, that remain after Add with full
// set.
func (t *Rows) Leaves() int {
	switch n := len(t.chunks); {
	case n == 0:
		return 1
	case n == 1 && t.Stored < ChunkRows:
		return t.Stored + 1 - (t.Stored+1)/2
	}
	return t.Stored + 1 - len(t.chunks[0])
}

// First returns the N of the oldest stored row.
func (t *Rows) First() uint64 { return t.Last - uint64(t.Stored) + 1 }

// After returns views of the rows whose N is above n, which must be at least First()-1.
func (t *Rows) After(n uint64) [][]Row {
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

// Seek returns the N of the newest stored row whose position is at most pos, or First()-1.
func (t *Rows) Seek(pos uint64) uint64 {
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

// Find returns the N of the newest trade with an id, or 0.
func (t *Rows) Find(id string) uint64 {
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

// Newest returns the newest row that keep accepts, and its N.
func (t *Rows) Newest(keep func(*Row) bool) (r *Row, n uint64) {
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

// TimeAfter returns the time of the row after n; 0: it is not stored.
func (t *Rows) TimeAfter(n uint64) int64 {
	if n+1 < t.First() || n >= t.Last {
		return 0
	}
	end := t.Last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		if end -= uint64(len(c)); n >= end {
			return c[n-end].Time
		}
	}
	return 0
}

// Before returns the N of the last stored row that is older than a time. If there is none, it
// returns First()-1 and found is false.
func (t *Rows) Before(from int64) (n uint64, found bool) {
	n = t.Last
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		if t.oldest[i] >= from {
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
