package socket

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/connlog"
	"github.com/ruedahq/rueda/wire"
)

// failProtocol closes a connection whose peer violates RFC 6455. Further input is read and
// discarded: closing a socket with unread bytes would reset it before the peer has read the close
// frame.
func (sh *shard) failProtocol(now time.Time, c *conn, v *ProtocolError) {
	c.discardInput = true
	if c.phase == phaseOpen {
		sh.reason = connlog.ProtocolError
		sh.beginClose(now, c, c.closeFrame(v.Code, v.Text))
	}
}

// closeFrame returns a close frame with the code and reason of the session if it is over, and with
// the given ones otherwise.
func (c *conn) closeFrame(code uint16, reason string) []byte {
	if own, word, over := c.sess.Close(); over {
		code, reason = own, word
	}
	return appendClose(nil, code, reason)
}

// closeWithError closes a connection with an Error of the server, whatever its session does.
func (sh *shard) closeWithError(now time.Time, c *conn, fault *wire.Fault) {
	if c.phase == phaseOpen {
		sh.reason = string(fault.Reason)
		sh.beginClose(now, c, sh.errorAndCloseFrame(c, fault))
	}
}

// errorAndCloseFrame returns the frames of an Error, in the format of the connection, and of its
// close code.
func (sh *shard) errorAndCloseFrame(c *conn, fault *wire.Fault) []byte {
	var plain wire.Transcoder // without compression
	frames := plain.Append(nil, wire.AppendText(nil, wire.AppendError(nil, fault, nil, nil)), c.format)
	return appendClose(frames, uint16(4000+fault.Reason.Socket().Code), string(fault.Reason))
}

// closeAll closes all present and future connections with fault.
func (sh *shard) closeAll(now time.Time, fault *wire.Fault) {
	sh.shutdown = fault
	if sh.loop != nil {
		sh.loop.closeListener()
	}
	for _, c := range sh.conns.byID {
		if c != nil {
			sh.closeOne(now, c, fault)
		}
	}
}

func (sh *shard) closeOne(now time.Time, c *conn, fault *wire.Fault) {
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepCloseAll)
	switch {
	case c.closing(): // its session is over already
	case c.phase == phaseHead:
		sh.end(c, false)
	default:
		sh.closeWithError(now, c, fault)
		sh.markDirty(c)
	}
}

// beginClose ends the session and starts the closing handshake. lastFrames ends with a close frame.
// It is written after pending output and the answers that wait in the session.
func (sh *shard) beginClose(now time.Time, c *conn, lastFrames []byte) {
	if c.phase == phaseOpen {
		if answers := c.sess.TakeAnswers(); len(answers) > 0 {
			lastFrames = append(answers, lastFrames...)
		}
	}
	sh.endSession(c)
	c.phase = phaseClosing
	a := c.ensureControl()
	a.lastFrames = lastFrames
	if a.closeDeadline.IsZero() {
		a.closeDeadline = now.Add(sh.server.cfg.CloseTimeout)
	}
	sh.markDirty(c)
}

// closeSent is called when the kernel has accepted the close frame. If the peer has answered, or
// was evicted, it ends the connection: the server closes first (RFC 6455, section 7.1.1).
func (sh *shard) closeSent(c *conn) {
	switch {
	case c.peerClosed, c.handshake != nil && c.handshake.evicted:
		sh.end(c, false)
	case c.discardInput:
		c.closeWrite() // discarded input may hide the peer's close frame
	}
}

// end releases everything that the connection holds. With reset, its socket is reset instead of
// closed in order.
func (sh *shard) end(c *conn, reset bool) {
	if c.phase == phaseEnded {
		return
	}
	sh.endSession(c)
	if c.phase == phaseHead {
		sh.loop.releaseHead(c.handshake)
	}
	c.phase = phaseEnded
	sh.wheel.remove(c)
	sh.conns.remove(c, sh.loop != nil)
	sh.load.Add(-1)
	blocked := c.out != nil && c.netConn == nil
	// Close the socket last: a client that sees its end finds its limits released.
	if c.hasSlot {
		sh.server.slots.release(c.handshake)
	}
	c.release(reset)
	if blocked {
		sh.unblock(c)
	}
	c.out = nil
	if c.cancelVerify != nil {
		c.cancelVerify.Store(true)
	}
	if c.optional != &sh.noOptional {
		*c.optional = optional{netConn: c.netConn} // its goroutines may still use it
	}
}

// endSession ends the session of c if it has one.
func (sh *shard) endSession(c *conn) {
	reason := cmp.Or(sh.reason, connlog.Gone)
	sh.reason = ""
	if c.phase != phaseOpen {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			sh.logPanic(c, v)
		}
	}()
	defer c.sess.PeerGone()
	sh.keepInput(time.Now(), c)
	if _, word, over := c.sess.Close(); over {
		reason = word
	}
	sh.figures.Close(reason)
	info := session.InfoOf(&c.sess, time.Now())
	sh.server.connLog.Add(connlog.Event{
		Kind: connlog.Closed, Address: info.Address, User: info.User, Reason: reason,
		Duration: info.Duration, Bytes: info.Accepted,
	})
	sh.server.reach(c, stepClose)
}

// recoverPanic ends c after a panic in its work. It must be deferred.
func (sh *shard) recoverPanic(now time.Time, c *conn) {
	v := recover()
	if v == nil {
		return
	}
	sh.logPanic(c, v)
	defer func() {
		if v := recover(); v != nil { // closing it in order failed too
			sh.logPanic(c, v)
			sh.end(c, true)
		}
	}()
	switch {
	case c.phase == phaseOpen:
	case c.phase == phaseHead && c.fd != noFD && sh.loop.canAnswer(c):
		sh.loop.refuse(now, c, internalError())
		return
	default:
		sh.end(c, true) // no session to close
		return
	}
	c.discardInput, c.ext().in = true, nil // the parser's state is unknown
	if c.netConn != nil {
		c.netConn.usedUp()
	}
	sh.closeWithError(now, c, &wire.Fault{Reason: wire.Internal})
}

// canAnswer reports whether a refusal can be written to c, which is on the event loop and in its
// handshake.
func (l *eventLoop) canAnswer(c *conn) bool {
	return c.control == nil && !c.handshake.tlsHandshaking && (c.tls != nil || l.tlsConfig == nil)
}

func (sh *shard) logPanic(c *conn, v any) {
	sh.server.panics.Add(1)
	sh.log.Error("session panicked", "address", c.address(), "panic", panicText(v), "stack", string(debug.Stack()))
}

// panicText describes a panic without its value, which may contain client data: it returns the
// type, or the text of a runtime error.
func panicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}
