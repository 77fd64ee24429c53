package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/subscription/sent"
	"github.com/ruedahq/rueda/internal/subscription/startpoint"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Options has the options of Subscribe.
type Options struct {
	Replace    bool         // the items replace the whole set, unless all of them are rejected
	NoSnapshot bool         // no snapshots of quotes, books, statuses and summaries
	Resume     *wire.Resume // what the client has received; nil: live from now
	Start      Start        // replay rows from this time on; not together with Resume
	Today      bool         // do not replay rows that need the right to history
	Found      func()       // any goroutine calls it when the Search of an Outcome has ended; nil: Subscribe waits
	Search     *Search      // from the Outcome of an earlier Subscribe of the same items
}

// Outcome has the result of Subscribe.
type Outcome struct {
	Epoch    string
	Position string // a client can resume from it after this Subscribe; "": not known
	CaughtUp string // a client can resume from it after the replay has ended; "": not known
	Rejected []Rejected
	Resumed  [wire.NumChannels]map[string]uint64 // by identifier: the N at which its replay ends
	Lost     [wire.NumChannels]map[string]Lost   // by identifier: the rows that cannot be replayed
	Moved    []hub.Item                          // items of the set that continue at another delay
	Gone     int                                 // number of identifiers that were removed from the set
	States   int                                 // number of instruments whose snapshots are due because their tier has changed
	Left     int                                 // number of instruments of the patterns that were removed from the set
	Looked   int                                 // number of sequences in which a resume by position or a start searched its first row
	Fault    *wire.Fault                         // why the whole request is refused; nothing has changed
	Search   *Search                             // nothing has changed yet: call Subscribe again when the search has ended
}

// Rejected is an item that was refused, with the reason and a hint for the client.
type Rejected struct {
	Item   hub.Item
	Reason wire.Reason
	Hint   string
}

// Lost is a range of N that cannot be sent again.
type Lost struct {
	From, To uint64 // 0: not known
	Reason   string // buffer_exceeded, ahead, epoch_changed
}

// Subscribe adds items to the set, or replaces the set with them. An item that the set has with the
// same tier stays as it is. An item with another tier moves to that tier. With another delay it
// continues after the last N that was sent, as with Change. The caller checks rights and limits.
// The next Gather returns snapshots and replays.
func (s *Subscriber) Subscribe(items []hub.Item, o Options) (out Outcome) {
	h := s.shard.hub
	t := taking{Subscriber: s, out: &out, o: &o, settled: make(map[*item]bool), passed: make(passed)}
	if t.since, out.Fault = readResume(o.Resume); out.Fault != nil {
		return out
	}
	s.hold()
	if out.Search = s.Await(items, o.Found); out.Search != nil {
		return out
	}
	defer h.Pin(items)()
	if t.since.epoch != "" && h.Journal() != nil {
		t.since.complete = h.Journal().Complete()
	}
	if o.Start.Asked() && !t.findPoints(items) {
		return out
	}
	asked := len(items)
	items, out.Rejected = t.accept(items)
	h.Prepare(items)
	h.Lock()
	h.Commit()
	s.shard.hub.NoteQuiet()
	h.Unlock()
	t.since.safe = s.safe(items...) // without the lock: it visits all waiting messages
	defer func() { out.Position = s.safe().Text(h.Epoch()); s.rest() }()
	h.Lock()
	defer h.Unlock()
	h.Commit()
	out.Epoch, out.CaughtUp = h.Epoch(), t.since.safe.Text(h.Epoch())
	var gone []*item
	if o.Replace && (len(items) > 0 || asked == 0) {
		gone = s.replaced(items)
		s.settle(gone, items, make(map[*item]bool)) // before the moves, so that no new message comes before the answer
	}
	before := s.markets()
	t.stated = s.statedMarkets()
	t.moveDelays(items)
	s.waiting().batch = &batch{}
	if len(s.items) == 0 {
		s.shard.spare = make([]item, len(items)) // at once: many small allocations cost more memory
		s.items = slices.Grow(s.items, len(items))
	}
	// Exact items come first. A pattern of the same message then does not own their instruments,
	// and each exact item has its own resume.
	for _, patterns := range [2]bool{false, true} {
		for _, x := range items {
			if x.ID.IsPattern() == patterns {
				t.take(x)
				t.pause()
			}
		}
	}
	s.shard.spare = nil
	t.passed.takeFrom()
	// Items are removed after the new ones were added. An instrument that both cover then passes to
	// the new item, and no message is lost.
	s.remove(gone, &out)
	s.rearrange(before)
	if o.NoSnapshot {
		t.bareVenues(before)
	}
	if pos := t.since.For(0); t.since.epoch == h.Epoch() && pos <= h.Newest() && len(s.waiting().venues) > 0 {
		s.wait.since = &pos
	}
	h.Published() // a new topic may have taken rows that are not committed
	return out
}

