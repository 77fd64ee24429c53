package feedtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// Recorder is a feed.Sink that keeps a copy of all it gets and refuses nothing
// but a definition or handle it cannot place. The zero Recorder is ready.
type Recorder struct {
	mu          sync.Mutex
	table       table
	events      []market.Event
	batches     int
	changed     chan struct{} // closed at the next change; nil: nobody waits
	definitions []market.Instrument
}

// Define implements feed.Sink.
func (r *Recorder) Define(in market.Instrument) (market.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.table.define(in)
	if err != nil {
		return 0, err
	}
	r.definitions = append(r.definitions, in)
	r.wake()
	return h, nil
}

// Publish implements feed.Sink.
func (r *Recorder) Publish(events []market.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if r.table.id(e.Handle) == nil {
			return fmt.Errorf("record event: handle %d was not given out", e.Handle)
		}
	}
	for _, e := range events {
		e.Bids, e.Asks, e.Conditions = slices.Clone(e.Bids), slices.Clone(e.Asks), slices.Clone(e.Conditions)
		r.events = append(r.events, e)
	}
	r.batches++
	r.wake()
	return nil
}

// wake tells those who wait to look again. Called with mu held.
func (r *Recorder) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Events is what was published so far, in order.
func (r *Recorder) Events() []market.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Of is the events of one instrument, in order.
func (r *Recorder) Of(id market.InstrumentID) []market.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.table.handle(id)
	if !ok {
		return nil
	}
	var out []market.Event
	for _, e := range r.events {
		if e.Handle == h {
			out = append(out, e)
		}
	}
	return out
}

// Batches is how often Publish was called.
func (r *Recorder) Batches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches
}

// Definitions is every Define so far, in order; a definition that changed is
// there once for each time.
func (r *Recorder) Definitions() []market.Instrument {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.definitions)
}

// ID is the identifier behind a handle that this Recorder gave out.
func (r *Recorder) ID(h market.Handle) market.InstrumentID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := r.table.id(h); id != nil {
		return *id
	}
	return market.InstrumentID{}
}

// Wait waits until what was recorded so far satisfies enough, which gets the
// recorder's own slice and must not keep it. The error is ctx's.
func (r *Recorder) Wait(ctx context.Context, enough func([]market.Event) bool) error {
	for {
		r.mu.Lock()
		if enough(r.events) {
			r.mu.Unlock()
			return nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for events: %w", ctx.Err())
		}
	}
}

// table gives out handles. They start high and leave gaps, so that a source that
// counts for itself is found out.
type table struct {
	ids     []market.InstrumentID
	handles map[market.InstrumentID]market.Handle
}

const (
	firstHandle = 1000
	handleStep  = 7
)

// define is the handle of a definition. A market as a whole, *|MARKET|*, may be
// defined too.
func (t *table) define(in market.Instrument) (market.Handle, error) {
	if !wholeMarket(in.ID) {
		if err := in.Validate(); err != nil {
			return 0, err
		}
	}
	if h, ok := t.handles[in.ID]; ok {
		return h, nil
	}
	if t.handles == nil {
		t.handles = make(map[market.InstrumentID]market.Handle)
	}
	h := market.Handle(firstHandle + handleStep*len(t.ids))
	t.ids = append(t.ids, in.ID)
	t.handles[in.ID] = h
	return h, nil
}

func (t *table) handle(id market.InstrumentID) (market.Handle, bool) {
	h, ok := t.handles[id]
	return h, ok
}

// index is the place of a handle's definition; -1 for one that was not given out.
func (t *table) index(h market.Handle) int {
	i := int(h) - firstHandle
	if i < 0 || i%handleStep != 0 || i/handleStep >= len(t.ids) {
		return -1
	}
	return i / handleStep
}

func (t *table) id(h market.Handle) *market.InstrumentID {
	if i := t.index(h); i >= 0 {
		return &t.ids[i]
	}
	return nil
}

// wholeMarket says whether id is *|MARKET|*.
func wholeMarket(id market.InstrumentID) bool {
	return id.Symbol == market.Any && id.Term == market.Any &&
		market.InstrumentID{Symbol: "X", Market: id.Market, Term: "X"}.Valid()
}
