package stream

import (
	"slices"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// A Listing is what is defined at one time, in the order of market.InstrumentID.Compare. It does not change.
type Listing struct {
	Instruments []market.Instrument // without their phases, which Phases tells

	version uint64
	places  []*instrument // of Instruments
}

// listings keeps the newest Listing.
type listings struct {
	mu     sync.Mutex // held while one is made; Hub.mu may be taken under it
	newest *Listing
}

// Listing is what is defined now. It is made once for each change of the catalogue.
func (h *Hub) Listing() *Listing {
	c := &h.listings
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.newest; l == nil || l.version != h.catalogVersion() {
		c.newest = h.newListing()
	}
	return c.newest
}

func (h *Hub) catalogVersion() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

func (h *Hub) newListing() *Listing {
	h.mu.Lock()
	l := &Listing{version: h.version, places: h.listed} // which is only appended to
	h.mu.Unlock()
	l.places = slices.Clone(l.places)
	slices.SortFunc(l.places, func(a, b *instrument) int { return a.id.Compare(b.id) })
	l.Instruments = make([]market.Instrument, 0, len(l.places))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range l.places {
		l.Instruments = append(l.Instruments, in.Def)
		h.step()
	}
	return l
}

// Phases tells the present phases of instruments of a listing, by their places in it.
func (h *Hub) Phases(l *Listing, places []int) []market.Phase {
	phases := make([]market.Phase, len(places))
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, place := range places {
		phases[i] = l.places[place].Phase
		h.step()
	}
	return phases
}
