package session

import (
	"sync/atomic"
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

func (s *Session) isSlow() bool { return s.aside != nil && s.aside.slow != nil && s.aside.slow.on }

// output is how far the output is that does not come to rest.
type output struct {
	left     int    // bytes given to the host that the kernel has not taken
	besides  int    // bytes of the host's own likewise
	since    moment // output has not come to rest since
	given    moment // of what is left
	progress moment // when the kernel last took something, or had nothing to take
	lookDue  moment // when to look at what waits
	counted  int    // bytes of the session's own in the backlog of all
	weighed  int    // those, and the bytes that it keeps from being freed
}

// backlog is what all slow sessions hold. What several share is in the weight of each
// of them, and in no bytes: the stream counts it once.
type backlog struct {
	bytes    atomic.Int64 // that one session alone holds
	weight   atomic.Int64 // those, and what sessions keep from being freed
	sessions atomic.Int64
}

// tally tells the backlog how many bytes this session alone holds, and how many more it keeps from being freed. It says
// whether the session has to go: the backlog is over its bound, or the stream's memory is, and this is one
// of the larger parts.
func (s *Session) tally(own, pinned int) (cut bool) {
	b, o := &s.env.Registry.backlog, s.out
	weight := own + pinned
	switch {
	case o.weighed == 0 && weight > 0:
		b.sessions.Add(1)
	case o.weighed > 0 && weight == 0:
		b.sessions.Add(-1)
	}
	s.sub.Hold(own - o.counted)
	bytes := b.bytes.Add(int64(own - o.counted))
	all := b.weight.Add(int64(weight - o.weighed))
	o.counted, o.weighed = own, weight
	n := max(1, b.sessions.Load())
	return bytes > int64(s.env.maxBacklog()) && int64(own) >= bytes/n ||
		weight > 0 && s.sub.Excess() && int64(weight) >= all/n
}

// atRest gives back what is kept while output does not come to rest.
func (s *Session) atRest() {
	if s.out != nil {
		s.tally(0, 0)
		s.out = nil
	}
}

// Sent is told what became of what Gather gave: of given bytes the kernel took
// taken at once. The host calls it once after each Gather that gave something.
func (s *Session) Sent(now time.Time, given, taken int) {
	s.taken += uint64(taken)
	if s.aside != nil && taken > 0 {
		s.pingTaken(s.at(now))
	}
	if s.out == nil {
		if taken == given && s.aside == nil && !s.sub.Pending() {
			return // as nearly always
		}
		t := s.at(now)
		s.out = &output{since: t, lookDue: t.add(s.env.slowAfter())}
	}
	t := s.at(now)
	o := s.out
	if o.left+o.besides == 0 {
		o.given, o.progress = t, t
	}
	o.left += given - taken
	if taken > 0 {
		o.progress = t
	}
	s.restIfDone()
}

// Besides is told how many bytes of the host's own, such as its answer to a ping of RFC 6455, the
// kernel has not taken, whenever that is any or was: a socket that is full of those is no
// less full.
func (s *Session) Besides(now time.Time, left int) {
	t := s.at(now)
	if s.out == nil {
		if left == 0 {
			return
		}
		s.out = &output{since: t, given: t, progress: t, lookDue: t.add(s.env.slowAfter())}
	}
	if left < s.out.besides {
		s.out.progress = t
	}
	s.out.besides = left
	s.restIfDone()
}

// Wrote is told that the kernel took n more bytes of what was left.
func (s *Session) Wrote(now time.Time, n int) {
	if n <= 0 {
		return
	}
	t := s.at(now)
	s.taken += uint64(n)
	if s.out != nil {
		s.out.left -= n
		s.out.progress = t
	}
	s.pingTaken(t)
	s.restIfDone()
}

// restIfDone ends the slow state once everything was taken and nothing waits.
func (s *Session) restIfDone() {
	if s.over() != nil || s.outstanding() || s.Pending() {
		return
	}
	s.atRest()
	if s.isSlow() {
		s.aside.slow.on = false
	}
}

// outstanding says whether the kernel still has to take something.
func (s *Session) outstanding() bool { return s.out != nil && s.out.left+s.out.besides != 0 }

// gathered is where what was given to the host ends in the output.
func (s *Session) gathered() uint64 {
	if s.out == nil {
		return s.taken
	}
	return s.taken + uint64(s.out.left)
}

// stallDue is when a socket that takes nothing is given up.
func (s *Session) stallDue() moment {
	if !s.outstanding() {
		return 0
	}
	return s.out.progress.add(s.env.stallTimeout())
}

// watchOutput looks at what waits behind the socket, now and then while output does
// not come to rest. Measuring is not free, so a client that keeps up is never measured.
func (s *Session) watchOutput(now time.Time) {
	t := s.at(now)
	if s.stallDue().due(t) {
		s.tooSlow()
		return
	}
	if !s.out.lookDue.due(t) {
		return
	}
	if s.restIfDone(); s.out == nil {
		return
	}
	lag := s.sub.Lag()
	age := func(published int64) time.Duration {
		if published == 0 {
			return 0
		}
		// Publication is a time of the wall clock, which may be set. Nothing waits for
		// longer than output has not come to rest.
		return min(time.Duration(now.UnixNano()-published), time.Duration(t-s.out.since))
	}
	bytes, oldest := lag.KeptBytes, lag.OldestKept
	if s.strict {
		bytes, oldest = lag.Bytes, lag.Oldest
	}
	cut := s.tally(lag.Held+s.waiting()+s.out.left+s.out.besides, lag.Pinned)
	if cut || bytes > s.env.maxWaiting() || age(oldest) >= s.env.maxAge() {
		s.tooSlow()
		return
	}
	held := time.Duration(0)
	if s.outstanding() {
		held = time.Duration(t - s.out.given)
	}
	behind := max(held, age(lag.Oldest))
	if behind >= s.env.slowAfter() && !s.sub.Replaying() || lag.Bytes > s.env.maxWaiting() {
		s.warnSlow(t, behind, lag.Messages)
	}
	if !s.strict && lag.Bytes > s.env.maxWaiting() {
		s.sub.Collapse()
	}
	s.out.lookDue = t.add(s.env.slowAfter())
	if oldest != 0 {
		s.out.lookDue = min(s.out.lookDue, t.add(s.env.maxAge()-age(oldest)))
	}
	if s.isSlow() && s.aside.slow.warnDue > t {
		s.out.lookDue = min(s.out.lookDue, s.aside.slow.warnDue)
	}
}

// warnSlow begins or goes on with the slow state, and warns now and then.
func (s *Session) warnSlow(t moment, behind time.Duration, queued int) {
	a := s.put()
	if a.slow == nil {
		a.slow = &slowness{}
	}
	w := a.slow
	w.on = true
	if w.warnDue > t || w.warnEnd > s.gathered() {
		return // a warning was given lately, or still waits itself
	}
	w.warnDue = t.add(s.env.slowWarning())
	msg := "Reading too slowly: quotes conflated"
	if s.strict {
		msg = "Reading too slowly"
	}
	s.send(wire.AppendSlow(s.sub.Scratch(), msg, int(behind.Milliseconds()), queued))
	w.warnEnd = s.gathered() + uint64(s.waiting())
}

// mostDelivered bounds the instruments that the Error names, and so its size, for a socket that
// takes nothing: they are those of which something waits. It is under 100 KiB.
const mostDelivered = 1000

// tooSlow ends the session of a client that does not read. What it has of each
// instrument when this Error reaches it, is what was gathered so far: nothing
// but the Error follows.
func (s *Session) tooSlow() {
	if s.over() != nil {
		return
	}
	var last wire.Last
	left := mostDelivered
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		left -= s.sub.Delivered(c, left, func(id market.InstrumentID, n uint64) {
			last[c] = append(last[c], wire.Sequence{ID: id, N: n})
		})
	}
	s.fail(wire.NewFault(wire.SlowClient, ""), nil, wire.AppendLast(nil, &last))
}
