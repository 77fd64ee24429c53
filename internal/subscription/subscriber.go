package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/internal/subscription/sent"
	"github.com/ruedahq/rueda/internal/subscription/startpoint"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

type itemKey struct {
	channel wire.Channel
	id      market.InstrumentID
}

// Subscriber has the subscriptions of one connection, with its cursors in the rings. It has no
// queue, because the messages that wait for it are between its cursors and the tails. It needs no
// cursors while it is live. Its host stores it by value. Shard.Open initializes it.
type Subscriber struct {
	shard *Shard
	key   any
	itemSet
	wait *wait // nil: nothing waits except the messages of the present turn

	head, tail int32 // its entries in the present turn, from 1; 0: none
	slot       int32 // in shard.subs
	longest    uint8 // index of the longest delay that an item had, in Port.Delays, from 1; 0: none
	called     bool  // listed as ready in the present turn
	closed     bool
	strict     bool // KeepAll is on: nothing is conflated for it
}

// itemSet has the identifiers of a subscriber.
type itemSet struct {
	items []*item // in the order in which they were added
	set   *set    // nil: few items, all of them exact
}

// set has the parts of an itemSet that only sets with many identifiers or with patterns need.
type set struct {
	index    map[itemKey]*item // nil: few items, which are searched one by one
	patterns []*item
	noticed  map[noticeKey]uint64 // N of the newest notice of an instrument that was sent as an echo

	noticedBytes int // memory that is counted for noticed
}

// wait has the data that waits for a subscriber, except for the messages of the present turn.
type wait struct {
	queue   []*item    // items with something to send
	carry   []byte     // encoded frames that are sent first
	batch   *batch     // replays of the last Subscribe
	venues  []venueDue // markets whose status is due
	since   *uint64    // position from which statuses of new markets are replayed; nil: their snapshots are sent
	reading []*item    // items that wait for rows of the journal
	gated   []*item    // items that wait for a commit
	venueAt uint64     // venues wait until this position is committed; 0: no wait
	holders int        // number of replays with holds set
	slot    int        // in shard.waiters

	unfinished bool // see Subscriber.Unfinished
}

type venueDue struct {
	market string
	fresh  bool // nothing of the market was sent yet
	bare   bool // its phase was not requested
}

// item is one identifier of a set. It has only 32 bytes, because there may be millions of items.
type item struct {
	view  *view // a view without a topic while the item does not read
	sub   *Subscriber
	late  *late // nil: the item is live and receives the messages of each turn
	place int32 // index in view.readers
	flag  itemFlag
}

type itemFlag uint8

const (
	reading itemFlag = 1 << iota // it reads its own ring; no pattern sends its messages
	overlap                      // some of its instruments are owned by other items
	bare                         // it was added without snapshots
)

// late has the state of an item that is not live. Such an item is behind, or has a snapshot or a
// replay to send.
type late struct {
	at            hub.Cursor  // the next record, not past view.tail
	sent          ring.Offset // records before this are not sent: a snapshot or a replay contains them
	sentPos       uint64      // position of the newest row in that snapshot or replay
	listed        bool        // in wait.queue
	needsSnapshot bool        // a snapshot is due
	fresh         bool        // nothing of its ring was sent yet
	progress      *snapshotProgress
	replay        *itemReplay
	elsewhere     *sent.Rows // rows that other items sent, or that were sent at another delay

	gate  uint64 // nothing is sent until this position is committed; 0: no gate
	held  []byte // frames that are sent first when the gate opens
	floor uint64 // nothing at or before this position waits for the gate
}

// behind returns the late state of an item. An item that was live begins at the tail.
func (it *item) behind() *late {
	if it.late == nil {
		it.late = &late{at: it.view.tail}
	}
	return it.late
}

// skipTo records that all rows up to a position have been sent. The item continues at end in its
// ring, which may be past the view's tail. The hub's lock is held.
func (it *item) skipTo(pos uint64, end hub.Cursor) {
	l := it.behind()
	it.view.tail.Forward()
	l.at = it.view.tail
	if l.sent.Before(end.Offset()) {
		l.sent = end.Offset()
	}
	l.sentPos = max(l.sentPos, pos)
}

func (it *item) reads() bool { return it.flag&reading != 0 }

func (it *item) channel() wire.Channel { return it.view.key.Channel }

func (it *item) id() market.InstrumentID { return it.view.key.ID }

func (it *item) key() itemKey { return itemKey{it.channel(), it.id()} }

