// Package catalogue records which instruments are listed, and finds those that an identifier
// covers.
//
// A [Catalogue] is a market.Catalog for concurrent use. A [Set] has instruments by their index in
// it. A [Shape] says which parts of an identifier are wildcards.
package catalogue

import (
	"sync"

	"github.com/ruedahq/rueda/market"
)

// Catalogue is a market.Catalog that is safe for concurrent use. Its lock is held for one look-up
// at a time, and no other lock is taken under it.
type Catalogue struct {
	mu   sync.RWMutex
	list market.Catalog
}

// Add does what the method of market.Catalog does.
func (c *Catalogue) Add(in market.Instrument) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.Add(in)
}

// PutMarket does what the method of market.Catalog does.
func (c *Catalogue) PutMarket(m market.Market) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.PutMarket(m)
}

// Index does what the method of market.Catalog does.
func (c *Catalogue) Index(id market.InstrumentID) (i int, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Index(id)
}

// HasBook reports whether an instrument is listed, and whether it has an order book.
func (c *Catalogue) HasBook(id market.InstrumentID) (listed, book bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i, ok := c.list.Index(id)
	return ok, ok && !c.list.At(i).NoBook
}

// Suggest does what the method of market.Catalog does.
func (c *Catalogue) Suggest(id market.InstrumentID) (market.InstrumentID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Suggest(id)
}

// Market does what the method of market.Catalog does.
func (c *Catalogue) Market(id string) (market.Market, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Market(id)
}

// Markets does what the method of market.Catalog does.
func (c *Catalogue) Markets() []market.Market {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Markets()
}
