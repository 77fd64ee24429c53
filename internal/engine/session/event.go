package session

import (
	"time"

	"github.com/ruedahq/rueda/wire"
)

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events, and the fields that they use.
const (
	Text           EventKind = iota + 1 // a complete text message of the client: Message
	Binary                              // a complete binary message: Message
	TooBig                              // a message above the size limit was announced
	Timer                               // Deadline has passed
	Verified                            // the result for a token of TakeToken: Identity, Fault
	Found                               // the search of a start has ended
	NextPiece                           // the session handles the next piece of a long message
	Revoked                             // the token family, or the key of the token, was revoked: closes
	Replaced                            // another connection took the name of the session: closes
	Exceeds                             // the user has too many connections on the nodes of a cluster: closes
	Extended                            // the token family was refreshed: Expires
	GrantsChanged                       // the user's rights, scopes or limits: Grants
	Drain                               // the server shuts down: In
	Overload                            // the host sheds this connection: closes with 503 overloaded
	ByOperator                          // an operator closes the connection: with 503 overloaded, so that the client returns
	Broken                              // the host cannot continue this connection: closes with 500 internal
	EpochEnds                           // the hub begins another epoch when all sessions have left this one
	FaultRequested                      // another connection of the user requested a fault of this one: Sim
)

// Event is an input of a session.
type Event struct {
	Kind     EventKind
	Message  []byte
	Identity *Identity
	Fault    *wire.Fault // nil: the token is valid
	Family   string      // the event is only for sessions of this token family; "": of all
	KeyID    string      // only for tokens that this key signed; "": all
	Expires  time.Time
	Grants   *Grants // shared, not changed
	In       time.Duration
	Sim      *wire.Sim // shared, not changed

	pieces *pieces // of NextPiece
}

// notify handles an event from elsewhere. An authentication since then may have moved the session
// to another family.
func (s *Session) notify(now time.Time, e *Event) {
	if e.Family != "" && e.Family != s.entry.family() || e.KeyID != "" && e.KeyID != s.entry.key() {
		return
	}
	switch e.Kind {
	case Revoked:
		s.fail(wire.NewFault(wire.TokenRevoked, ""), nil, nil)
	case Replaced:
		s.fail(wire.NewFault(wire.Replaced, ""), nil, nil)
	case Exceeds:
		s.fail(&wire.Fault{Reason: wire.ConnectionLimit, RetryAfter: retryAfterLimit}, nil, nil)
	case Extended:
		if s.authenticated && e.Expires.UnixNano() > s.expires {
			s.expires, s.warned = e.Expires.UnixNano(), false
			s.watchToken(now)
		}
	case GrantsChanged:
		s.changeGrants(now, e.Grants)
	case Drain:
		s.drain(now, e.In)
	case EpochEnds:
		leaveEpoch(s)
	case FaultRequested:
		s.injectFault(now, e.Sim)
	case Overload:
		s.fail(wire.NewFault(wire.Overloaded, ""), nil, nil)
	case ByOperator:
		s.fail(wire.NewFault(wire.Overloaded, "An operator has closed this connection"), nil, nil)
	default:
		s.fail(wire.NewFault(wire.Internal, ""), nil, nil)
	}
}

// drain sends when to reconnect, and closes the session at that time. The client receives data
// until then. An unauthenticated client only gets the close.
func (s *Session) drain(now time.Time, in time.Duration) {
	if s.ext().drainDue != 0 {
		return
	}
	if s.authenticated {
		s.send(wire.AppendShuttingDown(s.sub.Scratch(), int(in.Milliseconds())))
	}
	s.ext().drainDue = s.env.at(now).add(max(0, in))
}

// checkDrain closes a session whose time to reconnect has come.
func (s *Session) checkDrain(now time.Time) {
	if s.optional != nil && s.drainDue.due(s.env.at(now)) {
		s.fail(wire.NewFault(wire.ShuttingDown, ""), nil, nil)
	}
}