func (it *item) tier() hub.Tier { return it.view.key.Tier }

func (it *item) item() hub.Item {
	return hub.Item{Channel: it.view.key.Channel, ID: it.view.key.ID, Tier: it.view.key.Tier}
}

// waiting returns the wait of a subscriber. It makes the wait if there is none.
func (s *Subscriber) waiting() *wait {
	if s.wait == nil {
		s.wait = &wait{slot: len(s.shard.waiters)}
		s.shard.waiters = append(s.shard.waiters, s)
	}
	return s.wait
}

// rest releases the wait if nothing waits.
func (s *Subscriber) rest() {
	if w := s.wait; w != nil && len(w.queue) == 0 && len(w.carry) == 0 && len(w.venues) == 0 && len(w.reading) == 0 && len(w.gated) == 0 && (w.batch == nil || w.batch.left == 0) {
		s.unwait()
	}
}

// hold keeps the messages of the present turn, to be sent later.
func (s *Subscriber) hold() {
	for n := s.head; n != 0; {
		e := &s.shard.entries[n-1]
		e.item.late = &late{at: e.item.view.prev}
		s.enqueue(e.item)
		n = e.next
	}
	s.head, s.tail = 0, 0
}

// enqueue lists an item that has something to send.
func (s *Subscriber) enqueue(it *item) {
	if l := it.behind(); !l.listed {
		l.listed = true
		w := s.waiting()
		w.queue = append(w.queue, it)
	}
}

// queue returns the items with something to send, each once, including those that wait for rows of
// the journal or for a commit. Call hold before it.
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

// Key returns the key that was given to Shard.Open.
func (s *Subscriber) Key() any { return s.key }

// Len returns the number of identifiers in the set.
func (s *itemSet) Len() int { return len(s.items) }

// Has reports whether an identifier is in the set, as the client wrote it.
func (s *itemSet) Has(c wire.Channel, id market.InstrumentID) bool { return s.find(c, id) != nil }

// manyItems is the largest size of a set without an index.
const manyItems = 16

func (s *itemSet) find(c wire.Channel, id market.InstrumentID) *item {
	if s.set != nil && s.set.index != nil {
		return s.set.index[itemKey{c, id}]
	}
	for _, it := range s.items {
		if it.view.key.Channel == c && it.view.key.ID == id {
			return it
		}
	}
	return nil
}

// patterns returns the items with a wildcard, in the order in which they were added.
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

// List returns the items of a channel, in the order in which they were added.
func (s *itemSet) List(c wire.Channel) []hub.Item {
	var list []hub.Item
	for _, it := range s.items {
		if it.channel() == c {
			list = append(list, it.item())
		}
	}
	return list
}

// All yields all items, in the order in which they were added.
func (s *itemSet) All(yield func(hub.Item) bool) {
	for _, it := range s.items {
		if !yield(it.item()) {
			return
		}
	}
}

// Count returns the number of instruments that the items of a channel cover.
func (s *Subscriber) Count(c wire.Channel) (n int) {
	h := s.shard.hub
	var covered catalogue.Set
	h.Lock()
	patterns := false
	for _, it := range s.patterns() {
		if it.channel() == c {
			patterns = true
			h.Unite(&covered, it.id())
		}
	}
	if c == wire.OrderBook {
		h.KeepBooks(covered)
	}
	h.Unlock()
	for _, it := range s.items {
		switch {
		case it.channel() != c || it.id().IsPattern():
		case !patterns:
			n++
		default:
			if i, ok := h.Catalogue().Index(it.id()); ok {
				covered.Add(uint32(i))
			}
		}
	}
	return n + covered.Count()
}

// newItem returns an empty item. It takes a spare item if there is one.
func (s *Shard) newItem() *item {
	if len(s.spare) == 0 {
		return new(item)
	}
	it := &s.spare[0]
	s.spare = s.spare[1:]
	return it
}

// add adds an item to the set, and makes it a reader of its ring unless a pattern covers it. The
// hub's lock is held.
func (s *Subscriber) add(x hub.Item) *item {
	it := s.shard.newItem()
	it.sub = s
	if s.covering(x) != nil {
		it.view = &view{key: hub.TopicKey{Channel: x.Channel, ID: x.ID, Tier: x.Tier}}
	} else {
		s.shard.join(it, hub.TopicKey{Channel: x.Channel, ID: x.ID, Tier: x.Tier})
	}
	s.items = append(s.items, it)
	switch {
	case s.set != nil && s.set.index != nil:
		s.set.index[itemKey{x.Channel, x.ID}] = it
	case len(s.items) > manyItems:
		index := make(map[itemKey]*item)
		for _, it := range s.items {
			index[it.key()] = it
		}
		s.more().index = index
	}
	s.overlaps(it)
	if x.ID.IsPattern() {
		s.more().patterns = append(s.more().patterns, it)
	}
	return it
}

