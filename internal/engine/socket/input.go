package socket

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/connlog"
	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/wire"
)

// handle processes one input from the inbox.
func (sh *shard) handle(now time.Time, in *input) {
	switch c := in.conn; {
	case in.kind == inputSocket:
		sh.loop.addSocket(now, int32(in.n), in.from)
	case in.kind == inputCloseAll:
		sh.closeAll(now, in.fault)
	case in.kind == inputTask:
		in.task(now)
	case c.phase != phaseEnded:
		defer sh.recoverPanic(now, c)
		sh.markDirty(c)
		sh.handleConn(now, c, in)
	}
}

func (sh *shard) handleConn(now time.Time, c *conn, in *input) {
	switch in.kind {
	case inputStart:
		sh.conns.add(c)
		sh.startSession(now, c)
		if c.netConn == nil {
			sh.loop.watchUpgraded(now, c, in.data)
		}
	case inputData:
		c.netConn.waiting = true
		sh.parse(now, c, in.data)
	case inputMessage:
		sh.handleEvent(now, c, Event{Kind: EventText, Payload: in.data})
	case inputEOF:
		if in.failed {
			sh.end(c, false)
			return
		}
		sh.peerClosed(c)
	case inputWrote:
		c.out.unwritten -= in.n
		sh.reportWritten(now, c, c.out, in.n)
		switch {
		case in.failed:
			sh.end(c, false)
		case in.last:
			c.out = nil
		}
		sh.reportQueued(now, c)
	case inputTLSDone:
		sh.loop.tlsDone(c, in.failed)
	case inputTLSEvicted:
		if c.handshake != nil && c.handshake.tlsWaiting != nil { // its request has not arrived meanwhile
			sh.end(c, true)
		}
	case inputVerified:
		sh.verified(now, c, in.result)
	case inputEvent:
		if c.phase == phaseOpen {
			sh.server.reach(c, stepEvent)
			if in.event.Kind == session.Overload {
				if c.sess.Authenticated() { // meanwhile
					return
				}
				c.handshake.evicted = true
			}
			c.sess.Handle(now, in.event)
			sh.serviceSession(now, c)
		}
	}
}

// startSession starts the session of a connection after its handshake.
func (sh *shard) startSession(now time.Time, c *conn) {
	c.format = c.handshake.upgrade.format
	if sh.shutdown != nil {
		sh.beginClose(now, c, sh.errorAndCloseFrame(c, sh.shutdown))
		return
	}
	c.phase = phaseOpen
	sh.figures.Opened++
	sh.server.connLog.Add(connlog.Event{Kind: connlog.Connected, Address: c.handshake.address})
	identity := c.handshake.identity
	peer := session.Peer{Identity: identity, Mark: c.handshake.mark, Address: c.handshake.address, Format: c.format, Positions: c.netConn.isLocal()}
	c.sess.Start(sh.server.cfg.Env, peer, sh.stream, c, now)
	sh.reportQueued(now, c) // TLS records may already wait for the socket
	c.handshake.upgrade = upgrade{}
	sh.serviceSession(now, c)
}

// peerClosed handles the end of the peer's input.
func (sh *shard) peerClosed(c *conn) {
	c.peerClosed, c.readPending = true, false
	if c.phase == phaseOpen || c.phase == phaseHead {
		sh.end(c, false)
	}
}

// parse parses the saved input of c, or else b, while its session accepts messages and its input
// budget lasts. Unused bytes of a netConn stay in its buffer, because its reader waits. Those of
// the event loop are copied from the shard's buffer.
func (sh *shard) parse(now time.Time, c *conn, b []byte) {
	p, owned := &sh.parser, c.netConn != nil
	if in := c.in; in != nil && len(in.rest) > 0 {
		b, in.rest, owned = in.rest, nil, true
	}
	if c.in != nil && c.in.inMessage {
		p = &c.in.parser
	} else {
		*p = sh.newParser(c)
	}
	early := !c.authenticated()
	for len(b) > 0 && c.phase != phaseEnded && !c.verifying() && !c.paused() {
		if c.discardInput {
			sh.chargeInput(now, c, len(b), &Event{})
			b = nil
			break
		}
		if c.phase == phaseClosing || c.closing() {
			p.Discard()
		}
		ev, n, err := p.Next(b)
		b = b[n:]
		sh.chargeInput(now, c, n, &ev)
		var violation *ProtocolError
		if errors.As(err, &violation) {
			sh.failProtocol(now, c, violation)
			continue
		}
		sh.handleEvent(now, c, ev)
		if early && c.authenticated() {
			p.release()
			*p, early = sh.newParser(c), false // with the limits of now
		}
	}
	if c.phase == phaseEnded {
		return
	}
	if !owned {
		b = slices.Clone(b)
	}
	p.release()
	c.saveInput(p, b)
}

// maxEarlyMessage bounds a message before authentication. Tokens are much shorter, and thousands of
// unauthenticated connections may each hold an incomplete message.
const maxEarlyMessage = 16 << 10

// maxEarlyDeflated bounds a compressed message before authentication. Inflating 4 KiB may take half
// a millisecond.
const maxEarlyDeflated = 4 << 10

// authenticated reports whether c has a session that has authenticated.
func (c *conn) authenticated() bool { return c.phase == phaseOpen && c.sess.Authenticated() }

