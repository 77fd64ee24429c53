package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

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
	called     bool  // listed as ready in the present turn
	closed     bool
	strict     bool // KeepAll is on: nothing is conflated for it
}

// wait has the data that waits for a subscriber, except for the messages of the present turn.
type wait struct {
	queue   []*item    // items with something to send
	carry   []byte     // encoded frames that are sent first
	batch   *batch     // replays of the last Subscribe
	behind  *batch     // the newest batch with replays that have not ended
	venues  []venueDue // markets whose status is due
	since   *uint64    // position from which statuses of new markets are replayed; nil: their snapshots are sent
	reading []*item    // items that wait for rows of the journal
	gated   []*item    // items that wait for a commit
	venueAt uint64     // venues wait until this position is committed; 0: no wait
	holders int        // number of replays with holds set
	slot    int        // in shard.waiters
	request *taking    // a change of the set that is in progress; nil: none

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
	reading    itemFlag = 1 << iota // it reads its own ring; no pattern sends its messages
	overlap                         // some of its instruments are owned by other items
	bare                            // it was added without snapshots
	unanswered                      // a request that is in progress has added it
)

// itemState says what an item sends next.
//
//	live         the messages of each turn, at once. Subscribe begins here, unless the shard has not
//	             noted all messages yet, or the client resumes.
//	behind       the messages between its cursor and the tail. The host has not gathered a turn.
//	             At the tail, the item is live again (caughtUp).
//	suppressed   the same, without the rows that were sent before: by other items, or by this one at
//	             another delay. Behind follows when its ring or replica is past these rows.
//	snapshotDue  snapshots, because the client asked for them, the tier has changed, or the client
//	             is too slow. Then it is behind or suppressed.
//	replaying    rows of memory and the journal that the client has missed. Then a snapshot may be
//	             due.
//
// An item may have several of these to send. Its state is the last one of this list that applies.
// In each state but live, a gate may hold the item until a commit.
type itemState uint8

const (
	live itemState = iota
	behind
	suppressed
	snapshotDue
	replaying
)

// state returns what the item sends next.
func (it *item) state() itemState {
	switch l := it.late; {
	case l == nil:
		return live
	case l.replay != nil:
		return replaying
	case l.needsSnapshot || l.progress != nil:
		return snapshotDue
	case l.elsewhere != nil:
		return suppressed
	}
	return behind
}

// late has what an item needs that is not live.
type late struct {
	at            hub.Cursor  // the next record, not past view.tail
	sent          ring.Offset // records before this are not sent: a snapshot or a replay contains them
	sentPos       uint64      // position of the newest row in that snapshot or replay
	listed        bool        // in wait.queue
	needsSnapshot bool        // all snapshots are due, even if some of an earlier request are not sent
	fresh         bool        // nothing of its ring was sent yet

	progress  *snapshotProgress // nil: not some of the snapshots are due
	replay    *itemReplay       // nil: the item is not replaying
	elsewhere *sent.Rows        // rows that are suppressed; nil: none

	gate  uint64 // nothing is sent until this position is committed; 0: no gate
	held  []byte // frames that are sent first when the gate opens
	floor uint64 // nothing at or before this position waits for the gate
}

// behind returns what an item needs that is not live. An item that was live begins at the tail.
func (it *item) behind() *late {
	if it.late == nil {
		it.late = &late{at: it.view.tail}
	}
	return it.late
}

// unseen reports whether no status of an instrument was sent, so that the due snapshot is the
// first.
func (it *item) unseen(in *hub.Instrument) bool {
	l := it.late
	switch {
	case l == nil, it.channel() != wire.Status:
		return false
	case l.progress == nil && !l.needsSnapshot, l.progress != nil && !l.progress.unsent.Has(in.Index()):
		return false
	}
	unseen, known := l.elsewhere.Unseen(in.ID())
	return unseen || l.fresh && !known
}

// stateDue reports whether a snapshot of statuses is due, in whole or in part.
func (it *item) stateDue() bool {
	return it.late != nil && it.channel() == wire.Status && (it.late.needsSnapshot || it.late.progress != nil)
}

// sentNothing reports whether a status item has sent nothing itself, because its first snapshots
// are due.
func (it *item) sentNothing() bool {
	l := it.late
	return l != nil && l.fresh && l.needsSnapshot && l.progress == nil && it.channel() == wire.Status
}

// requestSnapshot makes the snapshots of an item due.
func (it *item) requestSnapshot() {
	it.behind().needsSnapshot = true
	it.sub.enqueue(it)
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

// releaseWait releases the wait if nothing waits.
func (s *Subscriber) releaseWait() {
	if w := s.wait; w != nil && len(w.queue) == 0 && len(w.carry) == 0 && len(w.venues) == 0 && len(w.reading) == 0 && len(w.gated) == 0 && w.request == nil && w.behind == nil {
		s.unwait()
	}
}

// unwait removes the wait of the subscriber, and the subscriber from the waiters of its shard.
func (s *Subscriber) unwait() {
	if s.wait == nil {
		return
	}
	list := s.shard.waiters
	last := list[len(list)-1]
	list[s.wait.slot] = last
	last.wait.slot = s.wait.slot
	list[len(list)-1] = nil
	s.shard.waiters = list[:len(list)-1]
	s.wait = nil
}

func (w *wait) takeCarry(dst []byte) []byte {
	if len(w.carry) == 0 {
		return dst
	}
	dst = append(dst, w.carry...)
	if cap(w.carry) > 4<<10 {
		w.carry = nil
	} else {
		w.carry = w.carry[:0]
	}
	return dst
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

func (s *Shard) mark(sub *Subscriber) {
	if !sub.called && !sub.closed {
		sub.called = true
		s.ready = append(s.ready, sub)
	}
}

// Key returns the key that was given to Shard.Open.
func (s *Subscriber) Key() any { return s.key }

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
