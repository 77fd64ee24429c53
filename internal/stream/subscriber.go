package stream

import (
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Item is an identifier of a subscription as the client wrote it: exact or a pattern.
type Item struct {
	Channel wire.Channel
	ID      market.InstrumentID
	Tier    Tier
}

type itemKey struct {
	channel wire.Channel
	id      market.InstrumentID
}

// Subscriber is one connection's set of subscriptions and its places in the
// rings. It has no queue: what waits for it is what lies behind its cursors.
type Subscriber struct {
	hub   *Hub
	shard *Shard
	key   any

	items    map[itemKey]*item
	order    []*item // by arrival
	patterns []*item // those of order that are patterns
	venues   []*item // market-wide statuses, by market; not of the client's set
	queue    []*item // those with something to gather
	carry    []byte  // frames made ahead of time; they go out first
	batch    *batch  // of the last Subscribe

	noticed map[*instrument]uint64 // N of the newest notice of an instrument sent by echo
	called  bool                   // in the present Turn
	closed  bool
}

// item is one identifier of the set at work.
type item struct {
	Item
	sub *Subscriber

	view  *view // nil: shadowed
	at    cursor
	place int // in view.readers

	queued  bool
	state   bool // an R:true is due
	fresh   bool // nothing of its ring was gathered yet
	overlap bool // some of its instruments are another item's
	replay  *replay
}

// Key is what NewSubscriber was given.
func (s *Subscriber) Key() any { return s.key }

// Len is the number of identifiers in the set.
func (s *Subscriber) Len() int { return len(s.order) }

// Has says whether an identifier is in the set, as written.
func (s *Subscriber) Has(c wire.Channel, id market.InstrumentID) bool {
	_, ok := s.items[itemKey{c, id}]
	return ok
}

// List is a channel's part of the set, as written, in the order of arrival.
func (s *Subscriber) List(c wire.Channel) []Item {
	var list []Item
	for _, it := range s.order {
		if it.Channel == c {
			list = append(list, it.Item)
		}
	}
	return list
}

// Count is the number of instruments a channel's part of the set covers.
func (s *Subscriber) Count(c wire.Channel) int {
	n := 0
	for _, it := range s.order {
		if it.Channel == c && !it.ID.IsPattern() {
			n++
		}
	}
	if len(s.patterns) == 0 {
		return n
	}
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range h.listed {
		if _, exact := s.items[itemKey{c, in.id}]; !exact && in.serves(c) && s.pattern(c, in.id) != nil {
			n++
		}
	}
	return n
}

// serves says whether an instrument has a channel at all.
func (in *instrument) serves(c wire.Channel) bool {
	return c != wire.OrderBook || !in.def.NoBook
}

// add puts an item into the set and starts its reading. The hub's lock is held.
func (s *Subscriber) add(x Item) *item {
	it := &item{Item: x, sub: s}
	if s.items == nil {
		s.items = make(map[itemKey]*item)
	}
	s.items[itemKey{x.Channel, x.ID}] = it
	s.order = append(s.order, it)
	if x.ID.IsPattern() {
		s.patterns = append(s.patterns, it)
	}
	if !s.shadowed(it) {
		s.start(it)
	}
	return it
}

// start makes an item read from now on. The hub's lock is held.
func (s *Subscriber) start(it *item) {
	s.shard.join(it, topicKey{it.Channel, it.ID, it.Tier})
	it.fresh = true
}

// drop ends an item's reading and forgets what was due to it. The hub's lock is held.
func (s *Subscriber) drop(it *item) {
	s.shard.leave(it)
	it.state = false
	if it.replay != nil {
		it.replay.done(s)
		it.replay = nil
	}
	if it.queued {
		s.queue = without(s.queue, it)
		it.queued = false
	}
}

func without(list []*item, it *item) []*item {
	if i := slices.Index(list, it); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// enqueue lists the item as having something to gather.
func (it *item) enqueue() {
	if !it.queued {
		it.queued = true
		it.sub.queue = append(it.sub.queue, it)
	}
}

// shadowed says whether a pattern that came before feeds an exact item with the same tier.
func (s *Subscriber) shadowed(it *item) bool {
	if it.ID.IsPattern() {
		return false
	}
	p := s.pattern(it.Channel, it.ID)
	return p != nil && p.Tier == it.Tier
}

// pattern is the first pattern of a channel that covers id.
func (s *Subscriber) pattern(c wire.Channel, id market.InstrumentID) *item {
	for _, it := range s.patterns {
		if it.Channel == c && it.ID.Matches(id) {
			return it
		}
	}
	return nil
}

// owner is the item by which a subscriber gets an instrument's channel: the exact one,
// or else the first pattern that covers it.
func (s *Subscriber) owner(c wire.Channel, id market.InstrumentID) *item {
	if it := s.items[itemKey{c, id}]; it != nil && it.view != nil {
		return it
	}
	return s.pattern(c, id)
}

// rearrange finds anew which patterns share instruments with other items, and
// who reads the market-wide statuses. The hub's lock is held.
func (s *Subscriber) rearrange() {
	for i, it := range s.patterns {
		it.overlap = slices.ContainsFunc(s.patterns[:i], func(p *item) bool {
			return p.Channel == it.Channel && intersect(p.ID, it.ID)
		}) || slices.ContainsFunc(s.order, func(x *item) bool {
			return x.Channel == it.Channel && x.view != nil && !x.ID.IsPattern() && it.ID.Matches(x.ID)
		})
	}
	for _, it := range s.order {
		if it.view == nil && !s.shadowed(it) {
			s.start(it)
			if it.Channel == wire.Quotes || it.Channel == wire.OrderBook {
				it.state = true
				it.enqueue()
			}
		}
	}
	s.followVenues()
}

func intersect(a, b market.InstrumentID) bool {
	meet := func(x, y string) bool { return x == y || x == market.Any || y == market.Any }
	return meet(a.Symbol, b.Symbol) && meet(a.Market, b.Market) && meet(a.Term, b.Term)
}

// followVenues reads the market-wide statuses of the markets the set touches.
func (s *Subscriber) followVenues() {
	want := make(map[string]bool)
	for _, it := range s.order {
		want[it.ID.Market] = true
	}
	if want[market.Any] {
		clear(want)
		want[market.Any] = true
	}
	kept := s.venues[:0]
	for _, v := range s.venues {
		if want[v.ID.Market] {
			delete(want, v.ID.Market)
			kept = append(kept, v)
		} else {
			s.drop(v)
		}
	}
	clear(s.venues[len(kept):])
	s.venues = kept
	for _, it := range s.order { // in the order of arrival, so that runs are alike
		if m := it.ID.Market; want[m] || want[market.Any] {
			if want[market.Any] {
				m = market.Any
			}
			delete(want, m)
			v := &item{Item: Item{Channel: marketStatus, ID: market.InstrumentID{Symbol: market.Any, Market: m, Term: market.Any}}, sub: s}
			s.venues = append(s.venues, v)
			s.start(v)
			v.state = true
			v.enqueue()
		}
	}
}

// followsStatus says whether the set has status of a market, which market-wide statuses come with.
func (s *Subscriber) followsStatus(m string) bool {
	for _, it := range s.order {
		if it.Channel == wire.Status && (it.ID.Market == m || it.ID.Market == market.Any) {
			return true
		}
	}
	return false
}

// Close gives everything back. The subscriber is not used afterwards.
func (s *Subscriber) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, it := range s.order {
		s.shard.leave(it)
	}
	for _, it := range s.venues {
		s.shard.leave(it)
	}
	*s = Subscriber{hub: s.hub, shard: s.shard, key: s.key, closed: true}
}
