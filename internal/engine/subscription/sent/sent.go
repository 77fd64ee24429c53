// Package sent records which rows of instruments a client has received.
//
// An instrument may pass from one item of a set to another, and an item may move to another delay.
// The rows that were sent before must then not be sent again. [Rows] states how far they were sent:
// by instrument, and by pattern for the other instruments.
//
// A Rows belongs to one goroutine. A nil Rows is empty and may be read.
package sent

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/market"
)

// To states how far the rows of an instrument were sent: up to a position, and up to an N.
type To struct {
	Pos, N uint64
	HasN   bool   // N is known, and may be 0
	Exact  bool   // Pos is at or after row N, and before the next row
	By     uint64 // the row of N is at or before this position
	Safe   uint64 // a position to resume from, if Pos is 0
	Unseen bool   // nothing was sent; a snapshot is due
}

// Pattern states up to which position the rows of the instruments of a pattern were sent.
type Pattern struct {
	ID   market.InstrumentID
	Pos  uint64
	From market.InstrumentID // the identifier of the item that sent them
}

// Rows states how far the rows of instruments were sent. Use the methods that begin with Put to
// change it.
type Rows struct {
	Exact    map[market.InstrumentID]To
	Patterns []Pattern             // for the other instruments; the first match counts
	Most     uint64                // the greatest position
	Due      []market.InstrumentID // status identifiers whose snapshot is due
}

// Put sets how far the rows of an instrument were sent.
func (r *Rows) Put(id market.InstrumentID, x To) {
	if r.Exact == nil {
		r.Exact = make(map[market.InstrumentID]To)
	}
	r.Exact[id] = x
	r.Most = max(r.Most, x.Pos, x.By)
}

// PutPattern adds a pattern. It counts for instruments that match no pattern before it.
func (r *Rows) PutPattern(p Pattern) {
	r.Patterns = append(r.Patterns, p)
	r.Most = max(r.Most, p.Pos)
}

// Of returns how far the rows of an instrument were sent. ok is false if that is not known, or if
// nothing was sent.
func (r *Rows) Of(id market.InstrumentID) (x To, ok bool) {
	if r == nil {
		return x, false
	}
	if x, ok = r.Exact[id]; ok {
		return x, !x.Unseen
	}
	for i := range r.Patterns {
		if r.Patterns[i].ID.Matches(id) {
			return To{Pos: r.Patterns[i].Pos}, true
		}
	}
	return x, false
}

// Unseen reports whether nothing of an instrument was sent, so that its snapshot is due. known is
// false if there is no record of the instrument.
func (r *Rows) Unseen(id market.InstrumentID) (unseen, known bool) {
	if r == nil {
		return false, false
	}
	if x, ok := r.Exact[id]; ok {
		return x.Unseen, true
	}
	_, known = r.Of(id)
	return false, known
}

// SeeAll records that the snapshots of all unseen instruments were sent.
func (r *Rows) SeeAll() {
	if r == nil {
		return
	}
	for id, x := range r.Exact {
		if x.Unseen {
			r.Exact[id] = To{}
		}
	}
}

// Len returns the number of instruments and patterns.
func (r *Rows) Len() int {
	if r == nil {
		return 0
	}
	return len(r.Exact) + len(r.Patterns)
}

// Level raises all positions to the greatest one.
func (r *Rows) Level() {
	for id, x := range r.Exact {
		x.Pos = r.Most
		r.Exact[id] = x
	}
	for i := range r.Patterns {
		r.Patterns[i].Pos = r.Most
	}
}

// Least returns a position up to which all rows of an identifier were sent, or 0 if it is not
// known.
func (r *Rows) Least(id market.InstrumentID) uint64 {
	if !id.IsPattern() {
		x, _ := r.Of(id)
		return x.Pos
	}
	if !slices.ContainsFunc(r.Patterns, func(p Pattern) bool { return p.ID == id }) {
		return 0
	}
	low := uint64(math.MaxUint64)
	for _, x := range r.Exact {
		low = min(low, x.Pos)
	}
	for _, p := range r.Patterns {
		low = min(low, p.Pos)
	}
	return low
}

// PatternBefore reports whether the rows of any pattern were sent only up to an earlier position.
func (r *Rows) PatternBefore(pos uint64) bool {
	return slices.ContainsFunc(r.Patterns, func(p Pattern) bool { return p.Pos < pos })
}

// Covered returns the entries of the instruments that an identifier covers. It includes the entry
// of a pattern only if include returns true for it.
func (r *Rows) Covered(id market.InstrumentID, include func(p *Pattern) bool) *Rows {
	list := &Rows{}
	if !id.IsPattern() {
		if x, ok := r.Of(id); ok {
			list.Put(id, x)
		}
		return list
	}
	for other, x := range r.Exact {
		if id.Matches(other) {
			list.Put(other, x)
		}
	}
	for _, p := range r.Patterns {
		if include(&p) && catalogue.Overlap(p.ID, id) {
			p.ID = catalogue.Common(p.ID, id)
			list.PutPattern(p)
		}
	}
	return list
}

// Over returns the entries of r, and those of older for other instruments and patterns. It changes
// neither of them.
func (r *Rows) Over(older *Rows) *Rows {
	list := &Rows{Patterns: slices.Clone(r.Patterns), Most: r.Most}
	for id, x := range r.Exact {
		list.Put(id, x)
	}
	if older == nil {
		return list
	}
	for id, x := range older.Exact {
		if _, ok := r.Of(id); !ok {
			list.Put(id, x)
		}
	}
	for _, p := range older.Patterns { // the first one of an identifier counts
		if !slices.ContainsFunc(r.Patterns, func(q Pattern) bool { return q.ID == p.ID }) {
			list.PutPattern(p)
		}
	}
	return list
}
