package export

import (
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// finals determines which rows of trades are final. A trade that is cancelled or corrected stays in
// the table, and a later row has the change. The column final marks the rows that give each trade
// as it is at the end of the day: an unchanged trade, or the newest correction of a changed one. A
// cancelled trade has no final row. A correction of a trade of another day is not final; that day's
// table has the trade.
//
// Rows come in order, with changes after their trade, so the rows of an instrument are read twice:
// finals uses the first pass, and can then classify any row.
type finals struct {
	epochs     []string
	first      []uint64 // by epoch: N of the first row of the day
	changes    []change
	unknown    map[string][]int // changes that do not have the N of their trade, by its id
	superseded map[rowKey]struct{}
}

type rowKey struct {
	epoch int
	n     uint64
}

// change is a cancellation or a correction.
type change struct {
	row, of rowKey // of: the trade it refers to
	kind    journal.Kind
}

// reset prepares f for another instrument.
func (f *finals) reset() {
	f.epochs, f.first, f.changes = f.epochs[:0], f.first[:0], f.changes[:0]
	clear(f.unknown)
	clear(f.superseded)
}

// epoch returns the index of an epoch. Rows of an epoch are consecutive.
func (f *finals) epoch(name string) int {
	for i := len(f.epochs) - 1; i >= 0; i-- {
		if f.epochs[i] == name {
			return i
		}
	}
	return -1
}

// add handles a row in the first pass.
func (f *finals) add(epoch string, r *journal.Row) {
	e := f.epoch(epoch)
	if e < 0 {
		e = len(f.epochs)
		f.epochs, f.first = append(f.epochs, epoch), append(f.first, r.N)
	}
	if r.Kind == journal.Trade {
		return
	}
	c := change{row: rowKey{e, r.N}, kind: r.Kind}
	switch {
	case r.RefN >= f.first[e]:
		c.of = rowKey{e, r.RefN}
	case r.RefN == 0 && r.ID != "":
		// The trade is of another epoch, or too old for the server to know its number. If it is of
		// this day it can be found by its id.
		if f.unknown == nil {
			f.unknown = map[string][]int{}
		}
		f.unknown[r.ID] = append(f.unknown[r.ID], len(f.changes))
	}
	f.changes = append(f.changes, c)
}

// unresolved reports whether another pass with resolve is needed.
func (f *finals) unresolved() bool { return len(f.unknown) > 0 }

// resolve handles a row in the second pass. It finds the trades of changes that have only an id.
func (f *finals) resolve(epoch string, r *journal.Row) {
	if r.Kind != journal.Trade {
		return
	}
	key := rowKey{f.epoch(epoch), r.N}
	for _, i := range f.unknown[r.ID] {
		if c := &f.changes[i]; key.before(c.row) {
			c.of = key // the newest trade before the change counts
		}
	}
}

func (k rowKey) before(l rowKey) bool {
	return k.epoch < l.epoch || k.epoch == l.epoch && k.n < l.n
}

// finish completes the result after the passes.
func (f *finals) finish() {
	if len(f.changes) == 0 {
		return
	}
	if f.superseded == nil {
		f.superseded = map[rowKey]struct{}{}
	}
	newest := map[rowKey]rowKey{} // of a trade: its newest correction
	trade := map[rowKey]rowKey{}  // of a correction: the trade
	for _, c := range f.changes {
		if c.of.n == 0 {
			f.superseded[c.row] = struct{}{} // of another day
			continue
		}
		if of, ok := trade[c.of]; ok {
			c.of = of
		}
		before := c.of
		if n, ok := newest[c.of]; ok {
			before = n
		}
		f.superseded[before] = struct{}{}
		newest[c.of], trade[c.row] = c.row, c.of
	}
}

// final reports whether a row is final.
func (f *finals) final(epoch string, r *journal.Row) bool {
	if r.Kind == journal.Cancel {
		return false
	}
	if len(f.superseded) == 0 {
		return true
	}
	_, superseded := f.superseded[rowKey{f.epoch(epoch), r.N}]
	return !superseded
}
