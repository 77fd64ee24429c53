package stream

import (
	"sync/atomic"

	"github.com/ruedahq/rueda/internal/deflate"
	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Shard is the part of the hub that belongs to one goroutine with connections. Only that goroutine
// calls methods of the shard and of its subscribers.
type Shard struct {
	hub   *Hub
	index int
	wake  func(urgent bool)

	touched []*topic // topics with new messages since the last Turn; guarded by the hub's lock
	woken   bool     // wake was called since the last Turn; guarded by the hub's lock
	urgent  bool     // wake was called as urgent since the last Turn; guarded by the hub's lock

	views     map[*topic]*view
	subs      []*Subscriber
	venue     *view          // view of all market-wide statuses; nil without subscribers
	news      []*Subscriber  // subscribers that got market-wide statuses since the last Turn
	position  uint64         // the last Turn took all messages up to this position of the hub
	delayed   []uint64       // the same for each replica
	fetched   []fetch        // finished reads of the journal; guarded by the hub's lock
	gates     []gate         // messages that wait for a commit; guarded by the hub's lock
	reaches   []reach        // items that wait for a replica; guarded by the hub's lock
	nextReach map[int]uint64 // the first position in reaches for each delay
	awaits    bool           // AwaitCommit postponed a turn; guarded by the hub's lock

	// The present turn.
	turn    []*topic // reused
	ready   []*Subscriber
	next    int // index in ready
	entries []entry

	visited int // instruments that the present Gather has visited for snapshots

	spare []item // memory for the items of the present Subscribe

	measure atomic.Bool // the next Turn reports which segments of rings the shard holds
	report  report
	waiters []*Subscriber // subscribers with a wait

	noticing map[*Subscriber]struct{} // subscribers that remember notices

	transcoder wire.Transcoder
	scratch    []byte
	message    [1024]byte
}

// entry states that the present turn has messages for an item. The entries of a subscriber are
// linked.
type entry struct {
	item *item
	next int32 // index of the subscriber's next entry, from 1; 0: none
}

// NewShard adds a shard and returns it. The hub calls wake under its lock when the shard has
// something new. It calls wake again, with urgent, when many bytes of one topic wait. wake must not
// block and must not call back.
func (h *Hub) NewShard(wake func(urgent bool)) *Shard {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Shard{hub: h, index: len(h.shards), wake: wake, views: make(map[*topic]*view), noticing: make(map[*Subscriber]struct{}), nextReach: make(map[int]uint64), delayed: make([]uint64, len(h.replicas))}
	s.note()
	s.transcoder.Compress = new(deflate.Compressor).Append
	h.shards = append(h.shards, s)
	for _, tp := range h.topics {
		tp.seen = append(tp.seen, shardSeen{})
	}
	return s
}

// Open initializes a subscriber, which is in its host's memory. The host finds the subscriber by
// key.
func (s *Shard) Open(sub *Subscriber, key any) {
	*sub = Subscriber{shard: s, key: key, slot: int32(len(s.subs))}
	s.subs = append(s.subs, sub)
	if s.venue == nil {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		s.venue = s.view(topicKey{channel: state.MarketStatus, id: market.InstrumentID{Symbol: market.Any, Market: market.Any, Term: market.Any}})
		s.venue.prev = s.venue.tail
		s.venue.read(s)
		s.hub.published()
	}
}

// forget removes a subscriber from the shard's list. The hub's lock is held.
func (s *Shard) forget(sub *Subscriber) {
	last := len(s.subs) - 1
	s.subs[sub.slot] = s.subs[last]
	s.subs[sub.slot].slot = sub.slot
	s.subs[last] = nil
	s.subs = s.subs[:last]
	if last == 0 {
		s.venue.unread(s)
		s.venue = nil
	}
}

func (s *Shard) touch(tp *topic) { s.touched = append(s.touched, tp) }

// urgentBytes is the number of new bytes of one topic that wakes a shard with urgent. A shard does
// not delay them in order to write more at once.
const urgentBytes = 16 << 10

func (s *Shard) wakeIfTouched() {
	if !s.woken && (len(s.touched) > 0 || s.opened() || s.reached()) {
		s.woken = true
		s.wake(s.awaits)
	}
}

func (s *Shard) wakeUrgently() {
	if !s.urgent {
		s.urgent = true
		s.wake(true)
	}
}

// Turn notes what was published since the last Turn. After it, Next returns the subscribers that
// have something to gather.
func (s *Shard) Turn() {
	for s.Next() != nil { // ends a turn that the host left early
	}
	s.entries = s.entries[:0]
	s.reportHeld()
	fetched, open, reached := s.takeTails()
	for _, tp := range s.turn {
		if tp != nil {
			s.collect(s.views[tp])
		}
	}
	clear(s.turn)
	s.passVenues()
	s.takeFetched(fetched)
	s.open(open)
	s.openReached(reached)
	for i, sub := range s.news {
		s.mark(sub)
		s.news[i] = nil
	}
	s.news = s.news[:0]
}

// takeTails notes the present tail of each touched ring. It returns the rows that were read, the
// open gates, and the items whose replica has reached its position.
func (s *Shard) takeTails() (fetched []fetch, open []gate, reached []reach) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	h.commit()
	s.turn, s.touched = s.touched, s.turn[:0]
	fetched, s.fetched = s.fetched, nil
	s.woken, s.urgent, s.awaits = false, false, false
	s.note()
	open, reached = s.takeGates(), s.takeReached()
	if h.taken != nil {
		close(h.taken)
		h.taken = nil
	}
	for i, tp := range s.turn {
		seen := &tp.seen[s.index]
		seen.touched, seen.bytes = false, 0
		switch v := s.views[tp]; {
		case v == nil:
			s.turn[i] = nil
		case v == s.venue:
			s.takeVenues()
			s.turn[i] = nil
		default:
			if !v.advance(h.reached(v.key.tier.Delay), h.cfg.PerTurn) {
				s.holdBack(v.key.tier.Delay, v.pos)
				seen.touched = true
				s.touch(tp)
			}
		}
		if h.mu.visit(1); h.mu.full() { // each view has its own position; that of the shard is from the beginning of the turn
			h.mu.pause()
		}
	}
	s.wakeIfTouched() // for the messages that this turn leaves
	if len(h.grown) > 0 {
		h.commitNow()
	}
	return fetched, open, reached
}

