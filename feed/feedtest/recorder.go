package feedtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// Recorder is a feed.Sink that keeps a copy of everything it receives. It rejects only invalid
// definitions and unknown handles. The zero Recorder is ready to use.
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
			return fmt.Errorf("record event: unknown handle %d", e.Handle)
		}
	}
	for _, e := range events {
		e.Bids, e.Asks, e.TradeDetails = slices.Clone(e.Bids), slices.Clone(e.Asks), e.TradeDetails.Clone()
		r.events = append(r.events, e)
	}
	r.batches++
	r.wake()
	return nil
}

// wake wakes all callers of Wait. mu must be held.
func (r *Recorder) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Events returns the events published so far, in order.
func (r *Recorder) Events() []market.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Of returns the events of one instrument, in order.
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

// Batches returns the number of calls of Publish.
func (r *Recorder) Batches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches
}

// Definitions returns the definitions so far, in order. A definition that changed occurs once for
// each change.
func (r *Recorder) Definitions() []market.Instrument {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.definitions)
}

// ID returns the identifier of a handle that this Recorder returned.
func (r *Recorder) ID(h market.Handle) market.InstrumentID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := r.table.id(h); id != nil {
		return *id
	}
	return market.InstrumentID{}
}

// Wait waits until enough returns true for the recorded events. enough receives the recorder's own
// slice and must not keep it. Wait returns the error of ctx.
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

// table assigns handles. They start high and leave gaps, so that a source that numbers its
// instruments itself fails.
type table struct {
	ids     []market.InstrumentID
	handles map[market.InstrumentID]market.Handle
}

const (
	firstHandle = 1000
	handleStep  = 7
)

// define returns the handle of a definition. A market as a whole, *|MARKET|*, may be defined too.
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

// index returns the index of a handle's definition, or -1 for an unknown handle.
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

// wholeMarket reports whether id is *|MARKET|*.
func wholeMarket(id market.InstrumentID) bool {
	return id.Symbol == market.Any && id.Term == market.Any &&
		market.InstrumentID{Symbol: "X", Market: id.Market, Term: "X"}.Valid()
}
