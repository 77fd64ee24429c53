package session

import (
	"time"

	"github.com/ruedahq/rueda/wire"
)

// request is a client message that the session answers.
type request struct {
	*Session
	now time.Time
	t   instant
	id  []byte // of the message, for its answers
}

// answer answers a message. Faults have the order of the protocol: size and UTF-8 (checked by the
// host), rate, JSON, action, authentication, fields, options, limit, items.
func (r *request) answer(m *wire.Message, fault *wire.Fault) {
	// A subscribe may be free, and charges itself.
	if (fault != nil || m.Action != "subscribe" || !r.Authenticated()) && !r.charge() {
		r.rejectRate()
		return
	}
	if fault != nil {
		r.reject(fault, nil)
		return
	}
	switch {
	case !isAction(m.Action):
		r.reject(&wire.Fault{Reason: wire.UnknownAction, Hint: r.actions()}, nil)
	case !r.Authenticated() && m.Action != "auth_token":
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

func isAction(name string) bool {
	switch name {
	case "auth_token", "subscribe", "unsubscribe", "subscriptions", "resync", "ping", "sim":
		return true
	}
	return false
}

// actions returns a hint with all actions.
func (r *request) actions() string {
	all := "Actions: auth_token, subscribe, unsubscribe, subscriptions, resync, ping, pong"
	if r.env.Fault != nil {
		all += ", sim"
	}
	return all
}

// act does what an action requests.
func (r *request) act(m *wire.Message) {
	switch m.Action {
	case "auth_token":
		r.authToken(m)
	case "subscribe":
		r.subscribe(m)
	case "unsubscribe":
		r.unsubscribe(m)
	case "subscriptions":
		r.subscriptions(m)
	case "resync":
		r.resync(m)
	case "ping":
		r.ping(m)
	case "sim":
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
