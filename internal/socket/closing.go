package socket

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// violated ends a connection whose peer does not speak RFC 6455. Its bytes have
// no meaning any more: they are read and thrown away, since closing a socket
// with bytes unread would reset it and take the close frame from the peer.
func (sh *shard) violated(now time.Time, c *conn, v *ProtocolError) {
	c.deaf = true
	if c.phase == phaseOpen {
		sh.part(now, c, c.closeFrame(v.Code, v.Text))
	}
}

// closeFrame is the close frame with code and reason, or with those of the session where that
// was over before.
func (c *conn) closeFrame(code uint16, reason string) []byte {
	if own, word, over := c.sess.Close(); over {
		code, reason = own, word
	}
	return appendClose(nil, code, reason)
}

// dismiss ends a connection on the server's own account, without its session.
func (sh *shard) dismiss(now time.Time, c *conn, fault *wire.Fault) {
	if c.phase == phaseOpen {
		sh.part(now, c, sh.lastWords(c, fault))
	}
}

// lastWords are an Error, in the format of the connection, and its close frame.
func (sh *shard) lastWords(c *conn, fault *wire.Fault) []byte {
	var plain wire.Transcoder // which compresses nothing
	frames := plain.Append(nil, wire.AppendText(nil, wire.AppendError(nil, fault, nil, nil)), c.format)
	return appendClose(frames, uint16(4000+fault.Reason.Socket().Code), string(fault.Reason))
}

// dismissAll sends away the connections that are there, and those that come.
func (sh *shard) dismissAll(now time.Time, fault *wire.Fault) {
	sh.leave = fault
	sh.closeListener()
	for _, c := range sh.table {
		if c != nil {
			sh.dismissOne(now, c, fault)
		}
	}
}

func (sh *shard) dismissOne(now time.Time, c *conn, fault *wire.Fault) {
	defer sh.caught(now, c)
	sh.server.at(c, stepDismiss)
	switch {
	case c.closing(): // its session is saying goodbye already
	case c.phase == phaseHead:
		sh.end(c, false)
	default:
		sh.dismiss(now, c, fault)
		sh.touch(c)
	}
}

// part ends the session and leaves the connection to its closing handshake:
// farewell, a close frame at its end, goes out after what is on its way and the answers that
// wait in the session.
func (sh *shard) part(now time.Time, c *conn, farewell []byte) {
	if c.phase == phaseOpen {
		if answers := c.sess.TakeAnswers(); len(answers) > 0 {
			farewell = append(answers, farewell...)
		}
	}
	sh.gone(c)
	c.phase = phaseClosing
	a := c.own()
	a.farewell = farewell
	if a.closeBy.IsZero() {
		a.closeBy = now.Add(sh.server.cfg.CloseTimeout)
	}
	sh.touch(c)
}

// parted is called when the kernel has the close frame. It ends the connection
// once the peer has answered: the server closes first (RFC 6455, section 7.1.1).
func (sh *shard) parted(c *conn) {
	switch {
	case c.eof:
		sh.end(c, false)
	case c.deaf:
		c.closeWrite() // a close frame of the peer could not be seen
	}
}

// end gives back everything that the connection holds. With reset the socket is
// not closed in order.
func (sh *shard) end(c *conn, reset bool) {
	if c.phase == phaseEnded {
		return
	}
	sh.gone(c)
	if c.phase == phaseHead {
		sh.headDone(c.open)
	}
	c.phase = phaseEnded
	sh.wheel.drop(c)
	sh.depart(c)
	sh.load.Add(-1)
	blocked := c.out != nil && c.pump == nil
	// The socket goes last: a client that sees its end finds its places free.
	if c.seated {
		sh.server.seats.leave(c.open)
	}
	c.release(reset)
	if blocked {
		sh.unblock(c)
	}
	c.out = nil
	if c.check != nil {
		c.check.Store(true)
	}
	if c.extras != &sh.nothing {
		*c.extras = extras{pump: c.pump} // which its goroutines may still tell of
	}
}

// gone tells the session, if it lives, that its connection is over. It does not live after that.
func (sh *shard) gone(c *conn) {
	if c.phase != phaseOpen {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			sh.logPanic(c, v)
		}
	}()
	defer c.sess.PeerGone()
	sh.server.at(c, stepClose)
}

// caught keeps a panic in one session from the others. It is to be deferred.
func (sh *shard) caught(now time.Time, c *conn) {
	v := recover()
	if v == nil {
		return
	}
	sh.logPanic(c, v)
	defer func() {
		if v := recover(); v != nil { // nor can it be sent away in order
			sh.logPanic(c, v)
			sh.end(c, true)
		}
	}()
	switch {
	case c.phase == phaseOpen:
	case c.phase == phaseHead && c.fd != noLine && sh.canAnswer(c):
		sh.refuse(now, c, &refusal{status: http.StatusInternalServerError, reason: wire.Internal, msg: "Internal error"})
		return
	default:
		sh.end(c, true) // the fault is our own
		return
	}
	c.deaf, c.extra().in = true, nil // where its input was left is not known
	if c.pump != nil {
		c.pump.usedUp()
	}
	sh.dismiss(now, c, &wire.Fault{Reason: wire.Internal})
}

// canAnswer says whether a line whose request is being read may be written to.
func (sh *shard) canAnswer(c *conn) bool {
	return c.aside == nil && !c.open.shaking && (c.tls != nil || sh.door.secure == nil)
}

func (sh *shard) logPanic(c *conn, v any) {
	sh.server.panics.Add(1)
	sh.log.Error("session panicked", "address", c.address(), "panic", panicText(v), "stack", string(debug.Stack()))
}

// panicText tells what a panic was about without its value, which may hold what
// a client sent: the type, and the text of a fault of the runtime.
func panicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}
