package session

import (
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// slowness is the state of a client that reads, or once read, too slowly.
type slowness struct {
	on      bool
	warnDue moment // the next warning
	warnEnd uint64 // where the last one ends in the output
}

func (s *Session) isSlow() bool { return s.slow != nil && s.slow.on }

// gave notes that n bytes were given to the host.
func (s *Session) gave(t moment, n int) {
	if s.gathered == s.taken {
		s.outGiven, s.progress = t, t
	}
	s.gathered += uint64(n)
	if s.outSince == 0 {
		s.outSince = t
		s.slowDue = t.add(s.env.slowAfter())
	}
}

// Wrote is told that the kernel took n more bytes of what Gather gave.
func (s *Session) Wrote(now time.Time, n int) {
	if n <= 0 {
		return
	}
	t := s.at(now)
	s.taken += uint64(n)
	s.progress = t
	s.pingTaken(t)
	s.restIfDone()
}

// restIfDone ends the slow state once everything was taken and nothing waits.
func (s *Session) restIfDone() {
	if s.over != "" || s.outstanding() || s.pending() {
		return
	}
	s.outSince, s.slowDue = 0, 0
	if s.slow != nil {
		s.slow.on = false
	}
}

// outstanding says whether the kernel still has to take something.
func (s *Session) outstanding() bool { return s.gathered != s.taken }

// stallDue is when a socket that takes nothing is given up.
func (s *Session) stallDue() moment {
	if !s.outstanding() {
		return 0
	}
	return s.progress.add(s.env.stallTimeout())
}

// watchOutput looks at what waits behind the socket, now and then while output does
// not come to rest. Measuring is not free, so a client that keeps up is never measured.
func (s *Session) watchOutput(now time.Time) {
	t := s.at(now)
	if s.stallDue().due(t) {
		s.tooSlow()
		return
	}
	if !s.slowDue.due(t) {
		return
	}
	if s.restIfDone(); s.outSince == 0 {
		return
	}
	lag := s.sub.Lag()
	age := func(published int64) time.Duration {
		if published == 0 {
			return 0
		}
		// Publication is a time of the wall clock, which may be set. Nothing waits for
		// longer than output has not come to rest.
		return min(time.Duration(now.UnixNano()-published), time.Duration(t-s.outSince))
	}
	bytes, oldest := lag.KeptBytes, lag.OldestKept
	if s.strict {
		bytes, oldest = lag.Bytes, lag.Oldest
	}
	if bytes > s.env.maxWaiting() || age(oldest) >= s.env.maxAge() {
		s.tooSlow()
		return
	}
	held := time.Duration(0)
	if s.outstanding() {
		held = time.Duration(t - s.outGiven)
	}
	behind := max(held, age(lag.Oldest))
	if behind >= s.env.slowAfter() && !s.sub.Replaying() || lag.Bytes > s.env.maxWaiting() {
		s.warnSlow(t, behind, lag.Messages)
	}
	if !s.strict && lag.Bytes > s.env.maxWaiting() {
		s.sub.Collapse()
	}
	s.slowDue = t.add(s.env.slowAfter())
	if oldest != 0 {
		s.slowDue = min(s.slowDue, t.add(s.env.maxAge()-age(oldest)))
	}
	if s.isSlow() && s.slow.warnDue > t {
		s.slowDue = min(s.slowDue, s.slow.warnDue)
	}
}

// warnSlow begins or goes on with the slow state, and warns now and then.
func (s *Session) warnSlow(t moment, behind time.Duration, queued int) {
	if s.slow == nil {
		s.slow = &slowness{}
	}
	w := s.slow
	w.on = true
	if w.warnDue > t || w.warnEnd > s.gathered {
		return // a warning was given lately, or still waits itself
	}
	w.warnDue = t.add(s.env.slowWarning())
	msg := "Reading too slowly: quotes conflated"
	if s.strict {
		msg = "Reading too slowly"
	}
	s.send(wire.AppendSlow(nil, msg, int(behind.Milliseconds()), queued))
	w.warnEnd = s.gathered + uint64(len(s.control))
}

// tooSlow ends the session of a client that does not read. What it has of each
// instrument when this Error reaches it, is what was gathered so far: nothing
// but the Error follows.
func (s *Session) tooSlow() {
	if s.over != "" {
		return
	}
	var last wire.Last
	for _, c := range [...]wire.Channel{wire.Trades, wire.Status} {
		s.sub.Delivered(c, func(id market.InstrumentID, n uint64) {
			last[c] = append(last[c], wire.Sequence{ID: id, N: n})
		})
	}
	s.fail(wire.NewFault(wire.SlowClient, ""), nil, wire.AppendLast(nil, &last))
}
