package socket

import (
	"time"

	"github.com/ruedahq/rueda/internal/sched"
)

const (
	// gatherSize is about how many bytes are taken from a session at a time: a hundred messages,
	// which spreads the cost of a write, and little enough to conflate the rest for a slow peer.
	gatherSize = 64 << 10

	// A flush handles other input after so many writes or so much time.
	flushWrites = 64
	flushTime   = time.Millisecond

	// A shard whose last flush was shorter, or had fewer than flushWrites writes, is idle: it
	// flushes immediately.
	busyFlush = time.Millisecond

	// inputSlice is how long input is handled while published messages wait. Answering one message
	// of a client can take a millisecond.
	inputSlice = 250 * time.Microsecond
)

// flushOverdue reports whether published messages may be written, and input has been handled for
// long enough since.
func (sh *shard) flushOverdue(since time.Time) bool {
	if !sh.flushPending.Load() {
		return false
	}
	now := time.Now()
	return now.Sub(since) > inputSlice && !now.Before(sh.flushAt())
}

// busy reports whether published messages wait for an interval, so that a write carries more of
// them. A flush with few writes is short: if it took long, the machine or another input did that.
func (sh *shard) busy() bool {
	return sh.flushTook >= busyFlush && sh.flushWrites >= flushWrites && !sh.urgent.Load()
}

// flushAt returns when published messages may be written. Batching is the dominant lever of
// fan-out: sixteen messages in one write cost a twelfth of sixteen writes. A busy shard therefore
// waits for an interval between flushes.
func (sh *shard) flushAt() time.Time {
	if !sh.busy() {
		return sh.flushedAt
	}
	if sh.commitWaitUntil.After(sh.flushedAt) {
		return sh.commitWaitUntil
	}
	return sh.flushedAt.Add(sh.server.cfg.FlushInterval)
}

// flushSubscribers writes published messages to their subscribers.
func (sh *shard) flushSubscribers(now time.Time) {
	if sh.busy() && sh.stream.AwaitCommit() {
		sh.commitWaitUntil = now.Add(sh.server.cfg.FlushInterval)
		return
	}
	// With time left between flushes, yield the processor to local readers, which get their
	// messages sooner. At full load that would only make their reads smaller.
	yield := now.Sub(sh.flushedAt) > sh.flushTook+sh.flushTook/4
	sh.flushedAt = now
	sh.urgent.Store(false)
	sh.flushPending.Store(false)
	sh.stream.Turn()
	pause, writes, all := now.Add(flushTime), 0, 0
	var input time.Duration // spent on other input
	for sub := sh.stream.Next(); sub != nil; sub = sh.stream.Next() {
		c := sub.Key().(*conn)
		if c.out != nil {
			continue // it gets its backlog when its socket is writable
		}
		sh.deliver(now, c)
		if writes++; writes%16 != 0 {
			continue
		}
		if now = time.Now(); writes >= flushWrites || now.After(pause) {
			sh.submit(now)
			sh.serviceInbox(now)
			if yield {
				sched.Yield()
			}
			all += writes
			began := now
			now = time.Now()
			input += now.Sub(began)
			pause, writes = now.Add(flushTime), 0
		}
	}
	sh.submit(now)
	sh.flushDirty(now)
	sh.flushTook, sh.flushWrites = time.Since(sh.flushedAt)-input, all+writes
	sh.counts.flushes.Add(1)
}

// serviceInbox handles input that has arrived during a long flush.
func (sh *shard) serviceInbox(now time.Time) {
	if sh.loop != nil {
		sh.handleEvents(now, sh.loop.pendingEvents())
	}
	sh.takeInbox(now)
	sh.flushDirty(now)
}

// deliver writes the new messages of c. It is the fast path for the event loop without TLS; flush
// handles all other cases.
func (sh *shard) deliver(now time.Time, c *conn) {
	if c.fd == noFD || c.tls != nil || c.control != nil || c.phase != phaseOpen {
		sh.markDirty(c)
		return
	}
	if sh.batch != nil {
		sh.addToBatch(now, c)
		return
	}
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepGather)
	b := c.sess.Output(now, sh.scratch[:0], gatherSize)
	if len(b) > 0 {
		n := sh.kernel.write(c.fd, b)
		sh.writes++
		if n < len(b) {
			sh.saveUnwritten(now, c, b, n, writeBuffer{sessionBytes: len(b), unreported: true})
			return
		}
		sh.server.reach(c, stepSent)
		c.sess.Sent(now, n, n)
	}
	sh.markIfPending(now, c)
}
