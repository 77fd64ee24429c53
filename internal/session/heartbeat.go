package session

import (
	"time"

	"github.com/ruedahq/rueda/wire"
)

// beat sends the ping that is due, and ends the session whose pong is overdue.
func (s *Session) beat(t moment) {
	if s.pongDue.due(t) {
		s.fail(wire.NewFault(wire.PongTimeout, ""), nil, nil)
		return
	}
	if !s.pingDue.due(t) {
		return
	}
	for s.pingDue.due(t) {
		s.pingDue = s.pingDue.add(s.env.pingInterval())
	}
	if s.put().pingEnd != 0 {
		return // the last one still waits for the kernel; a second would say no more
	}
	s.send(append(s.sub.Scratch(), wire.Ping...))
	// Control messages go out before anything else, so where this one ends is known.
	s.aside.pingEnd = s.gathered() + uint64(s.waiting())
}

// pingTaken starts the time for the pong of a ping that the kernel took.
func (s *Session) pingTaken(t moment) {
	a := s.aside
	if a == nil || a.pingEnd == 0 || s.taken < a.pingEnd {
		return
	}
	a.pingEnd = 0
	s.tidy()
	if s.pongDue == 0 {
		s.pongDue = t.add(s.env.pongTimeout())
	}
}

// pingOfClient answers a client's own ping.
func (s *Session) pingOfClient(now time.Time, m *wire.Message) {
	if f := m.Fields(); f != nil {
		s.complain(s.at(now), f, nil)
		return
	}
	s.send(wire.AppendPong(s.sub.Scratch(), m.ID, now.UnixNano()))
}
