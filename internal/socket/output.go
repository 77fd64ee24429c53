package socket

import (
	"sync"
	"time"
)

// flush writes what waits as far as the socket takes it, and sets the connection's next
// deadline.
func (sh *shard) flush(now time.Time, c *conn) {
	c.dirty = false
	defer sh.caught(now, c)
	sh.server.at(c, stepFlush)
	if c.in != nil && len(c.in.rest) > 0 {
		sh.parse(now, c, nil) // what waited for a token check
	}
	var began time.Time // the second write
	more := false
	for c.phase == phaseOpen || c.phase == phaseClosing {
		if c.out != nil || !sh.write(now, c) {
			break
		}
		if began.IsZero() {
			began = time.Now()
		} else if more = time.Since(began) > flushSlice; more {
			break
		}
	}
	if more || c.phase == phaseOpen && c.out == nil && c.sess.Unfinished() {
		sh.postpone(c)
	}
	sh.readOn(c)
	if c.pump != nil && !c.choked() && (c.in == nil || len(c.in.rest) == 0) {
		c.pump.usedUp()
	}
	c.tidy()
	sh.schedule(c)
}

const (
	flushSlice    = 250 * time.Microsecond // of writing to one connection while others wait
	postponedTime = time.Millisecond       // of writing to postponed connections in one turn
)

// postpone has a connection that has more to write flushed again after the others.
func (sh *shard) postpone(c *conn) {
	if !c.dirty {
		c.dirty = true
		sh.postponed = append(sh.postponed, c)
	}
}

// flushPostponed flushes connections that have more to write than was written at once, the one that
// has waited longest first, for a limited time.
func (sh *shard) flushPostponed(now time.Time) {
	if len(sh.postponed) == 0 {
		return
	}
	done, end := 0, time.Now().Add(postponedTime)
	for list := sh.postponed; done < len(list) && (done == 0 || time.Now().Before(end)); done++ {
		sh.flush(now, list[done])
	}
	n := copy(sh.postponed, sh.postponed[done:])
	clear(sh.postponed[n:])
	if sh.postponed = sh.postponed[:n]; n > 0 {
		sh.rouse()
	}
}

// schedule tells the wheel of the connection's next deadline.
func (sh *shard) schedule(c *conn) {
	deadline := c.closeBy()
	switch c.phase {
	case phaseEnded:
		return
	case phaseOpen:
		if d := c.sess.Deadline(); !d.IsZero() && (deadline.IsZero() || d.Before(deadline)) {
			deadline = d
		}
	}
	sh.wheel.set(c, sh.server.moment(deadline))
}

// write makes one write: the answer to the handshake, then what the session has to
// say, then frames of our own. It says whether there may be more to write.
func (sh *shard) write(now time.Time, c *conn) bool {
	var o outlet
	b := sh.scratch[:0]
	if c.phase == phaseOpen {
		sh.server.at(c, stepGather)
		b = c.sess.Gather(now, b, gatherSize)
		o.own, o.fresh = len(b), true
		sh.settle(now, c)
		// A session that is over and has nothing more to say gets its close frame.
		if code, reason, ok := c.sess.Close(); ok && o.own == 0 {
			sh.part(now, c, appendClose(nil, code, reason))
		}
	}
	if c.aside != nil {
		b = sh.besides(c, b, &o)
	}
	if len(b) == 0 {
		if c.phase == phaseClosing {
			sh.parted(c)
		}
		return false
	}
	sh.writes++
	if c.pump != nil {
		buf := sh.server.buffers.get()
		*buf = append(*buf, b...)
		piped := o // o itself stays on the stack
		piped.piped = len(b)
		c.out = &piped
		c.pump.out <- buf // has room: the writer is idle
		sh.wrote(now, c, c.out, 0)
		sh.tell(now, c)
		return false
	}
	if c.tls != nil {
		return sh.writeSecured(now, c, b, o)
	}
	n := sh.kernel.write(c.fd, b)
	if n < len(b) {
		sh.short(now, c, b, n, o)
		return false
	}
	sh.wrote(now, c, &o, n)
	return c.phase != phaseEnded
}

// besides puts frames of our own around those of the session.
func (sh *shard) besides(c *conn, b []byte, o *outlet) []byte {
	a := c.aside
	o.before = len(a.greeting)
	if o.before > 0 {
		// b may be of the stream's memory, which is not to be moved.
		sh.before = append(append(sh.before[:0], a.greeting...), b...)
		b = sh.before
	}
	if len(a.farewell) > 0 {
		if o.before == 0 {
			sh.before = append(sh.before[:0], b...)
		}
		b = append(sh.before, a.farewell...)
		sh.before = b
	}
	if cap(sh.before) > 4*gatherSize {
		sh.before = nil // after a huge message
	}
	a.greeting, a.farewell = nil, nil
	if !c.closing() {
		c.extra().aside = nil
	}
	return b
}

// wrote tells the session what the kernel took of its bytes.
func (sh *shard) wrote(now time.Time, c *conn, o *outlet, n int) {
	before := min(n, o.before)
	o.before -= before
	own, given := min(n-before, o.own), o.own
	o.own -= own
	if given == 0 || c.phase != phaseOpen {
		return
	}
	sh.server.at(c, stepSent)
	if o.fresh {
		o.fresh = false
		c.sess.Sent(now, given, own)
	} else {
		c.sess.Wrote(now, own)
	}
	sh.settle(now, c)
}

// tell tells the session how much of what waits for the socket is not its own.
func (sh *shard) tell(now time.Time, c *conn) {
	if c.phase != phaseOpen {
		return
	}
	left := 0
	if o := c.out; o != nil {
		if left = o.piped - o.own; c.pump == nil {
			left = len(*o.buf) - o.at - o.own
		}
	}
	c.sess.Besides(now, left)
}

// short keeps what a line did not take of b. n is how much it took.
func (sh *shard) short(now time.Time, c *conn, b []byte, n int, o outlet) {
	if n == lineBroken {
		sh.end(c, false)
		return
	}
	taken := o.share(n)
	o.buf = sh.server.buffers.get()
	*o.buf = append(*o.buf, b[n:]...)
	sh.block(c, &o) // before the session is told: if it panics, the rest of a frame is still written
	sh.wrote(now, c, &o, taken)
	if c.phase == phaseEnded {
		return
	}
	sh.tell(now, c)
	sh.touch(c) // for its deadline
}

// resume writes on where a line was full.
func (sh *shard) resume(now time.Time, c *conn) {
	o := c.out
	rest := (*o.buf)[o.at:]
	n := sh.kernel.write(c.fd, rest)
	sh.writes++
	if n == lineBroken {
		sh.end(c, false)
		return
	}
	if n == 0 {
		return
	}
	o.at += n
	sh.server.behind.bytes.Add(int64(-n))
	taken := o.share(n)
	if n == len(rest) {
		sh.unblock(c)
	}
	sh.wrote(now, c, o, taken)
	sh.tell(now, c)
	sh.touch(c)
}

// block counts c among those whose sockets are full; unblock takes it off.
func (sh *shard) block(c *conn, o *outlet) {
	c.out = o
	sh.server.behind.lines.Add(1)
	sh.server.behind.bytes.Add(int64(len(*o.buf)))
}

func (sh *shard) unblock(c *conn) {
	o := c.out
	c.out = nil
	sh.server.behind.lines.Add(-1)
	sh.server.behind.bytes.Add(int64(o.at - len(*o.buf)))
	sh.server.buffers.put(o.buf)
	o.buf = nil
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
