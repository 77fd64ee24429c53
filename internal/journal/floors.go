package journal

import (
	"context"
	"errors"
	"maps"
)

// floors are the least N of each series from which on it is complete; 1 where nothing is said.
type floors map[uint32]*[numFloors]uint64

const (
	floorBooks = numSlots
	numFloors  = numSlots + 1
)

// floorSlot is a slot, or that of the book.
func floorSlot(c Channel, i Interval) int {
	if c == Books {
		return floorBooks
	}
	return slot(c, i)
}

// set notes that a series begins at N at the latest, unless something is known already.
func (f floors) set(instrument uint32, slot int, n uint64) {
	if f[instrument] == nil {
		f[instrument] = &[numFloors]uint64{}
	}
	if f[instrument][slot] == 0 {
		f[instrument][slot] = n
	}
}

// pass notes that a series is complete from behind N at the earliest.
func (f floors) pass(instrument uint32, slot int, n uint64) {
	f.set(instrument, slot, n+1)
	f[instrument][slot] = max(f[instrument][slot], n+1)
}

// begin notes that the series of a row begins with it, unless something is known already.
func (f floors) begin(r *Row) {
	if bookKinds.Has(r.Kind) {
		f.set(r.Instrument, floorBooks, r.N)
	} else if s := r.slot(); s != noSlot {
		f.set(r.Instrument, s, r.N)
	}
}

// count takes in where the sequences of an instrument stood at a checkpoint.
func (f floors) count(instrument uint32, c *Counts) {
	for i, n := range c.N {
		if s := floorSlot(Channel(i), 0); s != noSlot && Channel(i) != Bars {
			f.set(instrument, s, n+1)
		}
	}
	for i, n := range c.Bars {
		f.set(instrument, slot(Bars, Interval(i)), n+1)
	}
}

// Oldest is the least N of the newest epoch from which on the series is complete on disk: of
// what came before, something was lost or is no longer kept. It takes no lock that is
// held for longer than a lookup.
func (a *Archive) Oldest(s Series) uint64 {
	slot := floorSlot(s.Channel, s.Interval)
	number, ok := a.table.lookup(s.Instrument)
	f := a.floors.Load()
	if slot == noSlot || !ok {
		return 1
	}
	least := max(1, a.lost.floor(number, slot))
	if f == nil || (*f)[number] == nil {
		return least
	}
	return max(least, (*f)[number][slot])
}

// findFloors sets the floors.
func (a *Archive) findFloors(ctx context.Context) error {
	f, err := a.lookFloors(ctx, a.views(""))
	a.floors.Store(&f)
	return err
}

// lookFloors reads from the head of the oldest segment behind the last loss where the sequences
// of the newest epoch begin, whose segments these are.
func (a *Archive) lookFloors(ctx context.Context, views []segmentView) (floors, error) {
	from := 0
	for i := range views {
		if len(views[i].gaps) > 0 {
			from = i
		}
		if views[i].lossy() {
			from = min(i+1, len(views)-1)
		}
	}
	f := floors{}
	for i := from; i < len(views); i++ {
		done, err := a.headFloors(ctx, &views[i], f)
		var d *Damage
		switch {
		case errors.As(err, &d):
			f = floors{} // what can be read begins behind it
		case err != nil:
			return nil, err
		case done:
			return f, nil
		}
	}
	return f, nil
}

// lossy says whether rows of the segment are lost that were written.
func (s *segment) lossy() bool { return len(s.losses()) > 0 }

// losses are the places of the segment where rows are lost that were written. An end that was torn off is none, unless
// what is in front of it cannot be read either.
func (s *segment) losses() []Damage {
	if k := len(s.damage) - 1; s.torn && k >= 0 && s.damage[k].Reason == reasonTorn {
		return s.damage[:k]
	}
	return s.damage
}

// headFloors takes in a segment up to the end of its checkpoint; done says that it has one.
func (a *Archive) headFloors(ctx context.Context, v *segmentView, f floors) (done bool, err error) {
	var dec decoder
	lost := v.lossy()
	err = a.walk(ctx, v, walkAll, func(c *cursor, rec []byte) (bool, error) {
		kind := Kind(rec[0])
		if kind == recCheckpointEnd && !lost {
			done = true
			return false, nil
		}
		if kind >= numKinds || kind == Hole {
			return true, nil
		}
		r, ok := dec.row(rec, c.base)
		if !ok {
			return false, c.damage(c.pos-len(rec), reasonRecord)
		}
		set := f.set
		if lost {
			// Nothing behind it tells what it lost: complete is what comes next.
			set = f.pass
		}
		switch {
		case kind == Numbers:
			f.count(r.Instrument, &r.Counts)
		case r.Checkpoint:
		case bookKinds.Has(kind):
			set(r.Instrument, floorBooks, r.N)
		default:
			if s := r.slot(); s != noSlot {
				set(r.Instrument, s, r.N)
			}
		}
		return true, nil
	})
	return done, err
}

// raise replaces the floors by those of a checkpoint behind a hole.
func (a *Archive) raise(f floors) {
	next := maps.Clone(f)
	a.floors.Store(&next)
}
