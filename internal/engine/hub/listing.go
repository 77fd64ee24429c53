package hub

import (
	"slices"

	"github.com/ruedahq/rueda/market"
)

// Listing has the instruments that are defined at one time, in the order of
// market.InstrumentID.Compare. It does not change.
type Listing struct {
	Instruments []market.Instrument // without their phases; see Phases

	version     uint64
	instruments []*Instrument // in the same order as Instruments
}

// Listing returns the instruments that are defined now. It makes one Listing for each version of
// the catalogue.
func (d *directory) Listing() *Listing {
	c := &d.listings
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.newest; l == nil || l.version != d.catalogVersion() {
		c.newest = d.newListing()
	}
	return c.newest
}

func (d *directory) catalogVersion() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

func (d *directory) newListing() *Listing {
	d.mu.Lock()
	l := &Listing{version: d.version, instruments: d.groups.All()} // which is only appended to
	d.mu.Unlock()
	l.instruments = slices.Clone(l.instruments)
	slices.SortFunc(l.instruments, func(a, b *Instrument) int { return a.id.Compare(b.id) })
	l.Instruments = make([]market.Instrument, 0, len(l.instruments))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, in := range l.instruments {
		l.Instruments = append(l.Instruments, in.Def)
		d.mu.Step(1)
	}
	return l
}

// Phases returns the phases of the instruments at some indexes of a Listing, each at its own delay
// in seconds. Call AwaitDelay first. The phase is NoPhase for a negative delay, or if the
// instrument is not known at that delay.
func (d *directory) Phases(l *Listing, indexes, delays []int) []market.Phase {
	phases := make([]market.Phase, len(indexes))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range indexes {
		if in := l.instruments[k]; delays[i] >= 0 && in.AtDelay(delays[i]) != nil {
			phases[i] = in.AtDelay(delays[i]).Phase
		}
		d.mu.Step(1)
	}
	return phases
}
