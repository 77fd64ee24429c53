package session

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// request is a client message that the session answers.
type request struct {
	*Session
	now time.Time
	t   instant
	id  []byte // of the message, for its answers

	pieces *pieces              // nil: the message is handled at once
	found  *subscription.Search // that the message has waited for; nil: none
	work   *subscription.Work   // not charged yet; nil: none has begun
	used   []Use                // of the session before the message changed the set

	length int // of the message, in bytes; 0: it is handled again after a search
	values int // JSON values of the message that are not expected
	units  int // of work, without those for the text
}

// at sets the time of the following work.
func (r *request) at(now time.Time) { r.now, r.t = now, r.env.at(now) }

// handle parses and answers a message. Without pieces it does not retain the text.
func (r *request) handle(e Event) {
	s := r.Session
	if !r.again() {
		r.length = len(e.Message)
	}
	var parsed func(bytes int) // nil: the message is handled at once
	if r.pieces != nil {
		parsed = func(bytes int) { r.visit(bytes / bytesPerVisit) }
	}
	var m wire.Message
	var fault *wire.Fault
	switch {
	case e.Kind == Text:
		m, fault = wire.ReadMessage(e.Message, parsed)
	case s.format&^wire.Deflate == wire.Msgpack:
		m, fault = wire.ReadMsgpack(e.Message, parsed)
	default:
		r.answer(&m, wire.NewFault(wire.BadMessage, "Messages are text here, not binary"))
		return
	}
	r.id = m.ID
	if !r.again() {
		r.values = m.Values
	}
	switch {
	case fault == nil && m.Action == wire.ActionPong:
		s.pongDue = 0 // it answers every ping before it, and never counts as a message
		r.pay()
	case s.pendingCheck() != nil || s.inProgress() != r.pieces:
		s.hold(e)
	case r.pieces == nil && fault == nil && readsSet(m.Action) && !s.env.isWhole(0, s.sub.Len()):
		e.Message, r.id = bytes.Clone(e.Message), bytes.Clone(r.id)
		r.inPieces(func() { r.finish(e, &m, nil) })
	default:
		r.finish(e, &m, fault)
	}
}

// finish answers a message and charges the user for it. It keeps a message that waits for a search.
func (r *request) finish(e Event, m *wire.Message, fault *wire.Fault) {
	r.answer(m, fault)
	r.pay()
	if c := r.pendingCheck(); c != nil && c.start != nil && c.start.again.Message == nil {
		e.Message = bytes.Clone(e.Message)
		c.start.again = e
	}
}

// answer answers a message. Faults have the order of the protocol: size and UTF-8 (checked by the
// host), rate, JSON, action, authentication, fields, options, limit, items.
func (r *request) answer(m *wire.Message, fault *wire.Fault) {
	if wait := r.inDebt(m, fault); wait > 0 {
		r.rejectUntil(wait)
		return
	}
	// A subscribe may be free, and charges itself.
	if (fault != nil || m.Action != wire.ActionSubscribe || !r.Authenticated()) && !r.charge() {
		r.rejectRate()
		return
	}
	if fault != nil {
		r.reject(fault, nil)
		return
	}
	switch {
	case !wire.IsAction(m.Action):
		r.reject(&wire.Fault{Reason: wire.UnknownAction, Hint: r.actions()}, nil)
	case !r.Authenticated() && m.Action != wire.ActionAuthToken:
		r.rejectUnauthenticated()
	default:
		// A right that has begun or ended changes the set before the message does.
		if o := r.optional; r.Authenticated() && o != nil && o.rightsDue != 0 && !r.now.Before(o.rightsAt) {
			r.reviewRights(r.now)
		}
		if !r.awaitMove() {
			r.act(m)
		}
	}
}

// actions returns a hint with all actions that this gateway accepts.
func (r *request) actions() string {
	all := wire.Actions()
	if r.env.Fault == nil {
		all = slices.DeleteFunc(all, func(name string) bool { return name == wire.ActionSim })
	}
	return "Actions: " + strings.Join(all, ", ")
}

// act does what an action requests.
func (r *request) act(m *wire.Message) {
	switch m.Action {
	case wire.ActionAuthToken:
		r.authToken(m)
	case wire.ActionSubscribe:
		r.subscribe(m)
	case wire.ActionUnsubscribe:
		r.unsubscribe(m)
	case wire.ActionSubscriptions:
		r.subscriptions(m)
	case wire.ActionResync:
		r.resync(m)
	case wire.ActionPing:
		r.ping(m)
	case wire.ActionSim:
		r.requestFault(m)
	}
}

// authToken starts the check of a token. Its result is an event of kind Verified.
func (r *request) authToken(m *wire.Message) {
	a, f := m.AuthToken()
	if f != nil {
		r.reject(f, nil)
		return
	}
	if !r.Authenticated() {
		r.tokenDue = 0
	}
	r.units += r.sub.Len() * priceIdentifier // their rights are checked again
	c := &check{id: append([]byte(nil), m.ID...), token: a.Token, name: a.Session, slow: a.Slow}
	r.ext().check = c
	if r.env.Known == nil {
		return
	}
	c.mark = r.env.Registry.Mark()
	if id, fault, ok := r.env.Known(c.token); ok {
		c.started, c.token = true, ""
		r.verified(r.now, id, fault)
	}
}

// ping answers a ping of the client.
func (r *request) ping(m *wire.Message) {
	if f := m.Fields(); f != nil {
		r.id = nil
		r.reject(f, nil)
		return
	}
	r.send(wire.AppendPong(r.sub.Scratch(), r.id, r.now.UnixNano()))
}
