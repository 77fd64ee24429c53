package subscription

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
	"github.com/ruedahq/rueda/market"
)

// Request is a Subscribe or Unsubscribe that is made in steps, so that one with thousands of
// identifiers does not delay other subscribers. Between two steps the shard may take turns, and
// serve other subscribers. Until the last step, Gather and other changes of this subscriber are not
// called. Close gives the request up.
//
// What is published between two steps reaches the client as if it had been published before the
// request, for items of the set of before, or after it, for the others.
type Request struct {
	t       taking
	outcome Outcome
	options Options
	over    bool
}

// BeginSubscribe begins a Subscribe. If its Outcome has a Fault or a Search, it has no steps.
func (s *Subscriber) BeginSubscribe(items []hub.Item, o Options) *Request {
	r := &Request{options: o}
	r.t = taking{
		Subscriber: s, out: &r.outcome, o: &r.options, batch: &batch{},
		settled: make(map[*item]bool), passed: make(passed), unpin: func() {},
	}
	r.over = !r.t.begin(items)
	return r
}

// BeginUnsubscribe begins what Unsubscribe does, and Step completes it. visit is as in Options.
func (s *Subscriber) BeginUnsubscribe(items []hub.Item, visit func(n int)) *Request {
	r := &Request{options: Options{Visit: visit}}
	r.t = taking{Subscriber: s, out: &r.outcome, o: &r.options, unpin: func() {}}
	for _, x := range items {
		if it := s.find(x.Channel, x.ID); it != nil {
			r.t.gone = append(r.t.gone, it)
		}
		r.options.visit(1)
	}
	r.t.note()
	s.hold() // there may have been turns during the visits
	s.shard.hub.Lock()
	defer s.shard.hub.Unlock()
	s.shard.hub.Commit()
	s.waiting().request = &r.t
	s.settle(r.t.gone, nil, make(map[*item]bool))
	return r
}

// removedAtOnce is how many items a step removes in the time of one that it adds. Each step with
// removals visits the whole set.
const removedAtOnce = 4

// Step adds up to n items or removes four times as many. done reports whether the request is
// complete.
func (r *Request) Step(n int) (done bool) {
	if !r.over {
		r.over = r.t.step(n)
	}
	return r.over
}

// Outcome returns the result of a request that is complete.
func (r *Request) Outcome() *Outcome { return &r.outcome }

// whole makes the request at once.
func (r *Request) whole() Outcome {
	r.Step(math.MaxInt / removedAtOnce)
	return r.outcome
}

// taking has the state of a Request.
type taking struct {
	*Subscriber
	out     *Outcome
	o       *Options
	since   resumePoint
	points  startpoint.Result
	settled map[*item]bool
	stated  []string // markets whose status the set has received, or will
	passed  passed   // instruments that pass to new items at another delay

	left     []hub.Item // items to take, exact ones first
	gone     []*item    // items to remove
	before   []string   // markets of the set of before
	followed []string   // markets whose phases it received
	batch    *batch     // replays of the request; nil: an Unsubscribe
	spares   bool       // the set was empty
	unpin    func()     // ends the use of replicas
}

// note records the markets of the set before the change.
func (t *taking) note() {
	t.before, t.followed = t.markets(), t.statusMarkets()
	t.o.visit(2 * len(t.items))
}

// changing returns the request of the subscriber in progress, or nil.
func (s *Subscriber) changing() *taking {
	if s.wait == nil {
		return nil
	}
	return s.wait.request
}

