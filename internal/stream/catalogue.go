package stream

import (
	"sync"

	"github.com/ruedahq/rueda/market"
)

// catalogue is a market.Catalog that is safe for concurrent use. Its lock is held for one look-up
// at a time, and may be taken while the hub's is held; under it nothing else is taken.
type catalogue struct {
	mu   sync.RWMutex
	list market.Catalog
}

// Add is that of market.Catalog.
func (c *catalogue) Add(in market.Instrument) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.Add(in)
}

// PutMarket is that of market.Catalog.
func (c *catalogue) PutMarket(m market.Market) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.PutMarket(m)
}

// Index is that of market.Catalog.
func (c *catalogue) Index(id market.InstrumentID) (i int, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Index(id)
}

// HasBook says whether an instrument is listed, and with an order book.
func (c *catalogue) HasBook(id market.InstrumentID) (listed, book bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i, ok := c.list.Index(id)
	return ok, ok && !c.list.At(i).NoBook
}

// Suggest is that of market.Catalog.
func (c *catalogue) Suggest(id market.InstrumentID) (market.InstrumentID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Suggest(id)
}

// Market is that of market.Catalog.
func (c *catalogue) Market(id string) (market.Market, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Market(id)
}

// Markets is that of market.Catalog.
func (c *catalogue) Markets() []market.Market {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list.Markets()
}
