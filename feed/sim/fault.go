package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// Fault describes a fault that Trigger can inject. Every fault ends by itself, in market time.
type Fault struct {
	Name        string // the argument of Trigger
	Description string // what happens, in words
}

// Faults returns all faults that Trigger knows, in the order of their documentation.
func Faults() []Fault {
	return []Fault{
		{"gap", "events are lost for 2 s: a gap, and then a snapshot of the book"},
		{"sequence_reset", "the feed restarts: a gap followed at once by a snapshot"},
		{"stall", "no events for 10 s, without a status that says so"},
		{"halt", "trading is halted for 10 s; in a market with hours, a reopening auction follows"},
		{"auction", "trading is interrupted by an auction of 20 s"},
		{"open", "continuous trading begins now: it ends a halt, an auction or a closed market"},
		{"correction", "the newest trade is corrected"},
		{"cancel", "the newest trade is cancelled"},
		{"burst", "a thousand order actions in one instant"},
		{"crossed", "the book is crossed for 1 s, as from a faulty feed; then a snapshot"},
		{"one_sided", "there are no sellers for 10 s"},
		{"jump", "the value jumps by twenty standard deviations of a minute"},
		{"list", "a new instrument is listed on the market SIM and trades"},
		{"close", "the market closes for 30 s"},
		{"clock_skew", "event times are 5 s ahead for 10 s, and then go back"},
	}
}

// Errors returned by Trigger, besides market.ErrUnknownInstrument.
var (
	ErrUnknownFault = errors.New("unknown fault")
	ErrNotRunning   = errors.New("the exchange is not running")
	ErrTooMany      = errors.New("too many faults at once")
	ErrNotNow       = errors.New("not possible now")
)

// Durations and sizes of faults.
const (
	gapLength     = 2 * second
	stallLength   = 10 * second
	haltLengthNow = 10 * second
	auctionLength = 20 * second
	crossedLength = second
	sidedLength   = 10 * second
	closedLength  = 30 * second
	skewLength    = 10 * second
	skew          = 5 * second

	burstActions = 1000
	sigmas       = 20
	maxPending   = 256

	reasonTriggered = "triggered"
)

// faults holds the active faults of an instrument.
type faults struct {
	muted    bool  // its events are not published
	stalled  bool  // nothing happens
	oneSided bool  // nobody sells
	skew     int64 // of its event times
	count    int   // counts faults, so that the end of an older one is ignored
}

// request is a fault that was requested.
type request struct {
	fault  string
	on     int    // index of the instrument
	symbol string // of the instrument that the fault "list" lists
}

