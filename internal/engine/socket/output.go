package socket

import (
	"sync"
	"time"
)

// flush writes the output of c that its socket accepts, and sets its next deadline.
func (sh *shard) flush(now time.Time, c *conn) {
	c.dirty = false
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepFlush)
	if c.in != nil && len(c.in.rest) > 0 {
		sh.parse(now, c, nil) // input that waited for a token check or the end of a pause
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
	if sh.loop != nil {
		sh.loop.queueRead(c)
	}
	if c.netConn != nil && !c.unread() && (c.in == nil || len(c.in.rest) == 0) {
		c.netConn.usedUp()
	}
	c.releaseExt()
	sh.setDeadline(c)
}

const (
	flushSlice    = 250 * time.Microsecond // of writing to one connection while others wait
	postponedTime = time.Millisecond       // of writing to postponed connections in one iteration
)

// postpone lists c for another flush, after the other connections.
func (sh *shard) postpone(c *conn) {
	if !c.dirty {
		c.dirty = true
		sh.postponed = append(sh.postponed, c)
	}
}

// flushPostponed flushes the postponed connections, the oldest first, for a limited time.
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
		sh.wakeUp()
	}
}

// setDeadline puts the next deadline of c into the wheel.
func (sh *shard) setDeadline(c *conn) {
	deadline := c.closeDeadline()
	switch c.phase {
	case phaseEnded:
		return
	case phaseOpen:
		if d := c.sess.Deadline(); !d.IsZero() && (deadline.IsZero() || d.Before(deadline)) {
			deadline = d
		}
	}
	due := sh.server.deadline(deadline)
	if c.paused() && (due == 0 || c.pausedUntil < due) {
		due = c.pausedUntil
	}
	sh.wheel.set(c, due)
}

// write makes one write: the response to the handshake, output of the session, and control frames.
// It reports whether more may follow.
func (sh *shard) write(now time.Time, c *conn) bool {
	var o writeBuffer
	b := sh.scratch[:0]
	if c.phase == phaseOpen {
		sh.server.reach(c, stepGather)
		b = c.sess.Output(now, b, gatherSize)
		o.sessionBytes, o.unreported = len(b), true
		sh.serviceSession(now, c)
		// A session that is over and has no more output gets its close frame.
		if code, reason, ok := c.sess.Close(); ok && o.sessionBytes == 0 {
			sh.beginClose(now, c, appendClose(nil, code, reason))
		}
	}
	if c.control != nil {
		b = sh.addControl(c, b, &o)
	}
	if len(b) == 0 {
		if c.phase == phaseClosing {
			sh.closeSent(c)
		}
		return false
	}
	sh.writes++
	if c.netConn != nil {
		buf := sh.server.buffers.get()
		*buf = append(*buf, b...)
		piped := o // so that o stays on the stack
		piped.unwritten = len(b)
		c.out = &piped
		c.netConn.out <- buf // does not block: the writer is idle
		sh.reportWritten(now, c, c.out, 0)
		sh.reportQueued(now, c)
		return false
	}
	if c.tls != nil {
		return sh.loop.writeTLS(now, c, b, o)
	}
	n := sh.kernel.write(c.fd, b)
	if n < len(b) {
		sh.saveUnwritten(now, c, b, n, o)
		return false
	}
	sh.reportWritten(now, c, &o, n)
	return c.phase != phaseEnded
}

// addControl adds the control frames before and after the output of the session.
func (sh *shard) addControl(c *conn, b []byte, o *writeBuffer) []byte {
	a := c.control
	o.prefixBytes = len(a.response)
	if o.prefixBytes > 0 {
		// b may belong to the stream; copy it.
		sh.joined = append(append(sh.joined[:0], a.response...), b...)
		b = sh.joined
	}
	if len(a.lastFrames) > 0 {
		if o.prefixBytes == 0 {
			sh.joined = append(sh.joined[:0], b...)
		}
		b = append(sh.joined, a.lastFrames...)
		sh.joined = b
	}
	if cap(sh.joined) > 4*gatherSize {
		sh.joined = nil // after a huge message
	}
	a.response, a.lastFrames = nil, nil
	if !c.closing() {
		c.ext().control = nil
	}
	return b
}

// reportWritten reports n written bytes to the session.
func (sh *shard) reportWritten(now time.Time, c *conn, o *writeBuffer, n int) {
	before := min(n, o.prefixBytes)
	o.prefixBytes -= before
	own, given := min(n-before, o.sessionBytes), o.sessionBytes
	o.sessionBytes -= own
	if given == 0 || c.phase != phaseOpen {
		return
	}
	sh.server.reach(c, stepSent)
	sh.figures.Bytes += uint64(own)
	if o.unreported {
		o.unreported = false
		c.sess.Sent(now, given, own)
	} else {
		c.sess.Wrote(now, own)
	}
	sh.serviceSession(now, c)
}

// reportQueued reports to the session how many bytes that precede its own wait for the socket.
func (sh *shard) reportQueued(now time.Time, c *conn) {
	if c.phase != phaseOpen {
		return
	}
	left := 0
	if o := c.out; o != nil {
		if left = o.unwritten - o.sessionBytes; c.netConn == nil {
			left = len(*o.buf) - o.sent - o.sessionBytes
		}
	}
	c.sess.HostUnsent(now, left)
}

// saveUnwritten keeps the output that the socket has not accepted. n is what it has accepted, or
// ioFailed.
func (sh *shard) saveUnwritten(now time.Time, c *conn, b []byte, n int, o writeBuffer) {
	if n == ioFailed {
		sh.end(c, false)
		return
	}
	taken := o.plainShare(n)
	o.buf = sh.server.buffers.get()
	*o.buf = append(*o.buf, b[n:]...)
	sh.block(c, &o) // first: after a panic in the session the rest of a frame must still be written
	sh.reportWritten(now, c, &o, taken)
	if c.phase == phaseEnded {
		return
	}
	sh.reportQueued(now, c)
	sh.markDirty(c) // for its deadline
}

// resumeWrite continues writing when the socket is writable again.
func (sh *shard) resumeWrite(now time.Time, c *conn) {
	o := c.out
	rest := (*o.buf)[o.sent:]
	n := sh.kernel.write(c.fd, rest)
	sh.writes++
	if n == ioFailed {
		sh.end(c, false)
		return
	}
	if n == 0 {
		return
	}
	o.sent += n
	sh.server.backlog.bytes.Add(int64(-n))
	taken := o.plainShare(n)
	if n == len(rest) {
		sh.unblock(c)
	}
	sh.reportWritten(now, c, o, taken)
	sh.reportQueued(now, c)
	sh.markDirty(c)
}

// block counts c as a connection with a full socket; unblock ends that.
func (sh *shard) block(c *conn, o *writeBuffer) {
	c.out = o
	sh.server.backlog.conns.Add(1)
	sh.server.backlog.bytes.Add(int64(len(*o.buf)))
}

func (sh *shard) unblock(c *conn) {
	o := c.out
	c.out = nil
	sh.server.backlog.conns.Add(-1)
	sh.server.backlog.bytes.Add(int64(o.sent - len(*o.buf)))
	sh.server.buffers.put(o.buf)
	o.buf = nil
}

// buffers is a pool of output buffers.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// put returns a buffer to the pool, unless a huge message has grown it.
func (b *buffers) put(buf *[]byte) {
	if cap(*buf) <= 2*gatherSize {
		*buf = (*buf)[:0]
		b.pool.Put(buf)
	}
}
