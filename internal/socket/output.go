package socket

import (
	"sync"
	"time"
)

// gatherSize is about how much is taken from a session at a time: a hundred
// messages, so that the cost of a write is spread over many, and little enough
// that what a slow peer has not taken can still be conflated.
const gatherSize = 64 << 10

// wrote tells the session what the kernel took of its bytes.
func (sh *shard) wrote(now time.Time, c *conn, in *input) {
	before := min(in.n, c.before)
	c.before -= before
	own := min(in.n-before, c.own)
	c.own -= own
	if own > 0 && c.phase == phaseOpen {
		c.sess.Wrote(now, own)
		sh.settle(now, c)
	}
	if in.failed {
		sh.end(c, false)
		return
	}
	if in.last {
		c.writing = false
	}
}

// flush gives the writer what waits, when it is idle, and sets the connection's
// next deadline.
func (sh *shard) flush(now time.Time, c *conn) {
	c.dirty = false
	defer sh.caught(now, c)
	if c.reading {
		sh.parse(now, c) // what waited for a token check
	}
	if c.phase != phaseEnded && !c.writing {
		sh.gather(now, c)
	}
	if c.phase == phaseEnded {
		return
	}
	deadline := c.closeBy
	if c.phase == phaseOpen {
		if d := c.sess.Deadline(); !d.IsZero() && (deadline.IsZero() || d.Before(deadline)) {
			deadline = d
		}
	}
	sh.timers.set(c, deadline)
}

// gather fills one buffer for the writer: the answer to the handshake, then what
// the session has to say, then frames of our own.
func (sh *shard) gather(now time.Time, c *conn) {
	buf := sh.server.buffers.get()
	*buf = append(*buf, c.greeting...)
	c.before, c.own, c.greeting = len(*buf), 0, nil
	if c.phase == phaseOpen {
		n := len(*buf)
		b := c.sess.Gather(now, (*buf)[n:], gatherSize)
		*buf = append(*buf, b...)
		if c.own = len(b); c.own > 0 {
			c.sess.Sent(now, c.own, 0)
		}
		sh.settle(now, c)
		// A session that is over and has nothing more to say gets its close frame.
		if code, reason, ok := c.sess.Close(); ok && c.own == 0 {
			sh.part(now, c, appendClose(nil, code, reason))
		}
	}
	*buf = append(append(*buf, c.pong...), c.farewell...)
	c.pong, c.farewell = nil, nil
	if len(*buf) > 0 {
		c.writing = true
		c.out <- buf // has room: the writer is idle
		return
	}
	sh.server.buffers.put(buf)
	if c.phase == phaseClosing {
		sh.parted(c)
	}
}

// buffers are the pooled memory of writes.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// put takes a buffer back, unless one huge message has grown it.
func (b *buffers) put(buf *[]byte) {
	if cap(*buf) <= 2*gatherSize {
		*buf = (*buf)[:0]
		b.pool.Put(buf)
	}
}
