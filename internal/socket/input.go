package socket

import (
	"errors"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// handle gives one input to its connection.
func (sh *shard) handle(now time.Time, in *input) {
	switch c := in.conn; {
	case in.kind == inputLine:
		sh.arrive(now, int32(in.n), in.from)
	case in.kind == inputDismiss:
		sh.dismissAll(now, in.fault)
	case c.phase != phaseEnded:
		defer sh.caught(now, c)
		sh.touch(c)
		sh.handleOwn(now, c, in)
	}
}

func (sh *shard) handleOwn(now time.Time, c *conn, in *input) {
	switch in.kind {
	case inputStart:
		sh.enter(c)
		sh.begin(now, c)
		if c.pump == nil {
			sh.adopt(now, c, in.data)
		}
	case inputData:
		c.pump.waits = true
		sh.parse(now, c, in.data)
	case inputEOF:
		sh.ended(c)
	case inputWrote:
		c.out.piped -= in.n
		sh.wrote(now, c, c.out, in.n)
		switch {
		case in.failed:
			sh.end(c, false)
		case in.last:
			c.out = nil
		}
		sh.tell(now, c)
	case inputSecured:
		sh.shaken(c, in.failed)
	case inputVerified:
		sh.verified(now, c, in.verdict)
	case inputNotice:
		if c.phase == phaseOpen {
			sh.server.at(c, stepNotice)
			c.sess.Notify(now, in.notice)
			sh.settle(now, c)
		}
	}
}

// begin starts the session of a connection whose handshake is done.
func (sh *shard) begin(now time.Time, c *conn) {
	c.format = c.open.hand.format
	if sh.leave != nil {
		sh.part(now, c, sh.lastWords(c, sh.leave))
		return
	}
	c.phase = phaseOpen
	identity := c.open.identity
	c.sess.Start(sh.server.cfg.Env, session.Peer{Identity: identity, Mark: c.open.mark}, sh.stream, c, now)
	c.sess.SetFormat(c.format)
	if c.open.positions {
		c.sess.TellPositions()
	}
	sh.tell(now, c) // TLS may have filled the socket already
	c.open.hand = handshake{}
	sh.settle(now, c)
}

// ended is told that the peer sends nothing more.
func (sh *shard) ended(c *conn) {
	c.eof, c.unread = true, false
	if c.phase == phaseOpen || c.phase == phaseHead {
		sh.end(c, false)
	}
}

// parse takes apart what is left of the peer's bytes, or else b, as far as the session
// takes messages. A pump's bytes stay where they are meanwhile, since its reader
// waits; those of a line lie in the shard's buffer and are copied.
func (sh *shard) parse(now time.Time, c *conn, b []byte) {
	p, mine := &sh.parser, c.pump != nil
	if in := c.in; in != nil && len(in.rest) > 0 {
		b, in.rest, mine = in.rest, nil, true
	}
	if c.in != nil && c.in.split {
		p = &c.in.parser
	} else {
		*p = NewParser(sh.messageLimit(c))
		if c.format&wire.Deflate != 0 {
			p.AllowDeflate(&sh.inflater)
		}
	}
	for len(b) > 0 && c.phase != phaseEnded && !c.busy() {
		if c.deaf {
			b = nil
			break
		}
		if c.phase == phaseClosing || c.closing() {
			p.Discard()
		}
		ev, n, err := p.Next(b)
		b = b[n:]
		var violation *ProtocolError
		if errors.As(err, &violation) {
			sh.violated(now, c, violation)
			continue
		}
		sh.event(now, c, ev)
	}
	if c.phase == phaseEnded {
		return
	}
	if !mine {
		b = slices.Clone(b)
	}
	p.release()
	c.keep(p, b)
}

// maxEarlyMessage bounds a message before authentication: a token is much shorter, and thousands of
// strangers may each leave a message unfinished.
const maxEarlyMessage = 16 << 10

// messageLimit returns the most bytes that the next message of c may have.
func (sh *shard) messageLimit(c *conn) int {
	if c.phase == phaseOpen && c.sess.Authenticated() {
		return sh.server.cfg.MaxMessage
	}
	return min(sh.server.cfg.MaxMessage, maxEarlyMessage)
}

// keep keeps what was not used up: the beginning of a message in p, and bytes.
func (c *conn) keep(p *Parser, rest []byte) {
	split := !c.deaf && !p.resting()
	if len(rest) == 0 && c.pump != nil && !c.choked() {
		c.pump.usedUp()
	}
	if !split && len(rest) == 0 {
		if c.in != nil {
			c.extra().in = nil
		}
		return
	}
	if len(rest) == 0 {
		rest = nil // b's memory is not ours
	}
	if c.in == nil {
		c.extra().in = new(intake)
	}
	if split && p != &c.in.parser {
		c.in.parser = *p
	}
	c.in.split, c.in.rest = split, rest
}

// resting says whether the parser is between messages and a new one would do as well.
func (p *Parser) resting() bool {
	return p.message == 0 && !p.payload && p.headLen == 0 && len(p.carry) == 0
}

// event gives one event of the parser to the session, or answers it here.
func (sh *shard) event(now time.Time, c *conn, ev Event) {
	sh.server.at(c, stepMessage)
	defer sh.server.at(c, stepHandled)
	switch ev.Kind {
	case EventClose:
		c.eof = true
		if c.phase == phaseOpen {
			sh.part(now, c, c.closeFrame(ev.Code, ""))
		}
		return
	case EventPing:
		// Every ping has its pong, in order with the answers to messages. While one waits for a
		// full socket nothing more is read, so that a flood of pings is bounded by one read.
		if c.phase == phaseOpen && !c.closing() {
			c.sess.AnswerFrame(appendPong(sh.pong[:0], ev.Payload))
			sh.settle(now, c)
		}
		return
	}
	if c.phase != phaseOpen {
		return
	}
	switch ev.Kind {
	case EventText:
		c.sess.Text(now, ev.Payload)
	case EventBinary:
		c.sess.Binary(now, ev.Payload)
	case EventTooBig:
		c.sess.TooBig(now)
	default:
		return
	}
	sh.settle(now, c)
}

// settle looks at what the session wants after something was put in: a token
// checked, or the end. Once it is authenticated, what was kept for the time before goes.
func (sh *shard) settle(now time.Time, c *conn) {
	if token, _, ok := c.sess.TakeToken(); ok {
		sh.check(c, token)
	}
	_, _, over := c.sess.Close()
	switch {
	case over && !c.closing():
		c.own().closeBy = now.Add(sh.server.cfg.CloseTimeout)
	case !over && c.open != nil && c.sess.Authenticated():
		sh.server.seats.authenticated(c.open)
		c.extra().open = nil
	}
}

// check has a token of c's checked.
func (sh *shard) check(c *conn, token string) {
	c.extra().check = sh.server.checks.submit(token, func(v *verdict) {
		sh.post(input{kind: inputVerified, conn: c, verdict: v})
	})
}

func (sh *shard) verified(now time.Time, c *conn, v *verdict) {
	c.extra().check = nil
	sh.server.at(c, stepVerified)
	switch c.phase {
	case phaseHead:
		sh.admitBearer(now, c, v, *c.open.head)
	case phaseOpen:
		c.sess.Verified(now, v.identity, v.fault)
		sh.settle(now, c)
	}
}

// expire is called when a deadline of c may have come.
func (sh *shard) expire(now time.Time, c *conn) {
	defer sh.caught(now, c)
	sh.server.at(c, stepTimer)
	switch by := c.closeBy(); {
	case c.phase == phaseHead:
		sh.end(c, false)
	case !by.IsZero() && !now.Before(by):
		sh.end(c, true)
	case c.phase == phaseOpen:
		if d := c.sess.Deadline(); d.IsZero() || now.Before(d) {
			return // it moved
		}
		c.sess.Tick(now)
		if c.sess.Reset() {
			sh.end(c, true)
			return
		}
		sh.settle(now, c)
	}
}
