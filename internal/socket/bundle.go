package socket

import (
	"syscall"
	"time"
)

// A bundle is the writes of a sweep on their way to the kernel by io_uring, many with one
// call. What goes to one client alone lies in room until they are made.
type bundle struct {
	uring *uring
	room  []byte
}

// send is a write of a bundle.
type send struct {
	conn  *conn
	data  []byte        // kept from the collector until the kernel is done with it
	taken int           // bytes, or lineBroken, or lineUntried
	fault syscall.Errno // that a test gives instead of the kernel's result; 0: none
}

// bundleRoom is for some sixty clients with much to send, or all of a bundle's with a little.
const bundleRoom = 1 << 20

// openBundle has the sweeps of a shard written by io_uring, where the system has it.
func (sh *shard) openBundle() {
	u, err := newUring(sh.kernel)
	if err != nil {
		sh.log.Warn("no io_uring here, each write is a call of its own", "error", err)
		return
	}
	sh.bundle = &bundle{uring: u, room: make([]byte, 0, bundleRoom)}
}

func (sh *shard) closeBundle() {
	if sh.bundle != nil {
		sh.bundle.uring.close()
		sh.bundle = nil
	}
}

// collect puts what the stream has for c into the bundle.
func (sh *shard) collect(now time.Time, c *conn) {
	u := sh.bundle
	if u.uring.full() || cap(u.room)-len(u.room) < 2*gatherSize {
		if sh.dispatch(now); sh.bundle == nil {
			sh.feed(now, c)
			return
		}
	}
	defer sh.caught(now, c)
	at := len(u.room)
	sh.server.at(c, stepGather)
	b := c.sess.Gather(now, u.room[at:at], gatherSize)
	if len(b) == 0 {
		sh.attend(now, c)
		return
	}
	if at < cap(u.room) && &b[0] == &u.room[:at+1][at] {
		u.room = u.room[:at+len(b)]
	}
	u.uring.add(c, b)
}

// dispatch has the kernel take the bundle. A ring that fails is given up.
func (sh *shard) dispatch(now time.Time) {
	if sh.bundle == nil {
		return
	}
	err := sh.bundle.uring.flush(func(s *send) { sh.dispatched(now, s) })
	sh.bundle.room = sh.bundle.room[:0]
	if err != nil {
		sh.log.Error("io_uring failed, each write is a call of its own from now on", "error", err)
		sh.closeBundle()
	}
}

func (sh *shard) dispatched(now time.Time, s *send) {
	c, given := s.conn, len(s.data)
	defer sh.caught(now, c)
	if c.phase != phaseOpen {
		return
	}
	sh.writes++
	if s.taken == lineUntried {
		s.taken = sh.kernel.write(c.fd, s.data)
	}
	if s.taken < given {
		sh.short(now, c, s.data, s.taken, outlet{own: given, fresh: true})
		return
	}
	sh.server.at(c, stepSent)
	c.sess.Sent(now, given, given)
	sh.attend(now, c)
}

// attend has a connection flushed that has more to say, or came to its end.
func (sh *shard) attend(now time.Time, c *conn) {
	if c.sess.Pending(now) || sh.over(c) {
		sh.touch(c)
	}
}
