package socket

import (
	"time"

	"github.com/ruedahq/rueda/internal/sched"
)

const (
	// gatherSize is about how much is taken from a session at a time: a hundred
	// messages, so that the cost of a write is spread over many, and little enough
	// that what a slow peer has not taken can still be conflated.
	gatherSize = 64 << 10

	// A sweep stops for what came in after so many writes or so much time.
	sweepWrites = 64
	sweepTime   = time.Millisecond

	// A shard whose last sweep took less is idle: what comes goes out at once.
	idleSweep = time.Millisecond
)

// sweepAt is when what was published may go out. Messages in one write are what
// fan-out costs: sixteen in one are twelve times cheaper than sixteen alone. So a
// shard that is busy lets an interval go by between two sweeps.
func (sh *shard) sweepAt() time.Time {
	if sh.took < idleSweep || sh.urgent.Load() {
		return sh.swept
	}
	if sh.putOff.After(sh.swept) {
		return sh.putOff
	}
	return sh.swept.Add(sh.server.cfg.FlushInterval)
}

// sweep gives what was published to all whom it concerns.
func (sh *shard) sweep(now time.Time) {
	if sh.took >= idleSweep && !sh.urgent.Load() && sh.stream.AwaitCommit() {
		sh.putOff = now.Add(sh.server.cfg.FlushInterval)
		return
	}
	// Where there is time between two sweeps, the readers of this machine, if any, get a
	// processor in between: they have what was written sooner. At full speed that would
	// only cut their reads, and so everything, into smaller pieces.
	polite := now.Sub(sh.swept) > sh.took+sh.took/4
	sh.swept = now
	sh.urgent.Store(false)
	sh.news.Store(false)
	sh.stream.Turn()
	pause, writes := now.Add(sweepTime), 0
	for sub := sh.stream.Next(); sub != nil; sub = sh.stream.Next() {
		c := sub.Key().(*conn)
		if c.out != nil {
			continue // its socket is full: when it is not any more, all that waits goes out
		}
		sh.feed(now, c)
		if writes++; writes%16 != 0 {
			continue
		}
		if now = time.Now(); writes >= sweepWrites || now.After(pause) {
			sh.dispatch(now)
			sh.interlude(now)
			if polite {
				sched.Yield()
			}
			now = time.Now()
			pause, writes = now.Add(sweepTime), 0
		}
	}
	sh.dispatch(now)
	sh.flushDirty(now)
	sh.took = time.Since(sh.swept)
	sh.counts.sweeps.Add(1)
}

// interlude handles, in a long sweep, what came in meanwhile.
func (sh *shard) interlude(now time.Time) {
	if sh.door != nil {
		sh.events(now, sh.door.poller.peek())
	}
	sh.takeInbox(now)
	sh.flushDirty(now)
}

// feed writes what the stream has for c. It is the shortest way, for a line in the clear
// that takes everything; whatever else comes up is left to flush.
func (sh *shard) feed(now time.Time, c *conn) {
	if c.fd == noLine || c.tls != nil || c.aside != nil || c.phase != phaseOpen {
		sh.touch(c)
		return
	}
	if sh.bundle != nil {
		sh.collect(now, c)
		return
	}
	defer sh.caught(now, c)
	sh.server.at(c, stepGather)
	b := c.sess.Gather(now, sh.scratch[:0], gatherSize)
	if len(b) > 0 {
		n := sh.kernel.write(c.fd, b)
		sh.writes++
		if n < len(b) {
			sh.short(now, c, b, n, outlet{own: len(b), fresh: true})
			return
		}
		sh.server.at(c, stepSent)
		c.sess.Sent(now, n, n)
	}
	sh.attend(now, c)
}

func (sh *shard) over(c *conn) bool {
	_, _, over := c.sess.Close()
	return over
}
