package session

import (
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// slowness is the state of a client that reads too slowly, or did so before.
type slowness struct {
	on      bool
	warnDue instant // of the next warning
	warnEnd uint64  // end of the last one in the output
}

func (o *optional) isSlow() bool { return o != nil && o.slow != nil && o.slow.on }

// output is the state of output that the kernel has not accepted.
type output struct {
	unsent     int     // bytes that the host has got
	hostUnsent int     // bytes of the host's own
	since      instant // there has been such output since
	given      instant // to the host; of unsent
	progress   instant // when the kernel last accepted something, or had nothing to accept
	checkDue   instant // when to measure the backlog
	counted    int     // bytes in the backlog that only this session holds
	weighed    int     // those, and the bytes that it prevents from being freed
}

// backlog is the memory that all slow sessions hold. The weight of each session includes the memory
// that several of them share. bytes does not, because the hub counts that memory once.
type backlog struct {
	bytes    atomic.Int64 // that only one session holds
	weight   atomic.Int64 // those, and what sessions prevent from being freed
	sessions atomic.Int64
}

// Backlog returns the bytes that only slow sessions hold, and their number.
func (r *Registry) Backlog() (bytes, sessions int64) {
	return r.backlog.bytes.Load(), r.backlog.sessions.Load()
}

// holdBacklog sets the bytes that only this session holds, and the further bytes that it prevents
// from being freed. It reports whether the session must close: the backlog or the stream's memory
// is above its limit, and this is one of the larger parts.
func (s *Session) holdBacklog(own, pinned int) (excess bool) {
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

// Sent reports how many of the bytes of the last Output the kernel has accepted at once. The host
// calls it once after each Output that was not empty.
func (s *Session) Sent(now time.Time, given, accepted int) {
	s.accepted += uint64(accepted)
	if s.optional != nil && accepted > 0 {
		s.pingAccepted(s.env.at(now))
	}
	if s.out == nil {
		if accepted == given && s.optional == nil && !s.sub.Pending() {
			return // the usual case
		}
		s.out = s.env.newOutput(s.env.at(now))
	}
	t := s.env.at(now)
	o := s.out
	if !o.isUnsent() {
		o.given, o.progress = t, t
	}
	o.unsent += given - accepted
	if accepted > 0 {
		o.progress = t
	}
	s.releaseOutput()
}

// HostUnsent reports how many of the host's own bytes, such as its answer to a ping of RFC 6455,
// the kernel has not accepted. The host calls it whenever there are or were any, because they also
// fill the socket.
func (s *Session) HostUnsent(now time.Time, n int) {
	t := s.env.at(now)
	if s.out == nil {
		if n == 0 {
			return
		}
		s.out = s.env.newOutput(t)
	}
	if n < s.out.hostUnsent {
		s.out.progress = t
	}
	s.out.hostUnsent = n
	s.releaseOutput()
}

// Wrote reports that the kernel has accepted n more bytes.
func (s *Session) Wrote(now time.Time, n int) {
	if n <= 0 {
		return
	}
	t := s.env.at(now)
	s.accepted += uint64(n)
	if s.out != nil {
		s.out.unsent -= n
		s.out.progress = t
	}
	s.pingAccepted(t)
	s.releaseOutput()
}

// newOutput returns the state of output that begins to wait at t.
func (e *Env) newOutput(t instant) *output {
	return &output{since: t, given: t, progress: t, checkDue: t.add(e.slowAfter())}
}

// isUnsent reports whether the kernel has not accepted all output.
func (o *output) isUnsent() bool { return o != nil && o.unsent+o.hostUnsent != 0 }

// releaseOutput ends the slow state if the kernel has accepted everything and nothing waits.
func (s *Session) releaseOutput() {
	if s.closeReason() != nil || s.out.isUnsent() || s.Pending() {
		return
	}
	if s.out != nil {
		s.holdBacklog(0, 0)
		s.out = nil
	}
	if s.optional.isSlow() {
		s.slow.on = false
	}
}

// end returns the number of bytes that the host has received since the start. accepted is how many
// of them the kernel has accepted.
func (o *output) end(accepted uint64) uint64 {
	if o == nil {
		return accepted
	}
	return accepted + uint64(o.unsent)
}

// stallDue returns when a socket that accepts nothing counts as dead; 0: never.
func (o *output) stallDue(env *Env) instant {
	if !o.isUnsent() {
		return 0
	}
	return o.progress.add(env.stallTimeout())
}

// watchOutput measures the backlog of a client now and then while output waits. Measuring has a
// cost, so it is not done for clients that keep up.
func (s *Session) watchOutput(now time.Time) {
	t := s.env.at(now)
	if s.out.stallDue(s.env).due(t) {
		s.failSlow()
		return
	}
	if s.out == nil || !s.out.checkDue.due(t) {
		return
	}
	if s.releaseOutput(); s.out == nil {
		return
	}
	lag := s.sub.Lag()
	age := func(published int64) time.Duration {
		if published == 0 {
			return 0
		}
		// The publication time comes from the wall clock, which may be adjusted. No message has
		// waited longer than there has been unsent output.
		return min(time.Duration(now.UnixNano()-published), time.Duration(t-s.out.since))
	}
	bytes, oldest := lag.KeptBytes, lag.OldestKept
	if s.strict {
		bytes, oldest = lag.Bytes, lag.Oldest
	}
	excess := s.holdBacklog(lag.Held+s.optional.controlBytes()+s.out.unsent+s.out.hostUnsent, lag.Pinned)
	if excess || bytes > s.env.maxWaiting() || age(oldest) >= s.env.maxAge() {
		s.failSlow()
		return
	}
	held := time.Duration(0)
	if s.out.isUnsent() {
		held = time.Duration(t - s.out.given)
	}
	behind := max(held, age(lag.Oldest))
	if behind >= s.env.slowAfter() && !s.sub.Replaying() || lag.Bytes > s.env.maxWaiting() {
		s.warnSlow(t, behind, lag.Messages)
	}
	if !s.strict && lag.Bytes > s.env.maxWaiting() {
		s.sub.Collapse()
	}
	s.out.checkDue = t.add(s.env.slowAfter())
	if oldest != 0 {
		s.out.checkDue = min(s.out.checkDue, t.add(s.env.maxAge()-age(oldest)))
	}
	if s.optional.isSlow() && s.slow.warnDue > t {
		s.out.checkDue = min(s.out.checkDue, s.slow.warnDue)
	}
}

// warnSlow starts or continues the slow state, with a warning now and then.
func (s *Session) warnSlow(t instant, behind time.Duration, queued int) {
	o := s.ext()
	if o.slow == nil {
		o.slow = &slowness{}
	}
	w := o.slow
	w.on = true
	if w.warnDue > t || w.warnEnd > s.out.end(s.accepted) {
		return // the last warning is recent, or still waits itself
	}
	w.warnDue = t.add(s.env.slowWarning())
	msg := "Reading too slowly: quotes conflated"
	if s.strict {
		msg = "Reading too slowly"
	}
	s.send(wire.AppendSlow(s.sub.Scratch(), msg, int(behind.Milliseconds()), queued))
	w.warnEnd = s.out.end(s.accepted) + uint64(o.controlBytes())
}

// maxDelivered bounds the instruments in the Error slow_client, which has those with waiting
// messages. The Error then has under 100 KiB.
const maxDelivered = 1000

// failSlow ends the session of a client that does not read. The Error has the last sequence of each
// instrument that the client will receive: only the Error follows what the host has got.
func (s *Session) failSlow() {
	if s.closeReason() != nil {
		return
	}
	var last wire.Last
	left := maxDelivered
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		left -= s.sub.Delivered(c, left, func(id market.InstrumentID, n uint64) {
			last[c] = append(last[c], wire.Sequence{ID: id, N: n})
		})
	}
	s.fail(wire.NewFault(wire.SlowClient, ""), nil, func(b []byte) []byte { return wire.AppendLast(b, &last) })
}
