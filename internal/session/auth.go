package session

import (
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// check is a token on its way through Env.Verify, or the start of a subscribe that is being looked for. The messages
// that come meanwhile wait for its answer.
type check struct {
	start *start // nil: a token

	id    []byte // of the request
	token string
	name  string // for takeover
	slow  string // policy; "" not given
	out   bool   // the host has it
	mark  Mark
	waits []held // messages that came meanwhile
	bytes int    // of waits
}

// authToken starts the check of a token. The answer comes by Verified.
func (s *Session) authToken(now time.Time, m *wire.Message) {
	a, f := m.AuthToken()
	if f != nil {
		s.complain(s.at(now), f, m.ID)
		return
	}
	if !s.known {
		s.tokenDue = 0
	}
	c := &check{id: append([]byte(nil), m.ID...), token: a.Token, name: a.Session, slow: a.Slow}
	s.put().check = c
	if s.env.Known == nil {
		return
	}
	c.mark = s.env.Registry.Mark()
	if id, fault, ok := s.env.Known(c.token); ok {
		c.out, c.token = true, ""
		s.Verified(now, id, fault)
	}
}

// TakeToken gives, once, the token that waits to be checked. The host calls
// Env.Verify with it, outside of the session's goroutine, and answers with Verified.
// takeover is the session name it came with.
func (s *Session) TakeToken() (token, takeover string, ok bool) {
	c := s.checking()
	if c == nil || c.out {
		return "", "", false
	}
	c.out = true
	c.mark = s.env.Registry.Mark()
	token, c.token = c.token, ""
	return token, c.name, true
}

// Authenticated says whether a good token has come.
func (s *Session) Authenticated() bool { return s.known }

// start is a subscribe whose start is being looked for.
type start struct {
	search *stream.Search
	again  held // the message, which is read again then
}

// found goes on with a subscribe whose start has been found, and with what has waited for its answer.
func (s *Session) found(now time.Time) {
	c := s.checking()
	if c == nil || c.start == nil || !c.start.search.Over() {
		return
	}
	s.aside.check, s.aside.found = nil, c.start.search
	c.start.again.take(now, c.start.again.msg)
	s.put().found = nil
	s.goOn(now, c)
}

// goOn takes the messages that have waited.
func (s *Session) goOn(now time.Time, c *check) {
	for i, h := range c.waits {
		if next := s.checking(); next != nil { // they wait for another
			next.waits, next.bytes = c.waits[i:], next.bytes+c.bytes
			return
		}
		h.take(now, h.msg)
	}
}

// Busy says that a token check is out, or that a start is being looked for. What comes meanwhile waits for its answer, so
// the host had better leave it in the socket.
func (s *Session) Busy() bool { return s.checking() != nil }

// held is a message that waits, and who takes it.
type held struct {
	msg  []byte
	take func(time.Time, []byte)
}

// hold keeps a message until the token check is done, or the start found.
func (s *Session) hold(now time.Time, msg []byte, take func(time.Time, []byte)) {
	c := s.checking()
	if c.bytes += len(msg); c.bytes > s.env.maxWaiting() {
		s.fail(wire.NewFault(wire.TooManyFailures, "Too many messages before the answer to auth_token, or to a start"), nil, nil)
		return
	}
	c.waits = append(c.waits, held{append([]byte(nil), msg...), take})
}

// Verified is the answer to TakeToken.
func (s *Session) Verified(now time.Time, id *Identity, fault *wire.Fault) {
	c := s.checking()
	if c == nil || !c.out || c.start != nil || s.over() != nil {
		return
	}
	s.aside.check = nil
	switch {
	case fault != nil:
		s.fail(fault, c.id, nil)
	case s.known && s.place.who.User != id.User:
		s.reply(wire.NewFault(wire.SubjectMismatch, ""), c.id, nil)
	default:
		s.welcome(now, id, c)
	}
	s.goOn(now, c)
}

// welcome makes the bearer of a good token at home: a place in the registry,
// Success, and the clocks.
func (s *Session) welcome(now time.Time, id *Identity, c *check) {
	limits := s.env.limits(id.Limits)
	notices, fault := s.env.Registry.admit(&s.place, id, c.name, limits.Connections, c.mark)
	if fault != nil {
		s.fail(fault, c.id, nil)
		return
	}
	again := s.known
	s.known = true
	if !again {
		s.rate = max(s.rate, s.env.Registry.owed(id.User, s.at(now)))
	}
	if c.slow != "" {
		s.strict = c.slow == wire.SlowStrict
		s.sub.KeepAll(s.strict)
	}
	s.expires, s.warned = id.Expires.UnixNano(), false
	s.sendSuccess(now, c.id, limits, maxDepth(id, now), again)
	s.grant(now, &id.Grants)
	if !again {
		s.pingDue = s.at(now).add(s.env.pingInterval())
	}
	for _, n := range notices {
		s.Notify(now, n)
	}
	if s.over() == nil {
		s.watchToken(now)
	}
}

func (s *Session) sendSuccess(now time.Time, id []byte, limits broker.Limits, depth int, again bool) {
	env := s.env
	s.send(wire.AppendAuthSuccess(s.sub.Scratch(), &wire.AuthSuccess{
		ID: id, Session: s.place.called(), Version: env.Version, Time: now.UnixNano(),
		ExpiresIn:         s.expiresIn(now),
		Interval:          seconds(env.pingInterval()),
		Timeout:           seconds(env.pongTimeout()),
		Subscriptions:     limits.Subscriptions,
		MessagesPerSecond: limits.MessagesPerSecond,
		MessageBytes:      env.messageBytes(),
		Connections:       limits.Connections,
		MaxDepth:          depth,
		Reauth:            again,
	}))
}

func (s *Session) expiresIn(now time.Time) int {
	return max(0, seconds(time.Duration(s.expires-now.UnixNano())))
}

// watchToken warns before the token's end and ends the session after it. The
// token's end is a time of the wall clock, which may be set: so it is looked at
// anew at every Tick, at least at every ping.
func (s *Session) watchToken(now time.Time) {
	if !s.known {
		return
	}
	left := time.Duration(s.expires - now.UnixNano())
	if left <= s.env.expiryWarning() && !s.warned {
		s.warned = true
		s.send(wire.AppendTokenExpiring(s.sub.Scratch(), s.expiresIn(now)))
	}
	due := left - s.env.expiryWarning()
	if s.warned {
		due = left + s.env.expiryGrace()
	}
	switch {
	case s.warned && s.env.KeepExpired:
		s.tokenDue = 0
	case s.warned && due <= 0:
		s.fail(wire.NewFault(wire.TokenExpired, ""), nil, nil)
	default:
		s.tokenDue = s.at(now).add(due)
	}
}
