package session

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
	"github.com/ruedahq/rueda/wire"
)

// allowance is what a client has used of its rate of messages.
type allowance struct {
	whole instant // when the whole burst is available again
}

// maxMessagesPerSecond is the highest rate that is counted. A much higher one would leave no time
// between two messages.
const maxMessagesPerSecond = 1_000_000

// limitsOf returns the present limits of a session, which are at least 1.
func limitsOf(s *Session) broker.Limits {
	var own broker.Limits
	if s.grants != nil {
		own = s.grants.Limits
	}
	l := s.env.limits(own)
	l.Subscriptions, l.MessagesPerSecond = max(1, l.Subscriptions), min(max(1, l.MessagesPerSecond), maxMessagesPerSecond)
	return l
}

// ahead returns the time until the whole burst is available.
func (a *allowance) ahead(t instant) time.Duration { return max(0, time.Duration(a.whole-t)) }

// rate returns the rate of messages.
func (r *request) rate() ratelimit.Rate {
	perSecond := limitsOf(r.Session).MessagesPerSecond
	interval := time.Second / time.Duration(perSecond)
	return ratelimit.Rate{Interval: interval, Burst: interval * time.Duration(cmp.Or(r.env.Burst, 3*perSecond))}
}

// charge charges a message, or returns false if that exceeds the rate.
func (r *request) charge() bool {
	if r.rate().Wait(r.allowance.ahead(r.t)) > 0 {
		return false
	}
	r.debit()
	return true
}

// debit charges a message that was answered already.
func (r *request) debit() {
	r.allowance.whole = max(r.allowance.whole, r.t).add(r.rate().Interval)
}

// overdrawn reports whether free messages have used up another burst.
func (r *request) overdrawn() bool {
	return r.allowance.ahead(r.t) > 2*r.rate().Burst
}

// rejectRate answers a message above the rate.
func (r *request) rejectRate() { r.rejectUntil(r.rate().Wait(r.allowance.ahead(r.t))) }

// rejectUntil answers a message that would be admitted after a wait. A client that continues is
// closed.
func (r *request) rejectUntil(wait time.Duration) {
	if r.ext().faultCounts().rateLimited.add(r.t, r.env.refusals()) {
		r.fail(&wire.Fault{Reason: wire.TooManyFailures, RetryAfter: 60}, r.id, nil)
		return
	}
	r.reply(&wire.Fault{Reason: wire.RateLimited, RetryAfter: max(1, seconds(wait))}, r.id, nil)
}

// faultCounts counts the faults of a client.
type faultCounts struct {
	bad             recent // code 400
	rateLimited     recent
	unauthenticated int // messages before auth_token
}

// faultCounts returns the counts for writing.
func (o *optional) faultCounts() *faultCounts {
	if o.faults == nil {
		o.faults = &faultCounts{}
	}
	return o.faults
}

// recent has the times of faults in the last minute.
type recent []instant

// add adds a fault at t, and reports whether it is the nth one in a minute.
func (r *recent) add(t instant, n int) bool {
	old := 0
	for old < len(*r) && (*r)[old].add(time.Minute) <= t {
		old++
	}
	*r = append((*r)[:copy(*r, (*r)[old:])], t)
	return len(*r) >= n
}

// reject answers a message with a fault. Too many faults of code 400 close the connection. extra
// appends further members of the Error; nil: none.
func (r *request) reject(f *wire.Fault, extra wire.Extra) {
	if f.Reason.Socket().Code == 400 && r.ext().faultCounts().bad.add(r.t, r.env.badMessages()) {
		r.fail(f, r.id, extra)
		return
	}
	r.reply(f, r.id, extra)
}

// maxUnauthenticated is the number of messages before auth_token that closes the connection.
const maxUnauthenticated = 10

// rejectUnauthenticated answers a message before auth_token.
func (r *request) rejectUnauthenticated() {
	counts := r.ext().faultCounts()
	counts.unauthenticated++
	if counts.unauthenticated >= maxUnauthenticated {
		r.fail(wire.NewFault(wire.TooManyFailures, "Authenticate first"), r.id, nil)
		return
	}
	r.reply(&wire.Fault{Reason: wire.NotAuthenticated, Hint: "Send auth_token with an access token first"}, r.id, nil)
}

// seconds rounds up, so that a client that waits that long has waited long enough.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
