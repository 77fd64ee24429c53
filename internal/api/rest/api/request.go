// Package api has what the routes of REST share: a request as its route sees it, the result of a
// route, parameters of the query, media types, compression and entity tags.
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

	// Recheck verifies the token again, for an answer that takes long, and updates User. nil: there is
	// no token.
	Recheck func() error
	// Quota counts the instruments of users with limited rights.
	Quota *entitlement.Daily
	// Denied records a refusal because of a missing right.
	Denied func(user, market, level, reason string)
}

// Result is the answer of a route: an object for the envelope, or an answer without an envelope.
type Result struct {
	Object []byte                          // a JSON object
	Status int                             // not 0: this status, with Raw as the body
	Raw    []byte                          // body without an envelope
	Done   func()                          // called when the answer is written or abandoned; nil: nothing
	Stream func(http.ResponseWriter) int64 // writes the body instead of Raw and returns its length
}

// Use is market data that an answer contains.
type Use struct {
	Market  string
	Channel wire.Channel
	Delay   int // seconds
}

// ErrGone means that the client has disconnected, so nobody reads the answer.
var ErrGone = errors.New("the client is gone")

// SetWaiting records whether the connection waits for its client. One that waits may be closed for
// a new connection.
func (q *Request) SetWaiting(waits bool) {
	if c, ok := q.Conn.(interface{ SetWaiting(waits bool) }); ok {
		c.SetWaiting(waits)
	}
}

// Right decides whether the user may have the data that a asks for, and at which delay. It counts
// the instrument if the right is limited.
func (q *Request) Right(a entitlement.Ask) entitlement.Decision {
	return q.Quota.Evaluate(q.User.ID, q.User.Entitlements, q.User.Scopes, a, time.Now())
}

// StatusDelay returns the delay in seconds at which the user may have the statuses of a market's
// instruments, and false without any right to the market.
func (q *Request) StatusDelay(name string) (delay int, ok bool) {
	return entitlement.Set(q.User.Entitlements).Delay(name, wire.Status, 0, time.Now())
}

// Uses records market data that the answer will contain, if it is not an error.
func (q *Request) Uses(name string, c wire.Channel, delay int) {
	q.Used = append(q.Used, Use{name, c, delay})
}

// Deny refuses data because of a missing right. msg is the message of the fault if there is no
// right at all.
func (q *Request) Deny(a entitlement.Ask, v entitlement.Decision, msg string) *wire.Fault {
	if v.Reason == wire.SubscriptionLimit {
		return &wire.Fault{Reason: v.Reason, Msg: "Your right has no instruments left", Hint: v.Hint}
	}
	q.Denied(q.User.ID, a.ID.Market, entitlement.Level(a.Channel).String(), string(wire.NotEntitled))
	return wire.NewFault(wire.NotEntitled, msg)
}

// NeedScope returns a fault for a user without a scope.
func (q *Request) NeedScope(scope string) *wire.Fault {
	if slices.Contains(q.User.Scopes, scope) {
		return nil
	}
	return wire.NewFault(wire.Forbidden, "This needs the scope "+scope)
}

// commitTimeout bounds the wait until the journal has the data of an answer.
const commitTimeout = 2 * time.Second

// AwaitDelay waits until data is available at a delay in seconds.
func (q *Request) AwaitDelay(h *hub.Hub, delay int) error {
	return q.await("The delayed data is being loaded", func(ctx context.Context) error { return h.AwaitDelay(ctx, delay) })
}

// AwaitCommit waits until the journal has all published rows of the named instruments, or of all
// instruments if none are named.
func (q *Request) AwaitCommit(h *hub.Hub, ids ...market.InstrumentID) error {
	return q.await("The journal does not have the newest data yet", func(ctx context.Context) error { return h.AwaitCommit(ctx, ids...) })
}

// await waits for something, for a bounded time. msg is the message of the fault if that was too
// short.
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
