package session

import (
	"time"

	"github.com/ruedahq/rueda/wire"
)

// NoticeKind is what happened.
type NoticeKind uint8

// Kinds of notices and the fields of Notice each uses.
const (
	Revoked       NoticeKind = iota + 1 // the token family, or the key that signed the token, was revoked: closes
	Replaced                            // another connection took the session's name: closes
	Extended                            // the token family was refreshed: Expires
	GrantsChanged                       // the user's rights, scopes or limits: Grants
	Drain                               // the server shuts down: In
	Overload                            // the host sheds this connection: closes with 503 overloaded
	Broken                              // the host cannot go on with this connection: closes with 500 internal
	Upset                               // another connection of the user asks for a fault of this one: Sim
	Found                               // the start of a subscribe has been found
)

// Notice tells a session of something that happened elsewhere.
type Notice struct {
	Kind    NoticeKind
	Family  string // "": it does not matter of which family the session is
	KeyID   string // "": nor which key signed its token
	Expires time.Time
	Grants  *Grants // shared, not changed
	In      time.Duration
	Sim     *wire.Sim // shared, not changed
}

// Notify takes a notice.
func (s *Session) Notify(now time.Time, n Notice) {
	// A re-authentication may have moved the session to another family meanwhile.
	if s.over() != nil || n.Family != "" && n.Family != s.place.family() || n.KeyID != "" && n.KeyID != s.place.key() {
		return
	}
	switch n.Kind {
	case Revoked:
		s.fail(wire.NewFault(wire.TokenRevoked, ""), nil, nil)
	case Replaced:
		s.fail(wire.NewFault(wire.Replaced, ""), nil, nil)
	case Extended:
		s.extend(now, n.Expires)
	case GrantsChanged:
		s.regrant(now, n.Grants)
	case Drain:
		s.drain(now, n.In)
	case Upset:
		s.upset(now, n.Sim)
	case Found:
		s.found(now)
	case Overload:
		s.fail(wire.NewFault(wire.Overloaded, ""), nil, nil)
	default:
		s.fail(wire.NewFault(wire.Internal, ""), nil, nil)
	}
}

// extend moves the token's end to that of its family's newest token.
func (s *Session) extend(now time.Time, expires time.Time) {
	if !s.known || expires.UnixNano() <= s.expires {
		return
	}
	s.expires, s.warned = expires.UnixNano(), false
	s.watchToken(now)
}

// drain tells when to reconnect, feeds until then, and ends the session. A client
// that is not authenticated yet hears nothing but the end.
func (s *Session) drain(now time.Time, in time.Duration) {
	if s.put().drainDue != 0 {
		return
	}
	if s.known {
		s.send(wire.AppendShuttingDown(s.sub.Scratch(), int(in.Milliseconds())))
	}
	s.put().drainDue = s.at(now).add(max(0, in))
}
