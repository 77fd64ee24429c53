package facts

import (
	"errors"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// Collector is a feed.Sink that computes the facts of all instruments it receives. Use New to
// create one.
type Collector struct {
	// Class returns the class of an instrument, which is a row of the table. nil means kind and
	// term. Set it before use.
	Class func(market.Instrument) string

	mu    sync.Mutex
	all   []*instrument
	index map[market.InstrumentID]market.Handle
}

// New returns an empty Collector.
func New() *Collector {
	return &Collector{index: make(map[market.InstrumentID]market.Handle)}
}

var errUnknownHandle = errors.New("collect facts: unknown handle")

// Define implements feed.Sink.
func (c *Collector) Define(in market.Instrument) (market.Handle, error) {
	whole := in.ID.Symbol == market.Any && in.ID.Term == market.Any
	if !whole {
		if err := in.Validate(); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.index[in.ID]; ok {
		c.all[h].definition = in
		return h, nil
	}
	h := market.Handle(len(c.all))
	x := newInstrument(in)
	x.isMarket = whole
	x.class = in.Kind + " " + in.ID.Term
	if c.Class != nil {
		x.class = c.Class(in)
	}
	c.index[in.ID] = h
	c.all = append(c.all, x)
	return h, nil
}

// Publish implements feed.Sink.
func (c *Collector) Publish(events []market.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range events {
		e := &events[i]
		if int(e.Handle) >= len(c.all) {
			return errUnknownHandle
		}
		if x := c.all[e.Handle]; !x.isMarket {
			x.apply(e)
		}
	}
	return nil
}