// newParser returns a parser for the next message of c.
func (sh *shard) newParser(c *conn) Parser {
	most := int(sh.server.maxMessage.Load())
	deflated := most
	if !c.authenticated() {
		most, deflated = min(most, maxEarlyMessage), min(most, maxEarlyDeflated)
	}
	p := NewParser(most)
	if c.format&wire.Deflate != 0 {
		p.AllowDeflate(&sh.inflater, deflated)
	}
	return p
}

// saveInput keeps unused input: the beginning of a message in p, and bytes that were not parsed.
func (c *conn) saveInput(p *Parser, rest []byte) {
	inMessage := !c.discardInput && !p.idle()
	if len(rest) == 0 && c.netConn != nil && !c.unread() {
		c.netConn.usedUp()
	}
	if !inMessage && len(rest) == 0 {
		if c.in != nil {
			c.ext().in = nil
		}
		return
	}
	if len(rest) == 0 {
		rest = nil // do not retain the caller's memory
	}
	if c.in == nil {
		c.ext().in = new(readBuffer)
	}
	if inMessage && p != &c.in.parser {
		c.in.parser = *p
	}
	c.in.inMessage, c.in.rest = inMessage, rest
}

// idle reports whether the parser is between messages and can be replaced by a new one.
func (p *Parser) idle() bool {
	return p.message == 0 && !p.payload && p.headLen == 0 && len(p.carry) == 0
}

// handleEvent passes an event of the parser to the session, or answers it here.
func (sh *shard) handleEvent(now time.Time, c *conn, ev Event) {
	sh.server.reach(c, stepMessage)
	defer sh.server.reach(c, stepHandled)
	switch ev.Kind {
	case EventClose:
		c.peerClosed = true
		if c.phase == phaseOpen {
			sh.beginClose(now, c, c.closeFrame(ev.Code, ""))
		}
		return
	case EventPing:
		// Each ping gets a pong, in order with the answers to messages. While a pong waits for a
		// full socket, nothing more is read. This bounds a flood of pings.
		if c.phase == phaseOpen && !c.closing() {
			c.sess.AnswerFrame(appendPong(sh.pong[:0], ev.Payload))
			sh.serviceSession(now, c)
		}
		return
	}
	if c.phase != phaseOpen {
		return
	}
	switch ev.Kind {
	case EventText:
		c.sess.Handle(now, session.Event{Kind: session.Text, Message: ev.Payload})
	case EventBinary:
		c.sess.Handle(now, session.Event{Kind: session.Binary, Message: ev.Payload})
	case EventTooBig:
		c.sess.Handle(now, session.Event{Kind: session.TooBig})
	default:
		return
	}
	sh.serviceSession(now, c)
}

// serviceSession starts the token check or the closing deadline that the session needs after an
// input. Once it is authenticated, the state of the handshake is released.
func (sh *shard) serviceSession(now time.Time, c *conn) {
	if token, _, ok := c.sess.TakeToken(); ok {
		sh.verifyToken(c, token)
	}
	_, _, over := c.sess.Close()
	switch {
	case over && !c.closing():
		c.ensureControl().closeDeadline = now.Add(sh.server.cfg.CloseTimeout)
	case !over && c.handshake != nil && c.sess.Authenticated():
		sh.server.slots.markAuthenticated(c.handshake)
		sh.server.connLog.Add(connlog.Event{Kind: connlog.Authenticated, Address: c.handshake.address, User: session.InfoOf(&c.sess, now).User})
		c.ext().handshake = nil
		sh.inheritInput(now, c)
	}
}

// verifyToken submits a token of c to the verifier pool.
func (sh *shard) verifyToken(c *conn, token string) {
	var client netip.Addr
	if c.handshake != nil {
		client = c.handshake.address
	} else {
		client = c.sess.Address()
	}
	c.ext().cancelVerify = sh.server.verifiers.Submit(token, client, func(r *verifier.Result) {
		sh.post(input{kind: inputVerified, conn: c, result: r})
	})
}

func (sh *shard) verified(now time.Time, c *conn, r *verifier.Result) {
	c.ext().cancelVerify = nil
	sh.server.reach(c, stepVerified)
	switch c.phase {
	case phaseHead:
		sh.loop.admitVerified(now, c, r, *c.handshake.head)
	case phaseOpen:
		c.sess.Handle(now, session.Event{Kind: session.Verified, Identity: r.Identity, Fault: r.Fault})
		sh.serviceSession(now, c)
	}
}

// runTimers acts on the deadline of c, if it is due.
func (sh *shard) runTimers(now time.Time, c *conn) {
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepTimer)
	sh.endPause(now, c)
	switch deadline := c.closeDeadline(); {
	case c.phase == phaseHead:
		sh.end(c, false)
	case !deadline.IsZero() && !now.Before(deadline):
		sh.end(c, true)
	case c.phase == phaseOpen:
		if d := c.sess.Deadline(); d.IsZero() || now.Before(d) {
			return // the deadline was moved
		}
		before := session.InfoOf(&c.sess, now)
		c.sess.Handle(now, session.Event{Kind: session.Timer})
		if !before.Slow && session.InfoOf(&c.sess, now).Slow {
			sh.figures.Slow++
			sh.server.connLog.Add(connlog.Event{Kind: connlog.Slow, Address: before.Address, User: before.User})
		}
		if c.sess.Reset() {
			sh.end(c, true)
			return
		}
		sh.serviceSession(now, c)
	}
}
