package socket

import (
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/sched"
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

// flusher writes published messages to their subscribers.
type flusher struct {
	shard   *shard
	pending atomic.Bool // messages were published since the last flush
	urgent  atomic.Bool // flush without waiting for more messages

	// Owned by the shard's goroutine.
	batch     *uringBatch   // nil: one system call for each write
	began     time.Time     // start of the last flush
	took      time.Duration // duration of the last flush
	writes    int           // of the last flush
	waitUntil time.Time     // the flush waits for a commit, until then at most
}

// published records that messages were published. Any goroutine may call it.
func (f *flusher) published(urgent bool) {
	if urgent {
		f.urgent.Store(true)
	}
	f.pending.Store(true)
}

// overdue reports whether published messages may be written and input took long enough to handle.
func (f *flusher) overdue(since time.Time) bool {
	if !f.pending.Load() {
		return false
	}
	now := time.Now()
	return now.Sub(since) > inputSlice && !now.Before(f.due())
}

// busy reports whether published messages wait for an interval, so that a write carries more of
// them. A flush with few writes is short. If it took long, the machine or other input was the
// cause.
func (f *flusher) busy() bool {
	return f.took >= busyFlush && f.writes >= flushWrites && !f.urgent.Load()
}

// due returns when published messages may be written. Most of the cost of fan-out is the writes:
// sixteen messages in one write cost a twelfth of sixteen writes. A busy shard therefore waits for
// an interval between flushes.
func (f *flusher) due() time.Time {
	if !f.busy() {
		return f.began
	}
	if f.waitUntil.After(f.began) {
		return f.waitUntil
	}
	return f.began.Add(f.shard.server.cfg.FlushInterval)
}

// run writes published messages to their subscribers.
func (f *flusher) run(now time.Time) {
	sh := f.shard
	if f.busy() && sh.stream.AwaitCommit() {
		f.waitUntil = now.Add(sh.server.cfg.FlushInterval)
		return
	}
	// If there is time between flushes, yield the processor to local readers, so that they get
	// their messages sooner. At full load that would only make their reads smaller.
	yield := now.Sub(f.began) > f.took+f.took/4
	f.began = now
	f.urgent.Store(false)
	f.pending.Store(false)
	sh.stream.Turn()
	oldest := sh.stream.Figures.Oldest
	pause, writes, all := now.Add(flushTime), 0, 0
	for sub := sh.stream.Next(); sub != nil; sub = sh.stream.Next() {
		c := sub.Key().(*conn)
		if c.out != nil {
			continue // it gets its backlog when its socket is writable
		}
		f.deliver(now, c)
		if writes++; writes%16 != 0 {
			continue
		}
		if now = time.Now(); writes >= flushWrites || now.After(pause) {
			f.submit(now)
			f.serviceInbox(now)
			if yield {
				sched.Yield()
			}
			all += writes
			now = time.Now()
			sh.figures.Wrote(now, oldest, writes)
			pause, writes = now.Add(flushTime), 0
		}
	}
	f.submit(now)
	sh.flushDirty(now)
	now = time.Now()
	sh.figures.Wrote(now, oldest, writes)
	f.took, f.writes = now.Sub(f.began), all+writes
	sh.counts.flushes.Add(1)
}

// serviceInbox handles input that has arrived during a long flush.
func (f *flusher) serviceInbox(now time.Time) {
	sh := f.shard
	if sh.loop != nil {
		sh.loop.handleEvents(now, sh.loop.pendingEvents())
	}
	sh.takeInbox(now)
	sh.flushDirty(now)
}

// deliver writes the new messages of c. It is the fast path for the event loop without TLS; flush
// handles all other cases.
func (f *flusher) deliver(now time.Time, c *conn) {
	sh := f.shard
	if c.fd == noFD || c.tls != nil || c.control != nil || c.phase != phaseOpen {
		sh.markDirty(c)
		return
	}
	if f.batch != nil {
		f.addToBatch(now, c)
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
		sh.figures.Bytes += uint64(n)
	}
	sh.markIfPending(c)
}

// markIfPending marks c for a flush if it has more output or its session is over.
func (sh *shard) markIfPending(c *conn) {
	if _, _, over := c.sess.Close(); over || c.sess.Pending() {
		sh.markDirty(c)
	}
}
