package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/engine/socket/listing"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// connectionRoutes serves the routes for administrators that list and close connections of the
// stream.
type connectionRoutes struct {
	handler *Handler
	stream  *socket.Server // nil: this program has no stream
	record  func(ctx context.Context, events ...audit.Event) error
}

// routes returns the functions of the routes, by method and path.
func (c *connectionRoutes) routes() map[string]serveFunc {
	return map[string]serveFunc{
		"GET /admin/connections":         c.list,
		"DELETE /admin/connections":      c.closeUser,
		"DELETE /admin/connections/{id}": c.closeOne,
	}
}

// connectionRow describes a connection in an answer.
type connectionRow struct {
	ID            string    `json:"id"`
	User          string    `json:"user,omitempty"` // id
	Username      string    `json:"username,omitempty"`
	Login         string    `json:"login,omitempty"`   // id of the token's family
	Session       string    `json:"session,omitempty"` // name that the client gave it
	Address       string    `json:"address,omitempty"`
	Transport     string    `json:"transport"`
	State         string    `json:"state"`
	Since         time.Time `json:"since"`
	Subscriptions int       `json:"subscriptions"`
	Backlog       int       `json:"backlog_bytes"`
	Sent          uint64    `json:"sent_bytes"`
	Slow          bool      `json:"slow"`
}

// connectionList is the answer to GET /admin/connections.
type connectionList struct {
	Connections []connectionRow `json:"connections"`
	Open        int             `json:"open"`
	Matching    int             `json:"matching"`
	Stale       []int           `json:"stale_shards"`
}

func newConnectionRow(now time.Time, c *listing.Connection) connectionRow {
	return connectionRow{
		ID: c.ID.String(), User: c.User, Username: c.Username, Login: c.Family, Session: c.Name, Address: addressText(c.Address),
		Transport: c.Transport, State: c.State.String(), Since: now.Add(-c.Duration).UTC().Truncate(time.Second),
		Subscriptions: c.Subscriptions, Backlog: c.Backlog, Sent: c.Accepted, Slow: c.Slow,
	}
}

// addressText returns an address as text, or "" if it is unknown.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().String()
}

// streamHere returns a fault if this program has no stream.
func (c *connectionRoutes) streamHere() error {
	if c.stream == nil {
		return wire.NewFault(wire.UnsupportedOption, "This gateway has no stream")
	}
	return nil
}

// list serves GET /admin/connections?user=&sort=&limit=.
func (c *connectionRoutes) list(q *request) (api.Result, error) {
	limit, f := q.Params.Limit(defaultLimit, maxLimit)
	if f != nil {
		return api.Result{}, f
	}
	order := q.Params.Get("sort")
	if orders := openapi.ConnectionOrders(); order != "" && !slices.Contains(orders, order) {
		return api.Result{}, wire.NewFailure(wire.BadField, "sort", "must be one of "+strings.Join(orders, ", "))
	}
	if err := c.streamHere(); err != nil {
		return api.Result{}, err
	}
	found := c.stream.Connections(listing.Query{User: q.Params.Get("user"), Order: listing.Order(order), Limit: limit})
	c.handler.recordRead(q, "", "connections")
	answer := connectionList{Connections: []connectionRow{}, Open: found.Open, Matching: found.Matching, Stale: found.Stale}
	if answer.Stale == nil {
		answer.Stale = []int{}
	}
	now := time.Now()
	for i := range found.Connections {
		answer.Connections = append(answer.Connections, newConnectionRow(now, &found.Connections[i]))
	}
	return api.Result{Object: appendJSON(nil, answer)}, nil
}

// closeOne serves DELETE /admin/connections/{id}. The answer counts 0 if the connection ended by
// itself meanwhile.
func (c *connectionRoutes) closeOne(q *request) (api.Result, error) {
	id, ok := listing.ParseID(q.segment)
	if !ok {
		return api.Result{}, unknownConnection()
	}
	if err := c.streamHere(); err != nil {
		return api.Result{}, err
	}
	found, err := c.stream.Connection(id, false)
	if err != nil {
		return api.Result{}, c.failure(q, err)
	}
	detail := "connection " + id.String() + " of " + addressText(found.Address)
	if err := c.recordClose(q, audit.Event{User: found.User, Family: found.Family, Detail: detail}); err != nil {
		return api.Result{}, err
	}
	closed := 1
	if _, err = c.stream.Connection(id, true); errors.Is(err, listing.ErrNotFound) {
		closed = 0 // it has ended in the meantime
	} else if err != nil {
		return api.Result{}, c.failure(q, err)
	}
	return closedResult(closed), nil
}

// closeWait bounds how long a request waits for the shards to find the connections of a user.
const closeWait = 2 * time.Second

// closeUser serves DELETE /admin/connections?user=, which closes all connections of a user. The
// parameter is an id or a name.
func (c *connectionRoutes) closeUser(q *request) (api.Result, error) {
	user := q.Params.Get("user")
	if user == "" {
		return api.Result{}, wire.NewFailure(wire.InvalidRequest, "user", "is missing")
	}
	if err := c.streamHere(); err != nil {
		return api.Result{}, err
	}
	first := c.stream.Connections(listing.Query{User: user, Limit: 1, Wait: closeWait})
	switch {
	case len(first.Connections) > 0:
	case len(first.Stale) > 0:
		return api.Result{}, c.failure(q, listing.ErrStale)
	default: // there may be no such user, so that the name must not be in the audit log
		return closedResult(0), nil
	}
	if err := c.recordClose(q, audit.Event{User: first.Connections[0].User, Detail: "all connections of the user"}); err != nil {
		return api.Result{}, err
	}
	closed, err := c.stream.CloseConnections(user, closeWait)
	if err != nil {
		return api.Result{}, c.failure(q, err)
	}
	return closedResult(closed), nil
}

// recordClose stores the row of the audit log before connections are closed. If that fails, it
// returns a fault, and nothing is closed.
func (c *connectionRoutes) recordClose(q *request, e audit.Event) error {
	from := auth.Caller(q.origin())
	e.Time, e.Kind, e.Actor = time.Now(), audit.ConnectionClosed, q.actor
	e.Address, e.Client = from.Address.Unmap().String(), from.Client
	if err := c.record(q.Context(), e); err != nil {
		c.handler.log.LogAttrs(q.Context(), slog.LevelWarn, "connections not closed", slog.String("request_id", q.ID), slog.Any("error", err))
		return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
	}
	return nil
}

func closedResult(n int) api.Result {
	return api.Result{Object: appendJSON(nil, struct {
		Closed int `json:"closed"`
	}{n})}
}

func unknownConnection() *wire.Fault {
	return &wire.Fault{Reason: wire.NotFound, Msg: "No connection has this id", Hint: "It may have ended. GET /admin/connections lists the ids"}
}

// failure converts an error of a shard to a fault, and logs it unless the connection does not
// exist.
func (c *connectionRoutes) failure(q *request, err error) error {
	if errors.Is(err, listing.ErrNotFound) {
		return unknownConnection()
	}
	c.handler.log.LogAttrs(q.Context(), slog.LevelWarn, "connections not found", slog.String("request_id", q.ID), slog.Any("error", err))
	return &wire.Fault{Reason: wire.Unavailable, Msg: "A shard does not answer", Hint: "Some of the connections may be open", RetryAfter: 2}
}