// start makes an item a reader of its ring, from the tail on. The hub's lock is held.
func (it *item) start() {
	it.sub.shard.join(it, it.view.key)
	it.sub.overlaps(it)
}

// overlaps marks an item that begins to read, and the patterns that may share instruments with it.
// rearrange removes the marks that are not needed.
func (s *itemSet) overlaps(it *item) {
	if !it.reads() {
		return
	}
	for _, p := range s.patterns() {
		switch {
		case p == it || p.channel() != it.channel() || !catalogue.Overlap(p.id(), it.id()):
		case it.id().IsPattern():
			p.flag |= overlap
			it.flag |= overlap
		default:
			p.flag |= overlap
		}
	}
}

// drop removes an item from its ring, and drops what waited for it. The hub's lock is held.
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

// pattern returns the first pattern of a channel that covers id.
func (s *itemSet) pattern(c wire.Channel, id market.InstrumentID) *item {
	for _, it := range s.patterns() {
		if it.channel() == c && it.id().Matches(id) {
			return it
		}
	}
	return nil
}

// owner returns the item that sends a channel of an instrument: the exact one, or the first pattern
// that covers it.
func (s *itemSet) owner(c wire.Channel, id market.InstrumentID) *item {
	if it := s.find(c, id); it != nil && it.reads() {
		return it
	}
	return s.pattern(c, id)
}

// rearrange updates the set after a change. It finds which patterns share instruments with other
// items, and which statuses of markets the set receives. before has the markets of the set before
// the change. The hub's lock is held.
func (s *Subscriber) rearrange(before []string) {
	for _, it := range s.items {
		if !it.reads() && s.covering(it.item()) == nil {
			it.start()
			if !it.channel().Replays() {
				it.behind().needsSnapshot = true
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
			return p.channel() == it.channel() && catalogue.Overlap(p.id(), it.id())
		}) || slices.ContainsFunc(s.items, func(x *item) bool {
			return x.channel() == it.channel() && x.reads() && !x.id().IsPattern() && it.id().Matches(x.id())
		}) {
			it.flag |= overlap
		}
	}
	s.followVenues(before)
}

// maxCompared limits the comparisons of patterns with items in rearrange.
const maxCompared = 1 << 14

// Close removes all items of the subscriber, and the subscriber from its shard. Do not use the
// subscriber afterwards.
func (s *Subscriber) Close() {
	if s.closed || s.shard == nil {
		return
	}
	s.closed = true
	sh := s.shard
	sh.hub.Lock()
	defer sh.hub.Unlock()
	for _, it := range s.items {
		if it.late != nil && it.late.replay != nil {
			it.late.replay.release(s, true)
		}
		sh.leave(it)
		sh.hub.Step(1)
	}
	sh.forget(s)
	s.unwait()
	s.dropNoticed()
	// The key is not changed: other goroutines may read it.
	s.items, s.set, s.wait, s.head, s.tail, s.called = nil, nil, nil, 0, 0, false
}

// Serves reports whether the hub serves data at a delay in seconds. A delay of 0 is real time.
func (s *Subscriber) Serves(delay int) bool {
	return delay == 0 || slices.Contains(s.shard.hub.Delays(), delay)
}

// Await begins to load the replicas that items need. It returns nil if all are loaded. Otherwise
// any goroutine calls found when the Search has ended.
func (s *Subscriber) Await(items []hub.Item, found func()) *Search {
	if w := s.shard.hub.Await(items, found); w != nil {
		return startpoint.Await(w)
	}
	return nil
}

// KeepAll sets whether the subscriber receives every quote, book update and summary. Otherwise it
// receives only their newest state when too many wait.
func (s *Subscriber) KeepAll(on bool) { s.strict = on }

// Hold adds bytes to the memory that is counted for the subscriber. bytes may be negative.
func (s *Subscriber) Hold(bytes int) { s.shard.hub.Hold(bytes) }

// Excess reports whether the memory is so full that the host must close the connections that hold
// the most.
func (s *Subscriber) Excess() bool { return s.shard.hub.MemoryFull() }
