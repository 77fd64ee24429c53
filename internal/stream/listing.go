package stream

import (
	"slices"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// A Listing is what is defined at one time, in the order of market.InstrumentID.Compare. It does not
// change.
type Listing struct {
	Instruments []market.Instrument // without their phases; see Phases

	version     uint64
	instruments []*instrument // of Instruments
}

// listings keeps the newest Listing.
type listings struct {
	mu     sync.Mutex // held while one is made; Hub.mu may be taken under it
	newest *Listing
}

// Listing returns what is defined now. It is made once for each change of the catalogue.
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
	slices.SortFunc(l.instruments, func(a, b *instrument) int { return a.id.Compare(b.id) })
	l.Instruments = make([]market.Instrument, 0, len(l.instruments))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, in := range l.instruments {
		l.Instruments = append(l.Instruments, in.Def)
		d.mu.step()
	}
	return l
}

// Phases returns the phases of instruments of a listing, given by their indexes in it, each at a
// delay in seconds, after AwaitDelay. It is NoPhase for a negative delay.
func (d *directory) Phases(l *Listing, indexes, delays []int) []market.Phase {
	phases := make([]market.Phase, len(indexes))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range indexes {
		if in := l.instruments[k]; delays[i] >= 0 && in.under(delays[i]) != nil {
			phases[i] = in.under(delays[i]).Phase
		}
		d.mu.step()
	}
	return phases
}
