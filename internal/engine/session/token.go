package session

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// check is a token that is being checked, or a search that a subscribe or a move waits for. Other
// messages wait for its end.
type check struct {
	start *start // nil: a token

	id      []byte // of the request
	token   string
	name    string // of the session
	slow    string // policy; "": not given
	started bool   // the host has the token
	mark    Mark

	over *subscription.Search // waits for the epoch that begins during the check; nil: none does
}

// start is a subscribe, or a move to another delay, that waits for a search.
type start struct {
	search *subscription.Search
	again  Event // the message, to be handled again; none for a move
	stale  bool  // the search is of an epoch that is over
}

// TakeToken returns, once, the token that is to be checked. The host calls Env.Verify with it
// outside of the session's goroutine, and passes the result back with an event of kind Verified.
// takeover is the session name that it came with.
func (s *Session) TakeToken() (token, takeover string, ok bool) {
	c := s.pendingCheck()
	if c == nil || c.started {
		return "", "", false
	}
	c.started = true
	c.mark = s.env.Registry.Mark()
	token, c.token = c.token, ""
	return token, c.name, true
}

// hold keeps the message of e until the session is no longer busy.
func (s *Session) hold(e Event) {
	o := s.ext()
	if o.held += len(e.Message); o.held > s.env.maxWaiting() {
		s.fail(wire.NewFault(wire.TooManyFailures, "Too many messages before the answer to auth_token, or to a start"), nil, nil)
		return
	}
	e.Message = append([]byte(nil), e.Message...)
	o.waiting = append(o.waiting, e)
}

// handleHeld handles the messages that have waited, until the session is busy again.
func (s *Session) handleHeld(now time.Time) {
	for !s.Busy() && s.optional != nil && len(s.waiting) > 0 {
		e := s.waiting[0]
		s.waiting, s.held = s.waiting[1:], s.held-len(e.Message)
		s.Handle(now, e)
	}
}

// resumeFound continues the work that waited for a search: a move to another delay, or a subscribe
// and the messages after it.
func (s *Session) resumeFound(now time.Time) {
	c := s.pendingCheck()
	if c != nil && (c.start == nil || !c.start.search.Over()) {
		c = nil
	}
	if c != nil {
		s.check = nil
	}
	if o := s.optional; o != nil && o.moving != nil && o.moving.Over() {
		s.reviewRights(now)
	}
	if c == nil {
		return
	}
	if s.optional != nil && len(s.left) > 0 {
		joinEpoch(s, now, c.start.search)
	}
	switch again := c.start.again; {
	case again.Message == nil:
	case s.pendingCheck() != nil: // the epoch waits for delayed data
		s.waiting, s.held = slices.Insert(s.waiting, 0, again), s.held+len(again.Message)
	default:
		found := c.start.search
		if c.start.stale {
			found = nil
		}
		s.handleMessage(now, again, found)
	}
	s.handleHeld(now)
}

// verified handles the result of a token check.
func (s *Session) verified(now time.Time, id *Identity, fault *wire.Fault) {
	c := s.pendingCheck()
	if c == nil || !c.started || c.start != nil {
		return
	}
	s.check = nil
	switch {
	case fault != nil:
		s.fail(fault, c.id, nil)
	case s.authenticated && s.entry.identity.User != id.User:
		s.reply(wire.NewFault(wire.SubjectMismatch, ""), c.id, nil)
	default:
		s.welcome(now, id, c)
	}
	switch {
	case c.over == nil:
		s.handleHeld(now)
	case s.closeReason() != nil:
		c.over.Stop()
	default: // the session has left an epoch, and waits for the next one
		s.ext().check = &check{started: true, start: &start{search: c.over}}
		s.resumeFound(now)
	}
}

// welcome makes the session live: it enters the registry, sends Success and starts the timers.
func (s *Session) welcome(now time.Time, id *Identity, c *check) {
	env := s.env
	if !id.Allows(s.Address()) {
		s.fail(wire.NewFault(wire.AddressNotAllowed, ""), c.id, nil)
		return
	}
	limits := env.limits(id.Limits)
	missed, fault := env.Registry.admit(&s.entry, id, c.name, limits.Connections, c.mark)
	if fault != nil {
		s.fail(fault, c.id, nil)
		return
	}
	again := s.authenticated
	s.authenticated = true
	if !again {
		s.allowance.whole = max(s.allowance.whole, env.Registry.debt(id.User, env.at(now)).messages)
	}
	if c.slow != "" {
		s.strict = c.slow == wire.SlowStrict
		s.sub.KeepAll(s.strict)
	}
	s.expires, s.warned = id.Expires.UnixNano(), false
	s.send(wire.AppendAuthSuccess(s.sub.Scratch(), &wire.AuthSuccess{
		ID: c.id, Session: s.entry.sessionName(), Version: env.Version, Time: now.UnixNano(),
		ExpiresIn:         max(0, seconds(time.Duration(s.expires-now.UnixNano()))),
		Interval:          seconds(env.pingInterval()),
		Timeout:           seconds(env.pongTimeout()),
		Subscriptions:     limits.Subscriptions,
		MessagesPerSecond: limits.MessagesPerSecond,
		WorkPerSecond:     workPerSecond,
		Work:              workBurst,
		MessageBytes:      env.messageBytes(),
		MaxMessageBytes:   longestMessage(limits.Subscriptions, env.messageBytes()),
		Connections:       limits.Connections,
		MaxDepth:          maxDepth(id, now),
		Reauth:            again,
	}))
	s.setGrants(now, &id.Grants)
	if !again {
		s.pingDue = env.at(now).add(env.pingInterval())
	}
	for _, e := range missed {
		s.Handle(now, e)
	}
	if s.closeReason() == nil {
		s.watchToken(now)
	}
}

// watchToken closes a session whose first token is overdue. After authentication it warns before
// the end of the token, and closes the session after it. The end is a wall-clock time, and that
// clock may be adjusted, so the session checks it at every timer event, at least at every ping.
func (s *Session) watchToken(now time.Time) {
	if !s.authenticated {
		if s.tokenDue.due(s.env.at(now)) {
			s.fail(wire.NewFault(wire.AuthTimeout, ""), nil, nil)
		}
		return
	}
	left := time.Duration(s.expires - now.UnixNano())
	if left <= s.env.expiryWarning() && !s.warned {
		s.warned = true
		s.send(wire.AppendTokenExpiring(s.sub.Scratch(), max(0, seconds(left))))
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
		s.tokenDue = s.env.at(now).add(due)
	}
}
