package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// Each message of a user costs the gateway time, and pays for it from an allowance of work. The
// allowance belongs to the user on all connections. A unit of work is what one acknowledged
// identifier takes in a subscribe that changes nothing, about 0.6 microseconds. BenchmarkPrices
// measures the other prices as multiples of it.
//
// A message is admitted unless the allowance is in debt. What it costs is known afterwards, so it
// may put the allowance into debt.
const (
	workPerSecond = 50_000    // units that recover in a second: about three percent of a core
	workBurst     = 2_000_000 // units of the whole allowance

	unitTime = time.Second / workPerSecond // in which one unit recovers
)

// Prices in units. Those that begin with "per" are how many things cost one unit.
const (
	priceMessage    = 3 // a message that reads or changes the set
	priceIdentifier = 1 // an identifier of a message, accepted or refused
	priceAdded      = 3 // an identifier that joins the set
	priceRemoved    = 3 // an identifier that leaves the set
	priceMoved      = 7 // an identifier of the set whose depth, conflation or delay changes
	priceSnapshot   = 1 // an instrument whose snapshot is due
	priceResumed    = 3 // an identifier that continues after an N
	priceHint       = 8 // a hint with a similar identifier
	priceCompressed = 8 // a compressed frame with such messages

	perSet      = 16   // identifiers of the set, for each message that reads or changes it
	perLevels   = 30   // levels of a book whose snapshot is due
	perLooked   = 4    // sequences in which a resume by position or a start searches its first row
	perRows     = 3    // rows that are replayed
	perMsgpack  = 3    // messages of a replay or a snapshot in MessagePack
	perDeflated = 256  // bytes of a compressed frame, before they are compressed
	perCompared = 64   // comparisons of a pattern with an identifier of the set
	perValues   = 4    // JSON values that are not expected, such as unknown members
	perBytes    = 1024 // bytes of a message
)

const (
	freeValues = 16       // JSON values of a message that cost nothing
	freeBytes  = 2 * 1024 // bytes of a message that cost nothing; most access tokens are shorter
)

// readTime is the time of reading the journal, for the search of a start, that costs one unit.
const readTime = 500 * time.Nanosecond

// textPrice returns the price of the text of a message with a number of JSON values that are not
// expected.
func textPrice(length, values int) int {
	return max(0, length-freeBytes)/perBytes + max(0, values-freeValues)/perValues
}

// workPrice returns the price of what a request has caused.
func workPrice(w *subscription.Work) int {
	return w.Added*priceAdded + w.Removed*priceRemoved + w.Moved*priceMoved +
		w.Snapshots*priceSnapshot + w.Levels/perLevels +
		w.Resumed*priceResumed + w.Looked/perLooked + int(w.Read/readTime) +
		w.Compared/perCompared + w.Hints*priceHint
}

// replayPrice returns the price of replays and of the encoding of snapshots. The live data of a
// format is encoded once for all, and is free.
func replayPrice(r *subscription.Replayed) int {
	x := &r.Transcoded
	return (r.Rows+perRows-1)/perRows + (x.Messages+perMsgpack-1)/perMsgpack +
		x.Compressed*priceCompressed + x.Bytes/perDeflated
}

// chargeItems charges the identifiers of a request. They and the N of a resume are expected values.
func (r *request) chargeItems(req *wire.Subscribe, list []wanted) {
	r.values -= len(list)
	if req.Resume != nil {
		for c := range req.Resume.Seen {
			r.values -= len(req.Resume.Seen[c])
		}
	}
	r.units += len(list) * priceIdentifier
}

// chargeSet charges a message that reads or changes the set.
func (r *request) chargeSet(w *subscription.Work) {
	r.units += priceMessage + r.sub.Len()/perSet + workPrice(w)
	r.work = nil
}

// pay charges the user for the message.
func (r *request) pay() {
	r.Session.pay(r.t, r.units+textPrice(r.length, r.values))
}

// payPart charges the user for what was handled of a message whose session is over.
func (r *request) payPart() {
	units := r.units + textPrice(r.length, 0) // which of its values are expected may not be known
	if r.work != nil {
		units += workPrice(r.work)
	}
	r.Session.pay(r.t, units)
}

// again reports whether the message is handled again after a search. Its text was paid before.
func (r *request) again() bool { return r.found != nil }

// pay charges the user for work that was done.
func (s *Session) pay(t instant, units int) {
	if units > 0 && s.entry.identity != nil {
		s.env.Registry.pay(s.entry.user(), t, units)
	}
}

// inDebt returns how long a message has to wait because the user's allowance of work is in debt. A
// message without work does not wait, and neither does a token, without which the connection ends.
func (r *request) inDebt(m *wire.Message, fault *wire.Fault) time.Duration {
	switch {
	case !r.authenticated || r.again():
		return 0
	case fault == nil && m.Action == wire.ActionAuthToken:
		return 0
	case textPrice(r.length, r.values) > 0 || fault == nil && readsSet(m.Action):
		return r.env.Registry.inDebt(r.entry.user(), r.t)
	}
	return 0
}

// readsSet reports whether an action reads or changes the set of subscriptions.
func readsSet(action string) bool {
	switch action {
	case wire.ActionSubscribe, wire.ActionUnsubscribe, wire.ActionSubscriptions, wire.ActionResync:
		return true
	}
	return false
}
