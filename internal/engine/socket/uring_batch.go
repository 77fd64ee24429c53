package socket

import (
	"syscall"
	"time"
)

// uringBatch collects the writes of a flush and submits them to io_uring with one system call.
// Output for one client alone is stored in buf until then.
type uringBatch struct {
	uring *uring
	buf   []byte
}

// send is one write of a batch.
type send struct {
	conn    *conn
	data    []byte        // must not change until the kernel has finished
	written int           // bytes, ioFailed or ioUntried
	fault   syscall.Errno // injected by a test in place of the result; 0: none
}

// batchBufferSize is the output of some sixty clients with full buffers.
const batchBufferSize = 1 << 20

// openBatch makes the shard flush by io_uring if the system supports it.
func (f *flusher) openBatch() {
	sh := f.shard
	u, err := newUring(sh.kernel)
	if err != nil {
		sh.log.Warn("io_uring is not available; each write is one system call", "error", err)
		return
	}
	f.batch = &uringBatch{uring: u, buf: make([]byte, 0, batchBufferSize)}
}

func (f *flusher) closeBatch() {
	if f.batch != nil {
		f.batch.uring.close()
		f.batch = nil
	}
}

// addToBatch adds the pending output of c to the batch.
func (f *flusher) addToBatch(now time.Time, c *conn) {
	sh := f.shard
	batch := f.batch
	if batch.uring.full() || cap(batch.buf)-len(batch.buf) < 2*gatherSize {
		if f.submit(now); f.batch == nil {
			f.deliver(now, c)
			return
		}
	}
	defer sh.recoverPanic(now, c)
	at := len(batch.buf)
	sh.server.reach(c, stepGather)
	b := c.sess.Output(now, batch.buf[at:at], gatherSize)
	if len(b) == 0 {
		sh.markIfPending(c)
		return
	}
	if at < cap(batch.buf) && &b[0] == &batch.buf[:at+1][at] {
		batch.buf = batch.buf[:at+len(b)]
	}
	batch.uring.add(c, b)
}

// submit writes the batch. If io_uring fails, it is not used again.
func (f *flusher) submit(now time.Time) {
	if f.batch == nil {
		return
	}
	err := f.batch.uring.flush(func(s *send) { f.sendDone(now, s) })
	f.batch.buf = f.batch.buf[:0]
	if err != nil {
		f.shard.log.Error("io_uring failed; each write is one system call", "error", err)
		f.closeBatch()
	}
}

// sendDone handles the result of one write of a batch.
func (f *flusher) sendDone(now time.Time, s *send) {
	sh := f.shard
	c, given := s.conn, len(s.data)
	defer sh.recoverPanic(now, c)
	if c.phase != phaseOpen {
		return
	}
	sh.writes++
	if s.written == ioUntried {
		s.written = sh.kernel.write(c.fd, s.data)
	}
	if s.written < given {
		sh.saveUnwritten(now, c, s.data, s.written, writeBuffer{sessionBytes: given, unreported: true})
		return
	}
	sh.server.reach(c, stepSent)
	c.sess.Sent(now, given, given)
	sh.figures.Bytes += uint64(given)
	sh.markIfPending(c)
}
