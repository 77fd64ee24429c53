package socket

import (
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/session"
)

// handle gives one input to its connection.
func (sh *shard) handle(now time.Time, in *input) {
	c := in.conn
	if c.phase == phaseEnded {
		return
	}
	defer sh.caught(now, c)
	sh.touch(c)
	switch in.kind {
	case inputStart:
		sh.start(now, c)
	case inputData:
		c.in, c.reading = in.data, true
		sh.parse(now, c)
	case inputEOF:
		if c.eof = true; c.phase == phaseOpen {
			sh.end(c, false)
		}
	case inputWrote:
		sh.wrote(now, c, in)
	case inputVerified:
		sh.verified(now, c, in.verdict)
	case inputNotice:
		if c.phase == phaseOpen {
			c.sess.Notify(now, in.notice)
			sh.settle(now, c)
		}
	}
}

func (sh *shard) start(now time.Time, c *conn) {
	sh.conns[c] = struct{}{}
	if sh.leave != nil {
		sh.dismiss(now, c, sh.leave)
		return
	}
	c.live = true
	peer := session.Peer{Host: c, Identity: c.peer.Identity, Mark: c.peer.Mark}
	c.sess.Start(sh.server.cfg.Env, peer, sh.stream, c, now)
	sh.settle(now, c)
}

// parse takes the reader's bytes apart as far as the session takes messages.
func (sh *shard) parse(now time.Time, c *conn) {
	for len(c.in) > 0 && c.phase != phaseEnded {
		if c.deaf {
			c.in = nil
			break
		}
		if c.phase == phaseOpen && c.sess.Busy() {
			return // the rest stays where it is until the token check is done
		}
		ev, n, err := c.parser.Next(c.in)
		c.in = c.in[n:]
		var violation *ProtocolError
		if errors.As(err, &violation) {
			sh.violated(now, c, violation)
			continue
		}
		sh.event(now, c, ev)
	}
	if c.reading {
		c.in, c.reading = nil, false
		c.taken <- struct{}{} // has room: one buffer is out at a time
	}
}

// event gives one event of the parser to the session, or answers it here.
func (sh *shard) event(now time.Time, c *conn, ev Event) {
	switch ev.Kind {
	case EventClose:
		c.eof = true
		if c.phase == phaseOpen {
			sh.part(now, c, appendClose(nil, ev.Code, ""))
		}
		return
	case EventPing:
		// Only the newest ping needs its pong (RFC 6455, section 5.5.3), so a flood
		// of them leaves one frame waiting.
		if c.phase == phaseOpen {
			c.pong = appendPong(c.pong[:0], ev.Payload)
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
// checked, or the end.
func (sh *shard) settle(now time.Time, c *conn) {
	if token, _, ok := c.sess.TakeToken(); ok {
		sh.server.checks.submit(token, func(v *verdict) {
			sh.post(input{kind: inputVerified, conn: c, verdict: v})
		})
	}
	if _, _, ok := c.sess.Close(); ok && c.closeBy.IsZero() {
		c.closeBy = now.Add(sh.server.cfg.CloseTimeout)
		c.parser.Discard()
	}
}

func (sh *shard) verified(now time.Time, c *conn, v *verdict) {
	if c.phase != phaseOpen {
		return
	}
	c.sess.Verified(now, v.identity, v.fault)
	sh.settle(now, c)
	if v.fault == nil && c.closeBy.IsZero() {
		sh.server.seats.authenticated(c)
	}
}

// expire is called when a deadline of c has come.
func (sh *shard) expire(now time.Time, c *conn) {
	defer sh.caught(now, c)
	if !c.closeBy.IsZero() && !now.Before(c.closeBy) {
		sh.end(c, true)
		return
	}
	if c.phase == phaseOpen {
		c.sess.Tick(now)
		sh.settle(now, c)
	}
}
