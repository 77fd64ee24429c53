package session

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// The rate limit is a bucket kept as one moment: when it will be full again. A
// message moves it by the time one message takes; it may lie as far ahead as a
// whole burst takes.

// perMessage is the time a client's limit gives to one message.
func (s *Session) perMessage() moment {
	return moment(time.Second) / moment(s.perSecond)
}

func (s *Session) burst() moment {
	return moment(cmp.Or(s.env.Burst, 3*int(s.perSecond)))
}

// charge takes a message out of the allowance; false: there is none left.
func (s *Session) charge(t moment) bool {
	if s.ahead(t) > (s.burst()-1)*s.perMessage() {
		return false
	}
	s.debit(t)
	return true
}

// debit charges a message that was answered already.
func (s *Session) debit(t moment) { s.rate = max(s.rate, t) + s.perMessage() }

// What counts as a message more: so many identifiers that leave the set or are refused, and so many instruments that a
// pattern which leaves the set covered, or whose states are told anew.
const (
	goneAMessage   = 200
	statesAMessage = 1000
)

// debitWork charges what a message that was answered already had the server do, up to a burst.
func (s *Session) debitWork(t moment, gone, states int) {
	n := min(s.burst(), moment(gone/goneAMessage+states/statesAMessage))
	s.rate = max(s.rate, t) + n*s.perMessage()
}

// freeSequences is how many sequences the resumes of a user may look through in a minute, on all connections together,
// before they are charged: enough for every connection to resume all that a large market has.
const freeSequences = 2_000_000

// sequencesAMessage is how many sequences count as a message more: those of a start, and those of resumes beyond freeSequences.
const sequencesAMessage = 1000

// debitSequences charges the sequences that a subscribe looked through, up to a burst.
func (s *Session) debitSequences(t moment, looked int, started bool) {
	if !started && looked > 0 {
		looked = s.env.Registry.resume(s.place.user(), t, looked)
	}
	s.rate = max(s.rate, t) + min(s.burst(), moment(looked/sequencesAMessage))*s.perMessage()
}

// overdrawn says that messages which asked for no charge ran up another burst.
func (s *Session) overdrawn(t moment) bool {
	return s.ahead(t) > 2*s.burst()*s.perMessage()
}

func (s *Session) ahead(t moment) moment { return max(0, s.rate-t) }

// refuse answers a message over the rate. A client that goes on regardless is closed.
func (s *Session) refuse(t moment, id []byte) {
	if s.lately().refused.add(t, s.env.refusals()) {
		s.fail(&wire.Fault{Reason: wire.TooManyFailures, RetryAfter: 60}, id, nil)
		return
	}
	over := s.ahead(t) - (s.burst()-1)*s.perMessage()
	s.reply(&wire.Fault{Reason: wire.RateLimited, RetryAfter: max(1, seconds(time.Duration(over)))}, id, nil)
}

// faults is what a client did wrong.
type faults struct {
	bad       recent // faults of code 400
	refused   recent // messages over the rate
	strangers int    // messages before auth_token
}

func (s *Session) lately() *faults {
	a := s.put()
	if a.faults == nil {
		a.faults = &faults{}
	}
	return a.faults
}

// recent is when something happened in the last minute.
type recent []moment

// add notes that it happened at t, and says whether that makes n times in a minute.
func (r *recent) add(t moment, n int) bool {
	old := 0
	for old < len(*r) && (*r)[old].add(time.Minute) <= t {
		old++
	}
	*r = append((*r)[:copy(*r, (*r)[old:])], t)
	return len(*r) >= n
}

// complain answers a request that is at fault. Those that are not understood at all
// (400) may not come too often.
func (s *Session) complain(t moment, f *wire.Fault, id []byte) {
	s.complainWith(t, f, id, nil)
}

func (s *Session) complainWith(t moment, f *wire.Fault, id, extra []byte) {
	if f.Reason.Socket().Code == 400 && s.lately().bad.add(t, s.env.badMessages()) {
		s.fail(f, id, extra)
		return
	}
	s.reply(f, id, extra)
}

// reply sends an Error and leaves the connection open.
func (s *Session) reply(f *wire.Fault, id, extra []byte) {
	s.send(wire.AppendError(s.sub.Scratch(), f, id, extra))
}

// maxStrangers is the message before auth_token that closes.
const maxStrangers = 10

// stranger answers a client that did not say who it is.
func (s *Session) stranger(id []byte) {
	lately := s.lately()
	lately.strangers++
	if lately.strangers >= maxStrangers {
		s.fail(wire.NewFault(wire.TooManyFailures, "Authenticate first"), id, nil)
		return
	}
	s.reply(&wire.Fault{Reason: wire.NotAuthenticated, Hint: "Send auth_token with an access token first"}, id, nil)
}

// seconds rounds up, so that a client which waits so long has waited enough.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
