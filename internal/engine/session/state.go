package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// State is a stage in the life of a session.
type State uint8

// States of a session. A token that is checked again, and a start that is searched, do not change
// the state; see [Session.Busy].
const (
	AwaitingToken State = iota
	CheckingToken       // the first one
	Live
	Draining // authenticated; closes at a given time because the server shuts down
	Closed   // over; the last output may still wait
)

// State returns the state of the session.
func (s *Session) State() State {
	switch {
	case s.closeReason() != nil:
		return Closed
	case !s.authenticated && s.pendingCheck() != nil:
		return CheckingToken
	case !s.authenticated:
		return AwaitingToken
	case s.optional != nil && s.drainDue != 0:
		return Draining
	}
	return Live
}

// Authenticated reports whether the session has had a valid token.
func (s *Session) Authenticated() bool { return s.authenticated }

// Busy reports whether a token is being checked, a start searched, delayed data loaded, or a long
// message handled. Messages wait for the end, so that the host should leave them in the socket.
func (s *Session) Busy() bool { return s.pendingCheck() != nil || s.inProgress() != nil }

// optional is state that a session rarely has: answers and pings that wait, a token that is being
// checked, faults of the client, and rare options.
type optional struct {
	control   []byte // frames that wait, before any of the stream
	check     *check
	long      *pieces              // a message in pieces that is not answered; nil: none
	waiting   []Event              // messages that came while the session was busy
	held      int                  // bytes of waiting
	left      []hub.Item           // subscriptions that wait for an epoch to begin
	moving    *subscription.Search // subscriptions wait to move to a delay whose data is being loaded; nil: none
	faults    *faultCounts         // in the last minute
	slow      *slowness
	drainDue  instant
	aliveDue  instant
	rightsDue instant                 // when to check the user's rights
	rightsAt  time.Time               // when the next of them begins or ends, by the wall clock
	pingEnd   uint64                  // end in the output of the ping that the kernel has not accepted; 0: none
	unread    instant                 // until when the host does not read from the client; 0: it reads
	hasFrame  bool                    // control contains a frame of the host
	markDue   bool                    // an Alive mark is due
	quiet     subscription.QuietPlace // of the Alive marks
	positions bool                    // the host wants positions
	sim       *simFaults              // that the client requested; nil: none
	closed    *wire.Fault             // why the session is over; nil: it is not
}

// ext returns the optional state of the session, which it allocates on the first call.
func (s *Session) ext() *optional {
	if s.optional == nil {
		s.optional = &optional{}
	}
	return s.optional
}

// releaseExt releases the optional state if it is empty.
func (s *Session) releaseExt() {
	if o := s.optional; o != nil && o.isEmpty() {
		s.optional = nil
	}
}

func (o *optional) isEmpty() bool {
	return len(o.control) == 0 && o.check == nil && o.long == nil && len(o.waiting) == 0 && o.moving == nil && len(o.left) == 0 && o.faults == nil && !o.markDue &&
		(o.slow == nil || !o.slow.on && o.slow.warnDue == 0) && o.drainDue == 0 && o.aliveDue == 0 && o.rightsDue == 0 &&
		o.pingEnd == 0 && o.unread == 0 && o.closed == nil && !o.positions && o.sim == nil
}

// closeReason returns why the session is over, or nil if it is not.
func (o *optional) closeReason() *wire.Fault {
	if o == nil {
		return nil
	}
	return o.closed
}

// holdsStream reports whether nothing of the stream may be sent: the session is over, subscriptions
// wait to move to another delay, or a message in pieces is not answered.
func (o *optional) holdsStream() bool {
	return o != nil && (o.closed != nil || o.moving != nil || o.inProgress() != nil)
}

// awaitMove reports whether subscriptions wait to move to another delay, and makes messages wait
// for that.
func (o *optional) awaitMove() bool {
	if o == nil || o.moving == nil {
		return false
	}
	if o.check == nil {
		o.check = &check{started: true, start: &start{search: o.moving}}
	}
	return true
}

// pendingCheck returns the check that messages wait for, or nil.
func (o *optional) pendingCheck() *check {
	if o == nil {
		return nil
	}
	return o.check
}
