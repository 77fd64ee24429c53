package stream

import (
	"slices"

	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/internal/ring"
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
// rings. It has no queue: what waits for it is what lies behind its cursors, and
// one that keeps up has not even those. It lies by value in its host's memory;
// Shard.Open begins it.
type Subscriber struct {
	shard *Shard
	key   any
	itemSet
	wait *wait // nil: nothing waits but what the present turn brought

	head, tail int32 // of its entries in the present turn, from 1; 0: none
	slot       int32 // in shard.subs
	longest    uint8 // the longest delay that an item had: the place of its replica, from 1; 0: none
	called     bool  // in the present turn
	closed     bool
	strict     bool // nothing of it is collapsed
}

// itemSet is the identifiers of a subscriber.
type itemSet struct {
	items []*item // by arrival
	set   *set    // nil: few items, all of them exact
}

// set is what a larger or less plain set of subscriptions needs.
type set struct {
	index    map[itemKey]*item // nil: few items
	patterns []*item
	noticed  map[noticeKey]uint64 // N of the newest notice of an instrument sent by echo

	noticedBytes int // counted for them
}

// wait is what waits for a subscriber beyond the present turn.
type wait struct {
	queue   []*item    // those with something to gather
	carry   []byte     // frames made ahead of time; they go out first
	batch   *batch     // of the last Subscribe
	venues  []venueDue // markets as a whole whose state is due
	since   *uint64    // position from which on the statuses of those new to the set are sent again; nil: their state is
	reading []*item    // that wait for rows of the journal, or for their turn to
	gated   []*item    // that wait for a commit
	venueAt uint64     // the commit that venues wait for; 0: none
	holders int        // replays that hold
	slot    int        // in shard.waiters

	unfinished bool // see Subscriber.Unfinished
}

type venueDue struct {
	market string
	fresh  bool // nothing of it was told yet
	bare   bool // its phase was not asked for
}

// item is one identifier of the set at work: 32 bytes, since there may be millions.
type item struct {
	view  *view // of itself alone when it does not read
	sub   *Subscriber
	late  *late // nil: it takes what each turn brings
	place int32 // in view.readers
	flag  itemFlag
}

type itemFlag uint8

const (
	reading itemFlag = 1 << iota // not shadowed
	overlap                      // some of its instruments are another item's
	bare                         // it began without snapshots
)

// late is the place of an item that does not simply take what each turn brings.
type late struct {
	at        cursor      // next record, not past view.tail
	sent      ring.Offset // what lies before is not for it: a state or a replay has sent it
	sentPos   uint64      // position of the newest row that was sent by those
	listed    bool        // in the queue
	state     bool        // an R:true is due
	fresh     bool        // nothing of its ring was gathered yet
	telling   *telling
	replay    *replay
	elsewhere *sentRows // rows that were sent by others, or at another delay; nil: none

	gate  uint64 // nothing is gathered until this position is committed; 0: it is open
	held  []byte // frames to gather first then
	floor uint64 // nothing at or before this position waits for the gate
}

// behind gives an item a place of its own.
func (it *item) behind() *late {
	if it.late == nil {
		it.late = &late{at: it.view.tail}
	}
	return it.late
}

// skipTo records that all rows up to a position have been sent. The item continues at end in its
// ring, which may lie beyond the view's tail. The hub's lock is held.
func (it *item) skipTo(pos uint64, end cursor) {
	l := it.behind()
	it.view.tail.Forward()
	l.at = it.view.tail
	if l.sent.Before(end.Offset()) {
		l.sent = end.Offset()
	}
	l.sentPos = max(l.sentPos, pos)
}

func (it *item) reads() bool { return it.flag&reading != 0 }

func (it *item) channel() wire.Channel { return it.view.key.channel }

func (it *item) id() market.InstrumentID { return it.view.key.id }

func (it *item) tier() Tier { return it.view.key.tier }

func (it *item) item() Item { return Item{it.view.key.channel, it.view.key.id, it.view.key.tier} }

// waiting makes room for what waits.
func (s *Subscriber) waiting() *wait {
	if s.wait == nil {
		s.wait = &wait{slot: len(s.shard.waiters)}
		s.shard.waiters = append(s.shard.waiters, s)
	}
	return s.wait
}

// rest lets go of the room once nothing is in it.
func (s *Subscriber) rest() {
	if w := s.wait; w != nil && len(w.queue) == 0 && len(w.carry) == 0 && len(w.venues) == 0 && len(w.reading) == 0 && len(w.gated) == 0 && (w.batch == nil || w.batch.left == 0) {
		s.unwait()
	}
}

// hold keeps what the present turn brought for later.
func (s *Subscriber) hold() {
	for n := s.head; n != 0; {
		e := &s.shard.entries[n-1]
		e.item.late = &late{at: e.item.view.prev}
		s.enqueue(e.item)
		n = e.next
	}
	s.head, s.tail = 0, 0
}

// enqueue lists an item as having something to gather.
func (s *Subscriber) enqueue(it *item) {
	if l := it.behind(); !l.listed {
		l.listed = true
		w := s.waiting()
		w.queue = append(w.queue, it)
	}
}

// queue is the items with something to gather, once hold has been called; those too that
// wait for rows of the journal or for a commit. Each is there once.
func (s *Subscriber) queue() []*item {
	switch {
	case s.wait == nil:
		return nil
	case len(s.wait.reading)+len(s.wait.gated) > 0:
		listed := func(it *item) bool { return it.late != nil && it.late.listed } // in the queue already
		return append(slices.Clone(s.wait.queue), slices.DeleteFunc(slices.Concat(s.wait.reading, s.wait.gated), listed)...)
	}
	return s.wait.queue
}

// Key is what Shard.Open was given.
func (s *Subscriber) Key() any { return s.key }

// Len is the number of identifiers in the set.
func (s *itemSet) Len() int { return len(s.items) }

// Has says whether an identifier is in the set, as written.
func (s *itemSet) Has(c wire.Channel, id market.InstrumentID) bool { return s.find(c, id) != nil }

// manyItems are found by a map, fewer by looking at each.
const manyItems = 16

func (s *itemSet) find(c wire.Channel, id market.InstrumentID) *item {
	if s.set != nil && s.set.index != nil {
		return s.set.index[itemKey{c, id}]
	}
	for _, it := range s.items {
		if it.view.key.channel == c && it.view.key.id == id {
			return it
		}
	}
	return nil
}

// patterns are the items that are such, by arrival.
func (s *itemSet) patterns() []*item {
	if s.set == nil {
		return nil
	}
	return s.set.patterns
}

func (s *itemSet) more() *set {
	if s.set == nil {
		s.set = &set{}
	}
	return s.set
}

// List is a channel's part of the set, as written, in the order of arrival.
func (s *itemSet) List(c wire.Channel) []Item {
	var list []Item
	for _, it := range s.items {
		if it.channel() == c {
			list = append(list, it.item())
		}
	}
	return list
}

// All goes through the set, as written, in the order of arrival.
func (s *itemSet) All(yield func(Item) bool) {
	for _, it := range s.items {
		if !yield(it.item()) {
			return
		}
	}
}

// Count returns the number of instruments that a channel's part of the set covers.
func (s *Subscriber) Count(c wire.Channel) (n int) {
	h := s.shard.hub
	var covered catalogue.Set
	h.mu.Lock()
	patterns := false
	for _, it := range s.patterns() {
		if it.channel() == c {
			patterns = true
			covered.Unite(h.group(it.id()).Set)
		}
	}
	if c == wire.OrderBook {
		covered.Intersect(h.withBook)
	}
	h.mu.Unlock()
	for _, it := range s.items {
		switch {
		case it.channel() != c || it.id().IsPattern():
		case !patterns:
			n++
		default:
			if i, ok := h.catalog.Index(it.id()); ok {
				covered.Add(uint32(i))
			}
		}
	}
	return n + covered.Count()
}

// newItem takes from the room, or makes more.
func (s *Shard) newItem() *item {
	if len(s.spare) == 0 {
		return new(item)
	}
	it := &s.spare[0]
	s.spare = s.spare[1:]
	return it
}

// add puts an item into the set and starts its reading. The hub's lock is held.
func (s *Subscriber) add(x Item) *item {
	it := s.shard.newItem()
	it.sub = s
	if s.shadowed(x) {
		it.view = &view{key: topicKey{x.Channel, x.ID, x.Tier}}
	} else {
		s.shard.join(it, topicKey{x.Channel, x.ID, x.Tier})
	}
	s.items = append(s.items, it)
	switch {
	case s.set != nil && s.set.index != nil:
		s.set.index[itemKey{x.Channel, x.ID}] = it
	case len(s.items) > manyItems:
		index := make(map[itemKey]*item)
		for _, it := range s.items {
			index[itemKey{it.channel(), it.id()}] = it
		}
		s.more().index = index
	}
	s.overlaps(it)
	if x.ID.IsPattern() {
		s.more().patterns = append(s.more().patterns, it)
	}
	return it
}

// start makes an item read from now on. The hub's lock is held.
func (it *item) start() {
	it.sub.shard.join(it, it.view.key)
	it.sub.overlaps(it)
}

// overlaps marks the patterns that may share instruments with an item that begins to read, and the
// item itself. rearrange takes back the marks that are not needed.
func (s *itemSet) overlaps(it *item) {
	if !it.reads() {
		return
	}
	for _, p := range s.patterns() {
		switch {
		case p == it || p.channel() != it.channel() || !intersect(p.id(), it.id()):
		case it.id().IsPattern():
			p.flag |= overlap
			it.flag |= overlap
		default:
			p.flag |= overlap
		}
	}
}

// drop ends an item's reading and forgets what was due to it. The hub's lock is held.
func (it *item) drop() {
	s := it.sub
	if l := it.late; l != nil {
		if l.replay != nil {
			l.replay.done(s, false)
		}
		if l.listed {
			s.wait.queue = without(s.wait.queue, it)
		}
		if l.gate != 0 {
			s.wait.gated = without(s.wait.gated, it)
		}
		if l.replay != nil && l.replay.waits {
			s.wait.reading = without(s.wait.reading, it)
		}
		if l.replay != nil && l.replay.holds {
			l.replay.release(s, true)
			s.fetchNext()
		}
	}
	it.late = nil
	s.shard.leave(it)
}

func without(list []*item, it *item) []*item {
	if i := slices.Index(list, it); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// shadowed says whether a pattern that came before feeds an exact item with the same tier.
func (s *itemSet) shadowed(x Item) bool {
	if x.ID.IsPattern() {
		return false
	}
	p := s.pattern(x.Channel, x.ID)
	return p != nil && p.tier() == x.Tier
}

// pattern is the first pattern of a channel that covers id.
func (s *itemSet) pattern(c wire.Channel, id market.InstrumentID) *item {
	for _, it := range s.patterns() {
		if it.channel() == c && it.id().Matches(id) {
			return it
		}
	}
	return nil
}

// owner is the item by which a subscriber gets an instrument's channel: the exact one,
// or else the first pattern that covers it.
func (s *itemSet) owner(c wire.Channel, id market.InstrumentID) *item {
	if it := s.find(c, id); it != nil && it.reads() {
		return it
	}
	return s.pattern(c, id)
}

// rearrange finds anew which patterns share instruments with other items, and whose
// market-wide statuses concern it. before are the markets that did until now. The
// hub's lock is held.
func (s *Subscriber) rearrange(before []string) {
	for _, it := range s.items {
		if !it.reads() && !s.shadowed(it.item()) {
			it.start()
			if !it.channel().Replays() {
				it.behind().state = true
				s.enqueue(it)
			}
		}
	}
	patterns := s.patterns()
	if len(patterns)*len(s.items) > maxCompared {
		patterns = nil // they stay marked; see overlaps
	}
	for i, it := range patterns {
		it.flag &^= overlap
		if slices.ContainsFunc(patterns[:i], func(p *item) bool {
			return p.channel() == it.channel() && intersect(p.id(), it.id())
		}) || slices.ContainsFunc(s.items, func(x *item) bool {
			return x.channel() == it.channel() && x.reads() && !x.id().IsPattern() && it.id().Matches(x.id())
		}) {
			it.flag |= overlap
		}
	}
	s.followVenues(before)
}

// maxCompared bounds the comparisons of patterns with items by which marks are taken back.
const maxCompared = 1 << 14

func intersect(a, b market.InstrumentID) bool {
	meet := func(x, y string) bool { return x == y || x == market.Any || y == market.Any }
	return meet(a.Symbol, b.Symbol) && meet(a.Market, b.Market) && meet(a.Term, b.Term)
}

// Close gives everything back. The subscriber is not used afterwards.
func (s *Subscriber) Close() {
	if s.closed || s.shard == nil {
		return
	}
	s.closed = true
	sh := s.shard
	sh.hub.mu.Lock()
	defer sh.hub.mu.Unlock()
	for _, it := range s.items {
		if it.late != nil && it.late.replay != nil {
			it.late.replay.release(s, true)
		}
		sh.leave(it)
		sh.hub.mu.step()
	}
	sh.forget(s)
	s.unwait()
	s.dropNoticed()
	// The key stays untouched: others may be reading it.
	s.items, s.set, s.wait, s.head, s.tail, s.called = nil, nil, nil, 0, 0, false
}
