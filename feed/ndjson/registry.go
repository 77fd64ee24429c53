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
type registry struct {
	source *Source
	fail   context.CancelCauseFunc // ends the Run

	mu          sync.Mutex // held while a producer publishes
	sink        feed.Sink
	instruments map[market.InstrumentID]*instrument
	defined     map[string]int // instruments by the subject of the certificate that defined them first
	venues      map[string]*venue
	names       map[string]*producer // those that have a name
	events      []market.Event       // of the batch that is published
	entries     []*entry             // the entry of each event
}

// instrument is a defined instrument. Its flags follow the newest definition. registry.mu guards
// the fields after them.
type instrument struct {
	id             market.InstrumentID
	handle         market.Handle
	venue          *venue
	quotesFromFeed atomic.Bool
	noBook         atomic.Bool

	owner    *producer // that defined it; nil: it has disconnected
	phase    market.Phase
	book     *market.Book // nil: not complete
	hasBook  bool         // an O or Gap line was published
	stale    bool         // a gap of the book was published, and no complete book since
	afterGap bool         // the newest event is a gap
}

// venue is a market, defined as *|MARKET|*. registry.mu guards all fields except handle.
type venue struct {
	name      string
	handle    market.Handle
	phase     market.Phase // NoPhase: unknown
	owner     *producer    // that publishes the status of the market; nil: none has yet
	producers int
	down      bool // feed_down was published
}

func newRegistry(s *Source, sink feed.Sink, fail context.CancelCauseFunc) *registry {
	return &registry{
		source: s, sink: sink, fail: fail,
		instruments: make(map[market.InstrumentID]*instrument),
		defined:     make(map[string]int),
		venues:      make(map[string]*venue),
		names:       make(map[string]*producer),
	}
}

// errForeign reports that another producer has the instrument.
var errForeign = errors.New("belongs to another producer")

// define lists an instrument of a producer or changes its definition. The instrument belongs to the
// producer until it disconnects.
func (r *registry) define(p *producer, in market.Instrument) (*instrument, error) {
	if in.NoBook {
		in.QuotesFromFeed = true // there is no other source of quotes
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.instruments[in.ID]
	if ok && i.owner != nil && i.owner != p {
		return nil, errForeign
	}
	if most := r.source.config.MaxInstruments; !ok && r.defined[p.subject] >= most {
		return nil, fmt.Errorf("%d instruments are defined, which is the limit", most)
	}
	handle, err := r.sink.Define(in)
	if err != nil {
		return nil, err
	}
	v, err := r.openVenue(in.ID.Market)
	if err != nil {
		return nil, err
	}
	if !ok {
		i = &instrument{id: in.ID, handle: handle, venue: v}
		r.instruments[in.ID] = i
		r.defined[p.subject]++
	}
	i.owner = p
	i.quotesFromFeed.Store(in.QuotesFromFeed)
	i.noBook.Store(in.NoBook)
	if in.Phase != market.NoPhase && (in.Phase != market.Unknown || !ok) {
		i.phase = in.Phase
	}
	return i, nil
}

// openVenue returns a market and creates it when its first instrument is defined. mu must be held.
func (r *registry) openVenue(name string) (*venue, error) {
	if v, ok := r.venues[name]; ok {
		return v, nil
	}
	all := market.InstrumentID{Symbol: market.Any, Market: name, Term: market.Any}
	handle, err := r.sink.Define(market.Instrument{ID: all})
	if err != nil {
		return nil, err
	}
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	v := &venue{name: name, handle: handle, down: r.source.down[name]}
	r.venues[name] = v
	return v, nil
}

// belongsToOther reports whether an instrument belongs to another producer than p.
func (r *registry) belongsToOther(id market.InstrumentID, p *producer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.instruments[id]
	return i != nil && i.owner != nil && i.owner != p
}

// claim makes p the only producer of a market's status until it disconnects. It returns false if
// another producer has claimed it.
func (r *registry) claim(v *venue, p *producer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.owner == nil {
		v.owner = p
	}
	return v.owner == p
}

// claimed reports whether a producer has claimed the status of a market.
func (r *registry) claimed(v *venue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return v.owner != nil
}

// enter registers the name of a producer, if it has one. A producer that has the name already is
// disconnected, and enter waits until it has left. It returns errForeign if that one has another
// client certificate, or an error if ctx ends.
func (r *registry) enter(ctx context.Context, p *producer) error {
	for p.name != "" {
		r.mu.Lock()
		old := r.names[p.name]
		if old == nil {
			r.names[p.name] = p
		}
		r.mu.Unlock()
		if old == nil {
			break
		}
		if old.subject != p.subject {
			return errForeign
		}
		old.replace()
		select {
		case <-old.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *registry) venue(name string) *venue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.venues[name]
}

func byHandle(a, b *instrument) int { return int(a.handle) - int(b.handle) }

// send publishes events and returns those that the sink rejected. Any other error of the sink ends
// the Run. mu must be held.
func (r *registry) send(events []market.Event) []*market.Refused {
	err := r.sink.Publish(events)
	r.source.count(func(c *Stats) { c.Events += len(events) })
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	var refused []*market.Refused
	for _, e := range errs {
		rejected, ok := errors.AsType[*market.Refused](e)
		if !ok || rejected.Index < 0 || rejected.Index >= len(events) {
			r.fail(fmt.Errorf("ndjson: publish: %w", err))
			return refused
		}
		refused = append(refused, rejected)
	}
	return refused
}

// join records that a producer feeds a market. If the market's feed was down, it is up again.
func (r *registry) join(v *venue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.producers++
	if v.down {
		v.down = false
		r.send([]market.Event{{Kind: market.KindStatus, Handle: v.handle, Phase: market.FeedUp}})
	}
	r.source.mu.Lock()
	delete(r.source.down, v.name)
	r.source.mu.Unlock()
}

// leave records that a producer disconnected. Its name, instruments and markets become free. Its
// books become stale, the feeds of markets without other producers are down, and its instruments in
// other markets have a gap, unless its numbers are stored.
func (r *registry) leave(p *producer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[p.name] == p {
		delete(r.names, p.name)
	}
	var events []market.Event
	for _, i := range slices.SortedFunc(maps.Keys(p.books), byHandle) {
		i.markStale()
		gone := market.Event{Kind: market.KindGap, Handle: i.handle, Reason: reasonDisconnected}
		if p.resumed != nil { // it continues with its numbers, or there is a gap then
			gone.Kind, gone.Phase = market.KindStatus, market.FeedDown
		}
		events = append(events, gone)
	}
	for _, v := range slices.SortedFunc(maps.Keys(p.venues), func(a, b *venue) int { return int(a.handle) - int(b.handle) }) {
		if v.owner == p {
			v.owner = nil
		}
		if v.producers--; v.producers > 0 {
			continue
		}
		v.down = true
		r.source.mu.Lock()
		r.source.down[v.name] = true
		r.source.mu.Unlock()
		events = append(events, market.Event{Kind: market.KindStatus, Handle: v.handle, Phase: market.FeedDown, Reason: reasonDisconnected})
	}
	for _, i := range slices.SortedFunc(maps.Values(p.known), byHandle) {
		i.owner = nil
		if _, alreadyStale := p.books[i]; !alreadyStale && i.venue.producers > 0 && p.resumed == nil {
			events = append(events, market.Event{Kind: market.KindStatus, Handle: i.handle, Phase: market.Gap, Reason: reasonDisconnected})
		}
	}
	if len(events) > 0 {
		r.send(events)
	}
}
