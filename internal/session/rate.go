package session

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/ratelimit"
	"github.com/ruedahq/rueda/wire"
)

// messageRate returns the client's rate of messages.
func (s *Session) messageRate() ratelimit.Rate {
	interval := time.Second / time.Duration(s.perSecond)
	return ratelimit.Rate{Interval: interval, Burst: interval * time.Duration(cmp.Or(s.env.Burst, 3*int(s.perSecond)))}
}

// charge charges a message, or reports false if that exceeds the rate.
func (s *Session) charge(t moment) bool {
	if s.messageRate().Wait(s.ahead(t)) > 0 {
		return false
	}
	s.debit(t)
	return true
}

// debit charges a message that was answered already.
func (s *Session) debit(t moment) { s.debitMessages(t, 1) }

// debitMessages charges n messages that were answered already, up to a burst.
func (s *Session) debitMessages(t moment, n int) {
	r := s.messageRate()
	s.rate = max(s.rate, t).add(min(time.Duration(n), r.Burst/r.Interval) * r.Interval)
}

// What counts as a message more: so many identifiers that leave the set or are refused, and so many instruments that a
// pattern which leaves the set covered, or whose states are told anew.
const (
	goneAMessage   = 200
	statesAMessage = 1000
)

// debitWork charges what a message that was answered already had the server do, up to a burst.
func (s *Session) debitWork(t moment, gone, states int) {
	s.debitMessages(t, gone/goneAMessage+states/statesAMessage)
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
	s.debitMessages(t, looked/sequencesAMessage)
}

// overdrawn says that messages which asked for no charge ran up another burst.
func (s *Session) overdrawn(t moment) bool {
	return s.ahead(t) > 2*s.messageRate().Burst
}

// ahead returns the time until the whole burst is available again.
func (s *Session) ahead(t moment) time.Duration { return max(0, time.Duration(s.rate-t)) }

// refuse answers a message over the rate. A client that goes on regardless is closed.
func (s *Session) refuse(t moment, id []byte) {
	if s.lately().refused.add(t, s.env.refusals()) {
		s.fail(&wire.Fault{Reason: wire.TooManyFailures, RetryAfter: 60}, id, nil)
		return
	}
	wait := s.messageRate().Wait(s.ahead(t))
	s.reply(&wire.Fault{Reason: wire.RateLimited, RetryAfter: max(1, seconds(wait))}, id, nil)
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