// taking has the state of a Subscribe in progress.
type taking struct {
	*Subscriber
	out     *Outcome
	o       *Options
	since   resumePoint
	points  startpoint.Result
	settled map[*item]bool
	stated  []string // markets whose status the set has received, or will
	passed  passed   // instruments that pass to new items at another delay
}

// pause counts a visit, and releases the hub's lock for a short time if the present hold is full.
// Messages that are published meanwhile must be settled again.
func (t *taking) pause() {
	if t.shard.hub.Step(1) {
		clear(t.settled)
	}
}

// take adds one item, and makes its replay or its snapshot due.
func (t *taking) take(x hub.Item) {
	it, fresh := t.put(x)
	if !fresh {
		t.resumed(it)
		return
	}
	switch {
	case !x.Channel.Replays():
	case t.o.Resume != nil:
		t.resume(it)
	case t.o.Start.Asked():
		t.replayFrom(it)
	}
	if replays := it.late != nil && it.late.replay != nil; !replays && hasState(x.Channel) && !t.o.NoSnapshot {
		l := it.behind()
		// A resumed status item continues at its N, so that the snapshot does not replace statuses.
		l.needsSnapshot, l.fresh = true, !t.continues(x)
		t.enqueue(it)
	}
	switch {
	case t.o.NoSnapshot:
		it.flag |= bare
	case x.Channel == wire.Status:
		t.takeStatus(x.ID.Market)
	}
}

// continues reports whether an item continues after rows that the client has. Its first snapshot
// must not replace statuses then.
func (t *taking) continues(x hub.Item) bool {
	if t.o.Resume == nil {
		return t.o.Start.Asked()
	}
	_, byN := t.o.Resume.Seen[x.Channel][x.ID.String()]
	return byN || t.since.epoch != ""
}

// MaxPatterns limits the patterns of a subscriber, because the search for the owner of an
// instrument visits all of them.
const MaxPatterns = 64

// maxHints limits the unknown identifiers of a message for which a similar identifier is searched.
const maxHints = 10

// noMemory is the hint of an item that is refused because the memory is full.
const noMemory = "The server's memory for the stream is full; use a depth and conflation that others use, or try later"

// accept returns the items that may be subscribed, and the others as rejected. It accepts an exact
// item only if its instrument is listed. It accepts a pattern if its market is known, because a
// pattern also covers later listings. The hub's lock is not held.
func (t *taking) accept(items []hub.Item) (taken []hub.Item, rejected []Rejected) {
	h := t.shard.hub
	patterns := len(t.patterns())
	if t.o.Replace {
		patterns = 0
	}
	hints := 0
	taken = make([]hub.Item, 0, len(items))
	reject := func(x hub.Item, reason wire.Reason, hint string) {
		if rejected == nil {
			rejected = make([]Rejected, 0, len(items)-len(taken))
		}
		rejected = append(rejected, Rejected{x, reason, hint})
	}
	for _, x := range items {
		if !t.Serves(x.Tier.Delay) {
			reject(x, wire.NotEntitled, "Data at your delay are not served here")
			continue
		}
		if !h.Ready(x.Tier.Delay) {
			reject(x, wire.Unavailable, "Data at your delay could not be read; try later")
			continue
		}
		if x.ID.IsPattern() {
			if _, ok := h.Catalogue().Market(x.ID.Market); !ok && x.ID.Market != market.Any {
				reject(x, wire.UnknownInstrument, "No market "+x.ID.Market+" is listed; see GET /market/markets")
				continue
			}
			if !t.Has(x.Channel, x.ID) || t.o.Replace {
				patterns++
			}
			if patterns > MaxPatterns {
				reject(x, wire.SubscriptionLimit, "A connection holds at most 64 patterns")
				continue
			}
			if !h.MayAdd(x) {
				reject(x, wire.SubscriptionLimit, noMemory)
				continue
			}
			taken = append(taken, x)
			continue
		}
		listed, book := h.Catalogue().HasBook(x.ID)
		if !listed {
			hint := "See GET /market/instruments"
			if hints++; hints <= maxHints {
				if near, ok := h.Catalogue().Suggest(x.ID); ok {
					hint = "Did you mean " + near.String() + "?"
				}
			}
			reject(x, wire.UnknownInstrument, hint)
			continue
		}
		if x.Channel == wire.OrderBook && !book {
			reject(x, wire.UnknownChannel, "This instrument has no order book")
			continue
		}
		if !h.MayAdd(x) {
			reject(x, wire.SubscriptionLimit, noMemory)
			continue
		}
		taken = append(taken, x)
	}
	return taken, rejected
}