// collect lists the readers of a view that has new messages in this turn.
func (s *Shard) collect(v *view) {
	v.join()
	for _, it := range v.readers {
		sub := it.sub
		if it.late != nil {
			sub.enqueue(it)
		} else {
			s.entries = append(s.entries, entry{item: it})
			n := int32(len(s.entries))
			if sub.head == 0 {
				sub.head = n
			} else {
				s.entries[sub.tail-1].next = n
			}
			sub.tail = n
		}
		s.mark(sub)
	}
}

func (s *Shard) mark(sub *Subscriber) {
	if !sub.called && !sub.closed {
		sub.called = true
		s.ready = append(s.ready, sub)
	}
}

// Next returns the next subscriber of this turn that has something to gather, or nil at the end.
// Between two calls, the host may call any method of any subscriber.
func (s *Shard) Next() *Subscriber {
	for {
		if s.next > 0 {
			// Messages that the host did not gather for the previous subscriber wait from now on.
			s.ready[s.next-1].hold()
			s.ready[s.next-1] = nil
		}
		if s.next == len(s.ready) {
			s.ready, s.next = s.ready[:0], 0
			return nil
		}
		sub := s.ready[s.next]
		s.next++
		sub.called = false
		if !sub.closed {
			return sub
		}
	}
}

// join makes an item a reader of a topic, from the tail of its ring on. The hub's lock is held.
func (s *Shard) join(it *item, key topicKey) {
	v := s.view(key)
	v.read(s)
	if c := s.hub.replica(key.tier.Delay); c != nil && (it.sub.longest == 0 || s.hub.replicas[it.sub.longest-1].delay < c.delay) {
		it.sub.longest = uint8(c.index + 1)
	}
	it.view, it.late, it.place = v, nil, int32(len(v.readers))
	it.flag |= reading
	v.readers = append(v.readers, it)
	v.tail.Forward()
	if v.tail != v.topic.ring.Tail() {
		// Messages that the shard has not noted yet were published before the item joined.
		it.late = &late{at: v.tail, sent: v.topic.ring.Tail().Offset(), sentPos: s.hub.reached(key.tier.Delay)}
	}
}

// view returns the shard's view of a topic. It makes the view and the topic if they do not exist.
// The hub's lock is held.
func (s *Shard) view(key topicKey) *view {
	tp := s.hub.topic(key)
	v := s.views[tp]
	if v == nil {
		v = &view{key: key, topic: tp, tail: tp.ring.Tail(), pos: s.hub.reached(key.tier.Delay)}
		_, v.echoes = tp.ring.Echoes()
		s.views[tp] = v
		tp.seen[s.index].oldest = v.tail.Segment()
	}
	return v
}

// leave removes an item from the readers of its view. The hub's lock is held.
func (s *Shard) leave(it *item) {
	if it.flag&reading == 0 {
		return
	}
	v := it.view
	last := int32(len(v.readers) - 1)
	v.readers[it.place] = v.readers[last]
	v.readers[it.place].place = it.place
	v.readers[last] = nil
	v.readers = v.readers[:last]
	it.view, it.late = &view{key: v.key}, nil
	it.flag &^= reading
	v.unread(s)
}

// read adds a reader to the counts of the view's topic. unread subtracts it, and releases a topic
// or a view without readers. The hub's lock is held.
func (v *view) read(s *Shard) {
	v.topic.refs++
	v.topic.seen[s.index].readers++
}

func (v *view) unread(s *Shard) {
	v.topic.refs--
	seen := &v.topic.seen[s.index]
	if seen.readers--; seen.readers == 0 {
		delete(s.views, v.topic)
	}
	s.hub.release(v.topic)
}

// takeVenues notes the present tail of the market-wide statuses. The hub's lock is held.
func (s *Shard) takeVenues() {
	if v := s.venue; v != nil {
		v.tail, v.pos = v.topic.ring.Tail(), s.hub.committed
	}
}

// passVenues gives the market-wide statuses before the noted tail to all subscribers that they
// concern. These statuses are rare, so subscribers have no cursors for them. It needs no lock.
func (s *Shard) passVenues() {
	v := s.venue
	if v == nil {
		return
	}
	for ; ; v.prev.Next() {
		rec, frame, ok := v.prev.Peek(v.tail)
		if !ok {
			return
		}
		for _, sub := range s.subs {
			if sub.concerns(rec) {
				w := sub.waiting()
				w.carry = append(w.carry, frame...)
				s.news = append(s.news, sub)
			}
		}
	}
}