// begin checks a Subscribe, and does what comes before its items. It returns false if the request
// is refused, or if it waits for a search. Nothing has changed then.
func (t *taking) begin(items []hub.Item) bool {
	s, h, o, out := t.Subscriber, t.shard.hub, t.o, t.out
	if t.since, out.Fault = readResume(o.Resume); out.Fault != nil {
		return false
	}
	t.since.Positions = t.since.Under(s.rights())
	s.hold()
	if out.Search = s.Await(items, o.Found); out.Search == nil {
		out.Search, out.Fault = startpoint.NewAhead(h, o.Resume, t.since.epoch, t.since.For, items).Await(o.Found, o.Search)
	}
	if out.Search != nil || out.Fault != nil {
		return false
	}
	begun := false
	t.unpin = h.Pin(items)
	defer func() {
		if !begun {
			t.unpin()
		}
	}()
	if t.since.epoch != "" && h.Journal() != nil {
		t.since.complete = h.Journal().Complete()
	}
	if o.Start.Asked() && !t.findPoints(items) {
		return false
	}
	asked := len(items)
	items, out.Rejected = t.accept(items)
	if o.Replace && (len(items) > 0 || asked == 0) {
		t.gone = s.replaced(items, o.visit)
	}
	moved := t.otherDelays(items)
	t.note()
	t.stated = s.statedMarkets()
	s.hold() // there may have been turns during the visits
	h.Prepare(items)
	h.Lock()
	h.Commit()
	h.NoteQuiet()
	h.Unlock()
	t.since.safe = s.safe(items...) // without the lock: it visits all waiting messages
	h.Lock()
	defer h.Unlock()
	h.Commit()
	out.Epoch, out.CaughtUp = h.Epoch(), t.since.safe.Text(h.Epoch())
	t.waiting().request = t
	s.settle(t.gone, items, make(map[*item]bool)) // before the moves, so that no new message comes before the answer
	t.moveDelays(moved)
	if t.spares = len(s.items) == 0; t.spares {
		s.items = slices.Grow(s.items, len(items))
	}
	// Exact items come first. A pattern of the same message then does not own their instruments,
	// and each exact item has its own resume.
	for _, patterns := range [2]bool{false, true} {
		for _, x := range items {
			if x.ID.IsPattern() == patterns {
				t.left = append(t.left, x)
			}
		}
	}
	begun = true
	return true
}

// step makes up to n changes, and ends the request if they were the last ones. Items are removed
// after the new ones were added. An instrument that both cover then passes to the new item, and no
// message is lost.
func (t *taking) step(n int) (done bool) {
	s, h := t.Subscriber, t.shard.hub
	s.hold()
	if !t.stepLocked(n) {
		return false
	}
	t.unpin()
	if t.batch != nil {
		t.out.Position = s.safe().Text(h.Epoch())
		s.shard.Figures.countResumes(t.out)
	}
	s.releaseWait()
	return true
}

// stepLocked is step under the hub's lock.
func (t *taking) stepLocked(n int) (done bool) {
	s, h := t.Subscriber, t.shard.hub
	h.Lock()
	defer h.Unlock()
	h.Commit()
	clear(t.settled)
	if w := s.waiting(); t.batch != nil {
		w.batch = t.batch
	}
	if taken := min(n, len(t.left)); taken > 0 {
		if t.spares {
			s.shard.spare = make([]item, taken) // at once: many small allocations cost more memory
		}
		for _, x := range t.left[:taken] {
			t.take(x)
			t.pause()
		}
		s.shard.spare = nil
		h.Published() // a new topic may have taken rows that are not committed
		if t.left, n = t.left[taken:], n-taken; len(t.left) == 0 {
			t.passed.takeFrom()
		}
	}
	removed := min(n*removedAtOnce, len(t.gone))
	s.remove(t.gone[:removed], t.out)
	if t.gone = t.gone[removed:]; len(t.left)+len(t.gone) > 0 {
		return false
	}
	t.end()
	return true
}

// end updates the set after the last change. The hub's lock is held.
func (t *taking) end() {
	s, h := t.Subscriber, t.shard.hub
	s.waiting().request = nil
	if t.batch == nil {
		return
	}
	for _, it := range s.items {
		it.flag &^= unanswered
	}
	s.rearrange(t.before)
	if t.o.NoSnapshot {
		t.bareVenues(t.before)
	}
	if pos := t.since.For(0); t.since.epoch == h.Epoch() && pos <= h.Newest() && len(s.waiting().venues) > 0 {
		s.wait.since = &pos
	}
	h.Published()
}

// pause counts a visit, and releases the hub's lock for a short time if the present hold is full.
// Messages that are published meanwhile must be settled again.
func (t *taking) pause() {
	if t.shard.hub.Step(1) {
		clear(t.settled)
	}
}

// received reports whether the set of before receives a status of a market.
func (t *taking) received(m string, notice bool) bool {
	has := func(list []string) bool { return slices.Contains(list, m) || slices.Contains(list, market.Any) }
	return has(t.before) && (notice || has(t.followed))
}
