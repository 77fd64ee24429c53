package session

import (
	"time"

	"github.com/ruedahq/rueda/wire"
)

// runHeartbeat sends a ping that is due, and ends a session whose pong is overdue.
func (s *Session) runHeartbeat(now time.Time) {
	t := s.env.at(now)
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
	if s.ext().pingEnd != 0 {
		return // the kernel has not accepted the last one
	}
	s.send(append(s.sub.Scratch(), wire.Ping...))
	// Control messages are sent before anything else, so that the end of this one is known.
	s.pingEnd = s.out.end(s.accepted) + uint64(s.optional.controlBytes())
}

// pingAccepted starts the timeout of the pong when the kernel has accepted the ping.
func (s *Session) pingAccepted(t instant) {
	o := s.optional
	if o == nil || o.pingEnd == 0 || s.accepted < o.pingEnd {
		return
	}
	o.pingEnd = 0
	s.releaseExt()
	if s.pongDue == 0 {
		s.pongDue = max(t, o.unread).add(s.env.pongTimeout())
	}
}

// PauseInput reports that the host does not read from the client for a time. Until ResumeInput,
// time does not count towards the timeout of a pong.
func (s *Session) PauseInput(now time.Time, d time.Duration) {
	s.ext().unread = s.env.at(now).add(d)
	if s.pongDue != 0 {
		s.pongDue = s.pongDue.add(d)
	}
}

// ResumeInput reports that the host reads from the client again.
func (s *Session) ResumeInput(now time.Time) {
	o := s.optional
	if o == nil || o.unread == 0 {
		return
	}
	if late := s.env.at(now) - o.unread; late > 0 && s.pongDue != 0 {
		s.pongDue += late
	}
	o.unread = 0
	s.releaseExt()
}

// KeepInput records that the whole input budget of the session's connection, which the host counts,
// is available again after a time. The host calls it at the end of a connection.
func (s *Session) KeepInput(now time.Time, ahead time.Duration) {
	if s.entry.identity != nil {
		s.env.Registry.keepInput(s.entry.user(), s.env.at(now).add(ahead))
	}
}

// KeptInput returns the longest time of KeepInput that is left for the user of the session, which
// has authenticated.
func (s *Session) KeptInput(now time.Time) time.Duration {
	t := s.env.at(now)
	return max(0, time.Duration(s.env.Registry.debt(s.entry.user(), t).input-t))
}
