package ndjson

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// registry is shared by all producers of a Run. It holds the sink and the instruments and markets
// defined in it.
type desk struct {
	source *Source
	fail   context.CancelCauseFunc // ends the Run

	mu          sync.Mutex // held while a producer publishes
	sink        feed.Sink
	instruments map[market.InstrumentID]*instrument
	venues      map[string]*venue
}

// instrument is a defined instrument. Its flags follow the newest definition.
type instrument struct {
	id        market.InstrumentID
	handle    market.Handle
	venue     *venue
	ownQuotes atomic.Bool
	noBook    atomic.Bool
	phase     atomic.Uint32 // market.Phase
}

// venue is a market, defined as *|MARKET|*. registry.mu guards all fields except handle and phase.
type venue struct {
	name      string
	handle    market.Handle
	phase     atomic.Uint32 // market.Phase; NoPhase: unknown
	producers int
	down      bool // feed_down was published
}

func newDesk(s *Source, sink feed.Sink, fail context.CancelCauseFunc) *desk {
	return &desk{
		source: s, sink: sink, fail: fail,
		instruments: make(map[market.InstrumentID]*instrument),
		venues:      make(map[string]*venue),
	}
}

// define lists an instrument or changes its definition.
func (d *desk) define(in market.Instrument) (*instrument, error) {
	if in.NoBook {
		in.QuotesFromFeed = true // there is no other source of quotes
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.instruments[in.ID]
	if most := d.source.config.MaxInstruments; !ok && len(d.instruments) >= most {
		return nil, fmt.Errorf("%d instruments are defined, more are not taken", most)
	}
	handle, err := d.sink.Define(in)
	if err != nil {
		return nil, err
	}
	v, err := d.openVenue(in.ID.Market)
	if err != nil {
		return nil, err
	}
	if !ok {
		i = &instrument{id: in.ID, handle: handle, venue: v}
		d.instruments[in.ID] = i
	}
	i.ownQuotes.Store(in.QuotesFromFeed)
	i.noBook.Store(in.NoBook)
	if in.Phase != market.NoPhase {
		i.phase.Store(uint32(in.Phase))
	}
	return i, nil
}

// openVenue returns a market and creates it when its first instrument is defined. mu must be held.
func (d *desk) openVenue(name string) (*venue, error) {
	if v, ok := d.venues[name]; ok {
		return v, nil
	}
	all := market.InstrumentID{Symbol: market.Any, Market: name, Term: market.Any}
	handle, err := d.sink.Define(market.Instrument{ID: all})
	if err != nil {
		return nil, err
	}
	d.source.mu.Lock()
	defer d.source.mu.Unlock()
	v := &venue{name: name, handle: handle, down: d.source.down[name]}
	d.venues[name] = v
	return v, nil
}

func (d *desk) instrument(id market.InstrumentID) *instrument {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.instruments[id]
}

func (d *desk) venue(name string) *venue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.venues[name]
}

// instrumentsOf returns the instruments of a market, sorted by handle.
func (d *desk) instrumentsOf(name string) []*instrument {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*instrument
	for _, i := range d.instruments {
		if i.venue.name == name {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, byHandle)
	return list
}

func byHandle(a, b *instrument) int { return int(a.handle) - int(b.handle) }

// publish publishes events and returns those that the sink rejected. Any other error of the sink
// ends the Run.
func (d *desk) publish(events []market.Event) []*market.Refused {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.publishLocked(events)
}

// publishLocked is publish for callers that hold mu.
func (d *desk) publishLocked(events []market.Event) []*market.Refused {
	err := d.sink.Publish(events)
	d.source.count(func(c *Stats) { c.Events += len(events) })
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	var refused []*market.Refused
	for _, e := range errs {
		r, ok := errors.AsType[*market.Refused](e)
		if !ok || r.Index < 0 || r.Index >= len(events) {
			d.fail(fmt.Errorf("ndjson: publish: %w", err))
			return refused
		}
		refused = append(refused, r)
	}
	return refused
}

// join records that a producer feeds a market. If the market's feed was down, it is up again.
func (d *desk) join(v *venue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.producers++
	if v.down {
		v.down = false
		d.publishLocked([]market.Event{{Kind: market.KindStatus, Handle: v.handle, Phase: market.FeedUp}})
	}
	d.source.mu.Lock()
	delete(d.source.down, v.name)
	d.source.mu.Unlock()
}

const reasonGone = "producer_gone"

// leave records that a producer disconnected. Its books become stale, the feeds of markets without
// other producers are down, and the instruments it used in other markets have a gap.
func (d *desk) leave(books map[*instrument]bool, used map[market.InstrumentID]*instrument, venues map[*venue]struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var events []market.Event
	for _, i := range slices.SortedFunc(maps.Keys(books), byHandle) {
		events = append(events, market.Event{Kind: market.KindGap, Handle: i.handle, Reason: reasonGone})
	}
	for _, v := range slices.SortedFunc(maps.Keys(venues), func(a, b *venue) int { return int(a.handle) - int(b.handle) }) {
		if v.producers--; v.producers > 0 {
			continue
		}
		v.down = true
		d.source.mu.Lock()
		d.source.down[v.name] = true
		d.source.mu.Unlock()
		events = append(events, market.Event{Kind: market.KindStatus, Handle: v.handle, Phase: market.FeedDown, Reason: reasonGone})
	}
	for _, i := range slices.SortedFunc(maps.Values(used), byHandle) {
		if _, told := books[i]; !told && i.venue.producers > 0 {
			events = append(events, market.Event{Kind: market.KindStatus, Handle: i.handle, Phase: market.Gap, Reason: reasonGone})
		}
	}
	if len(events) > 0 {
		d.publishLocked(events)
	}
}
