// Package api contains what the routes of REST share: the request that a route gets, the result
// that it returns, parameters of the query, media types, compression and entity tags.
package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Request is a request that has passed all checks before its route's function.
type Request struct {
	*http.Request
	ID      string      // for the log and errors
	Address netip.Addr  // of the client; the zero Addr if it has none
	Conn    net.Conn    // of the server; nil: unknown
	Out     http.Header // of the answer
	Path    string      // of the route, without text of the client
	Params  Params
	Media   string // media type of the answer, by Accept
	Token   string // access token; "": the route needs none
	User    broker.User
	Used    []Use // market data that the answer contains

	// Recheck verifies the token again and updates User. Routes whose answers take long call it. It
	// is nil if the route needs no token.
	Recheck func() error
	// Quota counts the instruments of users whose rights cover a limited number of instruments.
	Quota *entitlement.Daily
	// Denied records a refusal because of a missing right.
	Denied func(user, market, level, reason string)
}

// Result is what a route returns: a JSON object, which is put into the envelope, or an answer
// without an envelope.
type Result struct {
	Object []byte                          // a JSON object
	Status int                             // not 0: this status, with Raw as the body
	Raw    []byte                          // body without an envelope
	Done   func()                          // called when the answer is written or abandoned; nil: nothing
	Stream func(http.ResponseWriter) int64 // writes the body instead of Raw and returns its length
}

// Use describes market data that an answer contains, for the report of usage.
type Use struct {
	Market  string
	Channel wire.Channel
	Delay   int // seconds
}

// ErrGone means that the client has disconnected, so that nobody reads the answer.
var ErrGone = errors.New("the client is gone")

// SetWaiting records whether the server waits for the client of this connection. If waits is true,
// the connection may be closed to accept a new one.
func (q *Request) SetWaiting(waits bool) {
	if c, ok := q.Conn.(interface{ SetWaiting(waits bool) }); ok {
		c.SetWaiting(waits)
	}
}

// Right decides whether the user may have the data that a describes, and at which delay. If the
// user's right covers a limited number of instruments, Right counts this one.
func (q *Request) Right(a entitlement.Ask) entitlement.Decision {
	return q.Quota.Evaluate(q.User.ID, q.User.Entitlements, q.User.Scopes, a, time.Now())
}

// StatusDelay returns the delay in seconds at which the user may see the statuses of a market's
// instruments. ok is false if the user has no right to the market.
func (q *Request) StatusDelay(name string) (delay int, ok bool) {
	return entitlement.Set(q.User.Entitlements).Delay(name, wire.Status, 0, time.Now())
}

// Uses records that the answer will contain data of a market, unless it becomes an error.
func (q *Request) Uses(name string, c wire.Channel, delay int) {
	q.Used = append(q.Used, Use{name, c, delay})
}

// Deny returns the fault for the decision v to refuse data, and records the refusal. msg is its
// message, unless the user's right merely has no instruments left.
func (q *Request) Deny(a entitlement.Ask, v entitlement.Decision, msg string) *wire.Fault {
	if v.Reason == wire.SubscriptionLimit {
		return &wire.Fault{Reason: v.Reason, Msg: "Your right has no instruments left", Hint: v.Hint}
	}
	q.Denied(q.User.ID, a.ID.Market, entitlement.Level(a.Channel).String(), string(wire.NotEntitled))
	return wire.NewFault(wire.NotEntitled, msg)
}

// NeedScope returns a fault unless the user has the scope.
func (q *Request) NeedScope(scope string) *wire.Fault {
	if slices.Contains(q.User.Scopes, scope) {
		return nil
	}
	return wire.NewFault(wire.Forbidden, "This needs the scope "+scope)
}

// commitTimeout bounds how long a request waits for its data to be in the journal.
const commitTimeout = 2 * time.Second

// AwaitDelay waits up to commitTimeout until the data at a delay in seconds is available. The error
// is ErrGone or a fault.
func (q *Request) AwaitDelay(h *hub.Hub, delay int) error {
	return q.await("The delayed data is being loaded", func(ctx context.Context) error { return h.AwaitDelay(ctx, delay) })
}

// AwaitCommit waits up to commitTimeout until the journal has all rows of the instruments that were
// published before the call. Without ids it waits for all instruments. The error is ErrGone or a
// fault.
func (q *Request) AwaitCommit(h *hub.Hub, ids ...market.InstrumentID) error {
	return q.await("The journal does not have the newest data yet", func(ctx context.Context) error { return h.AwaitCommit(ctx, ids...) })
}

// await calls wait with a time limit of commitTimeout. It returns ErrGone if the client has
// disconnected, and a fault with the message msg if wait fails or takes too long.
func (q *Request) await(msg string, wait func(context.Context) error) error {
	ctx, stop := context.WithTimeout(q.Context(), commitTimeout)
	defer stop()
	switch err := wait(ctx); {
	case err == nil:
		return nil
	case q.Context().Err() != nil:
		return ErrGone
	}
	return &wire.Fault{Reason: wire.Unavailable, Msg: msg, RetryAfter: 1}
}
