package journal

import (
	"context"
	"errors"
	"maps"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// minSeqs has, for each series, the least N from which it is complete; 1 if there is no entry.
type minSeqs map[uint32]*[numMinSeqs]uint64

const (
	slotBooks  = record.NumSlots
	numMinSeqs = record.NumSlots + 1
)

// minSeqSlot returns the slot of a series, including books.
func minSeqSlot(c Channel, i Interval) int {
	if c == Books {
		return slotBooks
	}
	return record.Slot(c, i)
}

// set records that a series begins at N, unless it has an entry.
func (f minSeqs) set(instrument uint32, slot int, n uint64) {
	if f[instrument] == nil {
		f[instrument] = &[numMinSeqs]uint64{}
	}
	if f[instrument][slot] == 0 {
		f[instrument][slot] = n
	}
}

// pass records that a series is complete after N at the earliest.
func (f minSeqs) pass(instrument uint32, slot int, n uint64) {
	f.set(instrument, slot, n+1)
	f[instrument][slot] = max(f[instrument][slot], n+1)
}

// begin records that the series of a row begins with it, unless it has an entry.
func (f minSeqs) begin(r *Row) {
	if bookKinds.Has(r.Kind) {
		f.set(r.Instrument, slotBooks, r.N)
	} else if s := r.Slot(); s != record.NoSlot {
		f.set(r.Instrument, s, r.N)
	}
}

// count adds the counters of a checkpoint.
func (f minSeqs) count(instrument uint32, c *Counts) {
	for i, n := range c.N {
		if s := minSeqSlot(Channel(i), 0); s != record.NoSlot && Channel(i) != Bars {
			f.set(instrument, s, n+1)
		}
	}
	for i, n := range c.Bars {
		f.set(instrument, record.Slot(Bars, Interval(i)), n+1)
	}
}

// Oldest returns the least N of the newest epoch from which a series is complete on disk; earlier
// rows were lost or removed. It may be called under the hub's lock.
func (a *Archive) Oldest(s Series) uint64 {
	slot := minSeqSlot(s.Channel, s.Interval)
	number, ok := a.table.lookup(s.Instrument)
	f := a.minSeqs.Load()
	if slot == record.NoSlot || !ok {
		return 1
	}
	least := max(1, a.lost.minSeq(number, slot))
	if f == nil || (*f)[number] == nil {
		return least
	}
	return max(least, (*f)[number][slot])
}

// findMinSeqs computes minSeqs.
func (a *Archive) findMinSeqs(ctx context.Context) error {
	f, err := a.readMinSeqs(ctx, a.views(""))
	a.minSeqs.Store(&f)
	return err
}

// readMinSeqs reads the beginning of each sequence of an epoch from the first segment after the
// last loss.
func (a *Archive) readMinSeqs(ctx context.Context, views []segmentView) (minSeqs, error) {
	from := 0
	for i := range views {
		if len(views[i].gaps) > 0 || views[i].missing > 0 {
			from = i
		}
		if views[i].lossy() {
			from = min(i+1, len(views)-1)
		}
	}
	f := minSeqs{}
	for i := from; i < len(views); i++ {
		done, err := a.readSegmentMinSeqs(ctx, &views[i], f)
		var d *Damage
		switch {
		case errors.As(err, &d) && (from > 0 || !a.setIndexed(&views[i], f)):
			f = minSeqs{} // the readable rows begin after it
		case d != nil:
		case err != nil:
			return nil, err
		case done:
			return f, nil
		}
	}
	return f, nil
}

// setIndexed records where the series of a segment that is damaged now begin in the index of its
// day, which has their rows too, but no rows of books. It reports false if there is no index, or if
// that cannot be read.
func (a *Archive) setIndexed(v *segmentView, f minSeqs) bool {
	if v.index == nil {
		return false
	}
	for n := range v.index.Recorded.All() {
		def, ok := a.table.get(n)
		for slot := range record.NumSlots {
			list, err := v.index.Find(def.ID, slot)
			if err != nil {
				return false
			}
			for _, x := range list {
				if ok && v.index.Meta.Epochs[x.Epoch] == v.epoch {
					f.set(n, slot, x.First)
				}
			}
		}
	}
	for _, x := range f {
		x[slotBooks] = 0
	}
	return true
}

// lossy reports whether written rows of the segment are lost.
func (s *segment) lossy() bool { return len(s.losses()) > 0 }

// losses returns the damage with lost rows. A torn end does not count, unless the data before it is
// damaged too.
func (s *segment) losses() []Damage {
	if k := len(s.damage) - 1; s.torn && k >= 0 && s.damage[k].Reason == record.ReasonTorn {
		return s.damage[:k]
	}
	return s.damage
}

// damagedEnd reports whether damage with lost rows follows the last row of the segment.
func (s *segment) damagedEnd() bool {
	list := s.losses()
	return len(list) > 0 && list[len(list)-1].To == 0
}

// readSegmentMinSeqs reads a segment up to the end of its checkpoint. done means that it has one.
func (a *Archive) readSegmentMinSeqs(ctx context.Context, v *segmentView, f minSeqs) (done bool, err error) {
	var dec record.Decoder
	lost := v.lossy()
	err = a.walk(ctx, v, walkAll, func(c *record.Cursor, rec []byte) (bool, error) {
		kind := Kind(rec[0])
		if kind == record.CheckpointEnd && !lost {
			done = true
			return false, nil
		}
		if kind >= record.NumKinds || kind == Gap {
			return true, nil
		}
		r, err := c.Row(&dec, rec)
		if err != nil {
			return false, err
		}
		set := f.set
		if lost {
			// The lost rows are unknown: sequences are complete after the next row.
			set = f.pass
		}
		switch {
		case kind == Numbers:
			f.count(r.Instrument, &r.Counts)
		case r.Checkpoint:
		case bookKinds.Has(kind):
			set(r.Instrument, slotBooks, r.N)
		default:
			if s := r.Slot(); s != record.NoSlot {
				set(r.Instrument, s, r.N)
			}
		}
		return true, nil
	})
	return done, err
}

// setMinSeqs replaces minSeqs by those of a checkpoint after a gap.
func (a *Archive) setMinSeqs(f minSeqs) {
	next := maps.Clone(f)
	a.minSeqs.Store(&next)
}
