package ndjson

import (
	"fmt"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Reasons of gaps, which clients receive.
const (
	reasonSequence     = "sequence_gap"    // SQ skipped numbers
	reasonBadLine      = "bad_line"        // a line of the instrument was skipped
	reasonUnreadable   = "unreadable_line" // a skipped line may have been of the instrument
	reasonCrossed      = "crossed_book"    // an O line was rejected
	reasonRefused      = "event_refused"   // the sink rejected an event
	reasonDisconnected = "producer_gone"
)

// entry is one event or loss in the batch of a producer.
type entry struct {
	event      market.Event // if it is a loss, only Reason is set
	line       int
	loss       loss
	instrument *instrument // nil: the entry concerns venue, or for anyLost all that the producer feeds
	venue      *venue
}

// loss states what an entry reports as lost.
type loss uint8

const (
	nothingLost loss = iota // the entry is an event
	bookLost                // updates of the book: it becomes stale
	otherLost               // other events: the book stays valid
	anyLost                 // events of any kind
)

// lossOf returns what is lost with an event of a kind.
func lossOf(k market.Kind) loss {
	switch k {
	case market.KindUpdate, market.KindSnapshot:
		return bookLost
	case market.KindGap:
		return anyLost
	}
	return otherLost
}

// rejection is an event that was not published.
type rejection struct {
	line    int
	fault   *wire.Fault
	crossed *instrument     // its book would have been crossed; nil: the sink rejected the event
	refused *market.Refused // why the sink rejected it
}

// staleHint states what the loss of an O line means, for its producer.
const staleHint = "The book is stale: changes are ignored until an O line with R:true"

// publish checks the batch of a producer against the books, publishes it with the gaps of what was
// lost, and returns the rejected events. No event of another producer is published in between.
func (r *registry) publish(p *producer) (rejected []rejection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range p.batch {
		if e := &p.batch[k]; e.loss != nothingLost {
			r.addLoss(e, p.used)
		} else if r.apply(e) {
			r.add(e, e.event)
		} else {
			fault := wire.NewFault(wire.BadField, fmt.Sprintf("the book of %s is crossed outside an auction", e.instrument.id))
			fault.Hint = staleHint
			rejected = append(rejected, rejection{line: e.line, fault: fault, crossed: e.instrument})
			r.addGap(e, e.instrument, bookLost, reasonCrossed)
		}
	}
	var lost []*entry
	for _, refused := range r.sendAdded() {
		e := r.entries[refused.Index]
		fault := wire.NewFault(wire.BadField, "refused: "+refused.Reason+": "+refused.Detail)
		if e.loss == nothingLost && e.instrument != nil {
			lost = append(lost, e)
			if lossOf(e.event.Kind) == bookLost {
				fault.Hint = staleHint
			}
		}
		rejected = append(rejected, rejection{line: e.line, fault: fault, refused: refused})
	}
	for _, e := range lost {
		r.addGap(e, e.instrument, lossOf(e.event.Kind), reasonRefused)
	}
	r.sendAdded()
	return rejected
}

// sendAdded publishes the added events and returns those that the sink rejected. Their indexes are
// valid in r.entries until the next event is added.
func (r *registry) sendAdded() (refused []*market.Refused) {
	if len(r.events) > 0 {
		refused = r.send(r.events)
	}
	clear(r.events) // they refer to buffers that the producer reuses
	r.events = r.events[:0]
	return refused
}

// apply updates the state of the entry's instrument or market. It reports whether the event may be
// published.
func (r *registry) apply(e *entry) bool {
	i := e.instrument
	if i == nil {
		if e.event.Kind == market.KindStatus && !e.event.Phase.OfFeed() {
			e.venue.phase = e.event.Phase
		}
		return true
	}
	switch e.event.Kind {
	case market.KindStatus:
		if !e.event.Phase.OfFeed() {
			i.phase = e.event.Phase
		}
	case market.KindSnapshot, market.KindUpdate:
		i.hasBook = true
		if r.crosses(i, &e.event) {
			return false
		}
		if e.event.Kind == market.KindSnapshot {
			i.stale = false
		}
	case market.KindGap:
		i.markStale()
		return true
	}
	i.afterGap = false
	return true
}

// addLoss adds the gaps of a skipped line. used lists all instruments of its producer.
func (r *registry) addLoss(e *entry, used []*instrument) {
	if e.instrument != nil {
		used = []*instrument{e.instrument}
	}
	for _, i := range used {
		r.addGap(e, i, e.loss, e.event.Reason)
	}
}

// addGap adds the gap of an instrument, unless clients already know that something is missing
// there.
func (r *registry) addGap(e *entry, i *instrument, lost loss, reason string) {
	switch {
	case lost != otherLost && i.hasBook && !i.stale:
		i.markStale()
		r.add(e, market.Event{Kind: market.KindGap, Handle: i.handle, Reason: reason})
	case lost != bookLost && !i.afterGap:
		i.afterGap = true
		r.add(e, market.Event{Kind: market.KindStatus, Handle: i.handle, Phase: market.Gap, Reason: reason})
	}
}

// add adds an event to the next call of sendAdded.
func (r *registry) add(e *entry, event market.Event) {
	r.entries = append(r.entries[:len(r.events)], e)
	r.events = append(r.events, event)
}

// markStale records that a gap of the book is published. registry.mu must be held.
func (i *instrument) markStale() {
	i.book, i.hasBook, i.stale, i.afterGap = nil, true, true, true
}