// Trigger injects a fault into every active Run; see Faults. The zero identifier means FAKE|SIM|CI.
// Trigger returns the identifier of the affected instrument, which differs from id only for the
// fault "list". A fault with a duration ends after it, and a later fault on the same instrument
// replaces it. Trigger does not wait for the fault to take place. It returns ErrUnknownFault,
// market.ErrUnknownInstrument, ErrNotRunning, ErrTooMany, or ErrNotNow if the fault would have no
// effect: there is no trade to correct yet, or the instrument does not trade. All are wrapped.
func (s *Source) Trigger(fault string, id market.InstrumentID) (affected market.InstrumentID, err error) {
	if !slices.ContainsFunc(Faults(), func(f Fault) bool { return f.Name == fault }) {
		return id, fmt.Errorf("trigger %q: %w", fault, ErrUnknownFault)
	}
	if id == (market.InstrumentID{}) {
		id = s.listings[0].definition.ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = ErrNotRunning
	if len(s.runs) == 0 && !slices.ContainsFunc(s.listings, func(l listing) bool { return l.definition.ID == id }) {
		err = market.ErrUnknownInstrument
	}
	for r := range s.runs {
		q := request{fault: fault}
		if err = r.enqueue(&q, id); err != nil {
			break
		}
		if q.symbol != "" {
			id = market.InstrumentID{Symbol: q.symbol, Market: venueSIM, Term: spot}
		}
	}
	if err != nil {
		return id, fmt.Errorf("trigger %s on %q: %w", fault, id.String(), err)
	}
	return id, nil
}

// find returns the index of an instrument, including those listed on request. r.mu must be held.
func (r *run) find(id market.InstrumentID) (int, error) {
	on := slices.IndexFunc(r.x.instruments, func(in instrument) bool { return in.listing.definition.ID == id })
	switch {
	case on >= 0:
		return on, nil
	case id.Market == venueSIM && id.Term == spot && slices.ContainsFunc(r.pending, func(q request) bool { return q.symbol == id.Symbol }):
		return on, fmt.Errorf("%w: it is about to be listed", ErrNotNow)
	}
	return on, market.ErrUnknownInstrument
}

// enqueue records a request for a fault and wakes the run.
func (r *run) enqueue(q *request, id market.InstrumentID) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.on, err = r.find(id); err != nil {
		return err
	}
	if len(r.pending) == maxPending {
		return ErrTooMany
	}
	if q.fault == "list" {
		if r.listed == maxListed {
			return fmt.Errorf("%w: %d were listed", ErrNotNow, r.listed)
		}
		r.listed++
		q.symbol = fmt.Sprintf("NEW%d", r.listed)
	}
	if why := r.x.ineffective(&r.x.instruments[q.on], q.fault); why != "" {
		return fmt.Errorf("%w: %s", ErrNotNow, why)
	}
	r.pending = append(r.pending, *q)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// ineffective returns why a fault would have no effect on an instrument now, "" if it would have
// one.
func (x *exchange) ineffective(in *instrument, fault string) string {
	switch _, sellers := in.book.best(market.Sell); {
	case (fault == "correction" || fault == "cancel") && in.lastTrade.id == "":
		return "there is no trade to correct or cancel"
	case (fault == "halt" || fault == "burst" || fault == "auction") && in.phase != market.Open:
		return "it is not open"
	case fault == "open":
		return x.cannotOpen(in)
	case fault == "crossed" && (!sellers || in.book.inCall):
		return "its book has no asks, or it is in an auction"
	case fault == "one_sided" && !sellers && !in.oneSided:
		return "it has no asks"
	case fault == "close" && len(x.openOf(in.listing.definition.ID.Market)) == 0:
		return "its market is not open"
	}
	return ""
}

// inject injects the pending faults at a virtual time between the newest action and the next.
func (r *run) inject(now, next int64) error {
	x := r.x
	r.mu.Lock()
	pending := r.pending
	r.pending = nil
	if now != never {
		x.now = min(max(x.now, now), next)
		x.world.advance(x.now)
	}
	r.applySpeed()
	r.mu.Unlock()
	for _, q := range pending {
		if q.fault == "list" {
			if err := r.list(q.symbol); err != nil {
				return err
			}
			continue
		}
		r.mu.Lock()
		x.inject(&x.instruments[q.on], q.fault)
		r.mu.Unlock()
	}
	return nil
}

// list lists an instrument that is like FAKE but has another name.
func (r *run) list(symbol string) error {
	x := r.x
	l := fake(newClasses(), symbol)
	l.definition.VirtualClock = x.instruments[0].listing.definition.VirtualClock
	// The clock advances during this: with the clock's time the listing would be later than the
	// events that follow.
	l.definition.Listed = x.unix(x.now)
	if err := l.complete(); err != nil {
		return err
	}
	handle, err := r.sink.Define(l.definition)
	if err != nil {
		return fmt.Errorf("define %s: %w", l.definition.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	in := x.add(&l)
	in.handle, in.trades = handle, r.lastTradeID
	x.fixHeap(len(x.queue) - 1)
	x.reference(in, 0)
	in.wake(x)
	return nil
}

// inject injects a fault into an instrument.
func (x *exchange) inject(in *instrument, fault string) {
	x.endFaults(in)
	switch fault {
	case "gap":
		x.publishGap(in, "simulated_gap")
		in.muted = true
		x.endFaultAfter(in, gapLength)
	case "sequence_reset":
		x.publishGap(in, "sequence_reset")
		x.snapshot(in)
	case "stall":
		in.stalled = true
		x.redraw(in)
		x.endFaultAfter(in, stallLength)
	case "halt":
		if in.phase == market.Open {
			x.halt(in, reasonTriggered, haltLengthNow)
		}
	case "auction":
		if in.phase == market.Open {
			x.callFor(in, reasonTriggered, reasonReopening, auctionLength, 0)
		}
	case "open":
		if x.cannotOpen(in) == "" {
			x.open(in)
		}
	case "correction":
		x.amend(in, market.KindCorrect)
	case "cancel":
		x.amend(in, market.KindCancel)
	case "burst":
		x.burst(in)
	case "crossed":
		x.crossBook(in)
	case "one_sided":
		x.cancelSide(in, market.Sell)
		in.oneSided = true
		x.endFaultAfter(in, sidedLength)
	case "jump":
		jump := sigmas * in.underlying.class.volatility / math.Sqrt(session/60)
		if in.rng.IntN(2) == 0 {
			jump = -jump
		}
		in.underlying.value += jump
		if in.phase == market.Open && !in.stalled {
			in.fairAt-- // the value has changed
			in.price(x.now, &x.world)
			in.wake(x)
		}
	case "close":
		x.closeMarket(in.listing.definition.ID.Market)
	case "clock_skew":
		in.skew = skew
		x.endFaultAfter(in, skewLength)
	}
}

// endFaultAfter ends a fault after a time, unless another fault has replaced it.
func (x *exchange) endFaultAfter(in *instrument, after int64) {
	count := in.count
	x.later(after, func() {
		if in.count == count {
			x.endFaults(in)
		}
	})
}

// endFaults ends the faults of an instrument. If events were suppressed, it publishes the current
// state.
func (x *exchange) endFaults(in *instrument) {
	f := in.faults
	in.faults = faults{count: f.count + 1}
	if f.stalled || f.oneSided {
		x.redraw(in)
	}
	if !f.muted {
		return
	}
	if in.phase != in.reported {
		x.status(in, in.phase, in.reason, in.until)
	}
	x.snapshot(in)
}

// publishGap publishes that events were lost.
func (x *exchange) publishGap(in *instrument, reason string) {
	x.event(market.KindGap, in).Reason = reason
}

// burst makes many orders arrive at once.
func (x *exchange) burst(in *instrument) {
	if in.phase != market.Open {
		return
	}
	for i := range burstActions {
		if in.phase != market.Open {
			return // the price left its band
		}
		switch {
		case i%20 == 0:
			in.wake(x)
		case i%10 == 5:
			in.marketOrder(x.now, x)
		case i%2 == 0 && len(in.book.crowd) > 20:
			in.book.cancel(in.book.crowd[in.rng.IntN(len(in.book.crowd))])
			x.report(in, market.NoSide)
		default:
			in.limitOrder(x)
		}
	}
	in.excitement = min(in.excitement, 1) // otherwise the burst would continue
	x.redraw(in)
}

// crossBook publishes a bid above the best ask that does not exist.
func (x *exchange) crossBook(in *instrument) {
	ask, ok := in.book.best(market.Sell)
	if !ok || x.suppressed(in) || in.book.inCall {
		return
	}
	e := x.event(market.KindUpdate, in)
	from := len(x.levels)
	x.levels = append(x.levels, market.Level{Price: in.listing.grid.price(ask + 1), Size: in.listing.lot, Orders: 1})
	e.Bids = x.levels[from : from+1 : from+1]
	in.stalled, in.muted = true, true
	x.redraw(in)
	x.endFaultAfter(in, crossedLength)
}

// cancelSide cancels all orders of a side.
func (x *exchange) cancelSide(in *instrument, side market.Side) {
	for queues := in.book.side(side); len(*queues) > 0; {
		in.book.cancel((*queues)[len(*queues)-1].head)
		x.report(in, market.NoSide)
	}
}

// openOf returns the open instruments of a market.
func (x *exchange) openOf(id string) (open []*instrument) {
	for i := range x.instruments {
		if in := &x.instruments[i]; in.listing.definition.ID.Market == id && in.phase == market.Open {
			open = append(open, in)
		}
	}
	return open
}

// closeMarket closes the open instruments of a market for a while.
func (x *exchange) closeMarket(id string) {
	until := x.now + closedLength
	shut := x.openOf(id)
	for _, in := range shut {
		in.generation++
		x.status(in, market.Closed, reasonTriggered, until)
		x.later(closedLength, x.ifCurrent(in, func() {
			x.resume(in, in.session.end)
			x.redraw(in)
		}))
	}
	if len(shut) == 0 {
		return
	}
	x.redraw(shut...)
	x.marketStatus(id, market.Closed, reasonTriggered, x.unix(until))
	x.closedUntil[id] = until
	x.later(closedLength, func() {
		if x.closedUntil[id] == until {
			x.endClose(id)
		}
	})
}

// endClose publishes the status of a market as a whole after it was closed.
func (x *exchange) endClose(id string) {
	delete(x.closedUntil, id)
	now := marketPhase{phase: market.Open}
	if x.day != nil && id == venueBYMA {
		now = x.day.status // it may have changed meanwhile
	}
	x.marketStatus(id, now.phase, now.reason, now.until)
}

// cannotOpen returns why continuous trading in an instrument cannot begin now, "" if it can.
func (x *exchange) cannotOpen(in *instrument) string {
	switch {
	case in.phase == market.Open:
		return "it is open already"
	case in.haltedForDay:
		return "it is halted for the rest of the day"
	case x.keepsHours(in) && in.session.phase != market.PreOpen && in.session.phase != market.Open && in.session.phase != market.Auction:
		return "it is outside of the hours of its market"
	}
	return ""
}

// open starts continuous trading in an instrument, or in its whole market if that is closed.
func (x *exchange) open(in *instrument) {
	if in.phase != market.Closed {
		condition := reasonReopening
		if in.phase == market.PreOpen {
			condition = reasonOpening
		}
		in.generation++
		x.uncross(in, condition)
		x.resume(in, in.session.end)
		x.redraw(in)
		return
	}
	id := in.listing.definition.ID.Market
	for i := range x.instruments {
		in := &x.instruments[i]
		if in.listing.definition.ID.Market == id && in.phase == market.Closed && in.reason == reasonTriggered {
			in.generation++
			x.resume(in, in.session.end)
			x.redraw(in)
		}
	}
	x.endClose(id)
}