// put adds an item, or moves it to another tier. fresh reports whether the caller must begin its
// replay or snapshot.
func (t *taking) put(x hub.Item) (it *item, fresh bool) {
	old := t.find(x.Channel, x.ID)
	if old == nil {
		covered := t.covering(x) != nil
		if p := t.pattern(x.Channel, x.ID); p != nil && !x.ID.IsPattern() && p.tier().Delay != x.Tier.Delay {
			return t.passTo(x, p), false
		}
		passes := !covered && !x.Channel.Replays() && !x.ID.IsPattern() && t.pattern(x.Channel, x.ID) != nil
		it = t.add(x)
		it.inherit()
		if passes {
			it.behind().needsSnapshot = true // even with NoSnapshot, because the client has the state of another tier
			t.enqueue(it)
		}
		return it, !covered
	}
	if old.tier() == x.Tier || old.tier().Delay != x.Tier.Delay { // moveDelays has moved it, or the message names it twice
		return old, false
	}
	t.settle([]*item{old}, nil, t.settled)
	var rows *sent.Rows // the rows are the same in all tiers of a delay
	if old.late != nil {
		rows = old.late.elsewhere
	}
	old.drop()
	old.view = &view{key: hub.TopicKey{Channel: x.Channel, ID: x.ID, Tier: x.Tier}}
	if p := t.covering(x); p != nil {
		if hasState(x.Channel) {
			p.behind().needsSnapshot = true // the client has the state of another tier
			t.enqueue(p)
		}
		return old, false
	}
	old.start()
	if hasState(x.Channel) {
		t.out.States += len(old.view.topic.Members())
	}
	if rows != nil {
		old.suppress(rows)
	}
	if !x.Channel.Replays() {
		old.behind().needsSnapshot = true // even with NoSnapshot, because the client has the state of another tier
		t.enqueue(old)
	}
	return old, true
}

// covering returns the pattern of the same tier that sends the messages of an exact item, or nil.
func (s *itemSet) covering(x hub.Item) *item {
	if x.ID.IsPattern() {
		return nil
	}
	if p := s.pattern(x.Channel, x.ID); p != nil && p.tier() == x.Tier {
		return p
	}
	return nil
}

// replaced returns the items of the set that are not in a list.
func (s *itemSet) replaced(items []hub.Item) (gone []*item) {
	keep := make(map[itemKey]bool, len(items))
	for _, x := range items {
		keep[itemKey{x.Channel, x.ID}] = true
	}
	for _, it := range s.items {
		if !keep[it.key()] {
			gone = append(gone, it)
		}
	}
	return gone
}

// remove removes items from the set, in pieces, as if the client had sent several messages. The
// hub's lock is held, and released in between.
func (s *Subscriber) remove(gone []*item, out *Outcome) {
	h := s.shard.hub
	for piece := range slices.Chunk(gone, hub.LockPiece) {
		out.Gone += len(piece)
		leaving := make(map[*item]bool, len(piece))
		for _, it := range piece {
			if leaving[it] = true; it.id().IsPattern() {
				out.Left += len(it.view.topic.Members())
			}
		}
		m := move{sub: s, gone: leaving, out: out}
		m.run()
		h.Step(len(piece))
	}
}

// Unsubscribe removes identifiers from the set, as the client wrote them. Afterwards Gather returns
// only messages that other items cover. Unsubscribe returns the number of instruments that the
// removed patterns cover.
func (s *Subscriber) Unsubscribe(items []hub.Item) (instruments int) {
	s.hold()
	s.shard.hub.Lock()
	defer s.shard.hub.Unlock()
	s.shard.hub.Commit()
	var gone []*item
	for _, x := range items {
		if it := s.find(x.Channel, x.ID); it != nil {
			gone = append(gone, it)
		}
	}
	var out Outcome
	s.settle(gone, nil, make(map[*item]bool))
	s.remove(gone, &out)
	return out.Left
}

// hasState reports whether a channel has snapshots.
func hasState(c wire.Channel) bool { return c == wire.Status || !c.Replays() }

// Resync makes snapshots due for items of the set. It returns the number of their instruments, and
// the items that are not in the set.
func (s *Subscriber) Resync(items []hub.Item) (states int, rejected []Rejected) {
	s.hold()
	s.shard.hub.Lock()
	defer s.shard.hub.Unlock()
	for _, x := range items {
		it := s.find(x.Channel, x.ID)
		if it == nil || !hasState(x.Channel) {
			hint := "Not subscribed; subscribe first"
			if it != nil {
				hint = "There is no state of it to send again; resume it"
			}
			rejected = append(rejected, Rejected{x, wire.BadField, hint})
			continue
		}
		if !it.reads() {
			it = s.pattern(x.Channel, x.ID)
		}
		if it.view.topic != nil && !it.behind().needsSnapshot {
			states += len(it.view.topic.Members())
		}
		it.behind().needsSnapshot = true
		s.enqueue(it)
	}
	return states, rejected
}
