// Package operator serves the routes for administrators about groups, accounts, feeds, keys, the
// audit log, usage and settings. It also adds users and changes their rights and passwords. Each
// change has a row in the audit log with the operator's name.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/usage"
	"github.com/ruedahq/rueda/wire"
)

// Config configures Routes. A route that needs a nil field answers unsupported_option; only the
// list of feeds is empty without Feeds. Noted and Logger are required.
type Config struct {
	Users *local.Base
	Feeds func() []adminapi.Feed
	// Cluster returns a description of this node of a cluster. If it is nil or returns nil, the
	// gateway is not a node.
	Cluster func() *adminapi.Cluster
	Keys    Keys
	Audit   Audit
	Usage   func(ctx context.Context, month string) ([]usage.Row, error)

	LogLevel *slog.LevelVar // of Logger
	// Record stores rows in the audit log. It is called before LogLevel changes.
	Record func(ctx context.Context, events ...audit.Event) error
	Reload Reload

	// Noted records that an operator has read something. what describes it, and user is the id of
	// the user that it is about, or "".
	Noted  func(q *Request, user, what string)
	Logger *slog.Logger
}

// Keys manages the keys that sign access tokens.
type Keys interface {
	Keys() []keyset.Info
	Rotate(ctx context.Context, o keyset.Rotation) ([]keyset.Change, error)
}

// Audit reads the audit log.
type Audit interface {
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
}

// Request is a request of an operator whose role permits the route.
type Request struct {
	*api.Request
	Segment string // that the route leaves open
	Actor   string // the operator's name in the audit log
	Name    string // of the operator; "": that of the only token
	Role    string // of the operator
	Client  broker.Caller
}

// Serve serves a request of a route.
type Serve func(*Request) (api.Result, error)

// Routes serves the routes in Table.
type Routes struct {
	cfg Config
	mu  sync.Mutex // held during a change of LogLevel, so that audit rows have the order of changes
}

// New returns Routes. It does not check cfg.
func New(cfg Config) *Routes { return &Routes{cfg: cfg} }

// Table returns the functions of the routes, by method and path.
func (r *Routes) Table() map[string]Serve {
	return map[string]Serve{
		"POST /admin/users":               r.local(r.addUser),
		"GET /admin/users/{id}/accounts":  r.local(r.accounts),
		"POST /admin/users/{id}/accounts": r.local(r.addAccount),
		"GET /admin/groups":               r.local(r.groups),
		"POST /admin/groups":              r.local(r.addGroup),
		"POST /admin/groups/{id}":         r.local(r.changeGroup),
		"DELETE /admin/groups/{id}":       r.local(r.removeGroup),
		"GET /admin/feeds":                r.feeds,
		"GET /admin/cluster":              r.cluster,
		"GET /admin/keys":                 r.keys,
		"POST /admin/keys":                r.rotate,
		"GET /admin/audit":                r.audit,
		"GET /admin/usage":                r.usage,
		"GET /admin/operator":             r.whoami,
		"GET /admin/log-level":            r.logLevel,
		"PUT /admin/log-level":            r.setLogLevel,
		"POST /admin/reload":              r.reload,
	}
}

// local returns a function that answers unsupported_option if the gateway has another user base
// than its own, and otherwise calls serve.
func (r *Routes) local(serve Serve) Serve {
	return func(q *Request) (api.Result, error) {
		if r.cfg.Users == nil {
			return api.Result{}, wire.NewFault(wire.UnsupportedOption, "Users of this gateway are managed in the broker's user base")
		}
		return serve(q)
	}
}

// MaxBody bounds bodies in bytes. The 500 entitlements that a user may have fit.
const MaxBody = 64 << 10

// Decode reads the body of a request, a JSON object, into the value that into points to. It refuses
// unknown members.
func Decode(q *api.Request, into any) error {
	text, err := q.ReadBody(api.MediaJSON, MaxBody)
	if err != nil {
		return err
	}
	if f := DecodeText(text, into); f != nil {
		return f
	}
	return nil
}

// DecodeText decodes a body like Decode. The failure names the wrong member.
func DecodeText(text []byte, into any) *wire.Failure {
	if body, err := wire.ParseJSON(text); err != nil || body.Kind != wire.Object {
		return &wire.Failure{Fault: wire.Fault{Reason: wire.BadJSON}}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field != "":
		return wire.NewFailure(wire.BadField, kind.Field, "has a value of another type")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return wire.NewFailure(wire.BadField, "member "+strings.Trim(name, `"`), "is not known")
	}
	return &wire.Failure{Fault: wire.Fault{Reason: wire.BadField, Msg: "A value of the body has another form, such as a time that is not of RFC 3339"}}
}

// object returns the answer with v as its JSON object.
func object(v any) (api.Result, error) {
	text, err := json.Marshal(v)
	return api.Result{Object: text}, err
}

// by returns the user base, which records changes as those of the request's operator.
func (r *Routes) by(q *Request) *local.Base { return r.cfg.Users.ByOperator(q.Actor, q.Client) }

// failure converts an error about a user or group to an error for the client. field is the member
// that is named for an error without a special meaning.
func (r *Routes) failure(q *Request, err error, field string) error {
	var already *wire.Failure
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, adminapi.ErrChanged):
		return &wire.Fault{Reason: wire.Conflict, Msg: "The rights have been changed meanwhile", Hint: "Read them again"}
	case errors.Is(err, local.ErrExists):
		return wire.NewFailure(wire.Conflict, field, "exists already")
	case errors.Is(err, local.ErrNoGroup):
		return &wire.Fault{Reason: wire.NotFound, Msg: "No group has this name", Hint: "GET /admin/groups lists them"}
	case errors.Is(err, broker.ErrNotFound):
		return &wire.Fault{Reason: wire.NotFound, Msg: "No user has this id", Hint: "GET /admin/users?name= finds the id of a name"}
	case errors.Is(err, broker.ErrUnavailable), q.Context().Err() != nil:
		return r.unavailable(q, err)
	}
	return wire.NewFailure(wire.BadField, field, "cannot be used: "+err.Error())
}

func (r *Routes) unavailable(q *Request, err error) error {
	r.cfg.Logger.LogAttrs(q.Context(), slog.LevelWarn, "request of an operator failed", slog.String("request_id", q.ID), slog.Any("error", err))
	return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
}

// feeds serves GET /admin/feeds.
func (r *Routes) feeds(*Request) (api.Result, error) {
	list := []adminapi.Feed{}
	if r.cfg.Feeds != nil {
		list = append(list, r.cfg.Feeds()...)
	}
	return object(adminapi.Feeds{Feeds: list})
}

// cluster serves GET /admin/cluster.
func (r *Routes) cluster(*Request) (api.Result, error) {
	if r.cfg.Cluster != nil {
		if c := r.cfg.Cluster(); c != nil {
			return object(c)
		}
	}
	return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway is not a node of a cluster")
}

// keys serves GET /admin/keys.
func (r *Routes) keys(*Request) (api.Result, error) {
	if r.cfg.Keys == nil {
		return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway has no keys of its own")
	}
	return object(adminapi.Keys{Keys: adminapi.NewKeys(r.cfg.Keys.Keys())})
}

// rotate serves POST /admin/keys.
func (r *Routes) rotate(q *Request) (api.Result, error) {
	var body adminapi.Rotate
	if err := Decode(q.Request, &body); err != nil {
		return api.Result{}, err
	}
	if r.cfg.Keys == nil {
		return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway has no keys of its own")
	}
	changes, err := r.cfg.Keys.Rotate(q.Context(), keyset.Rotation{Algorithm: body.Algorithm, Now: body.Now, Revoke: body.Revoke, Actor: q.Actor})
	switch {
	case errors.Is(err, keyset.ErrNoSuchKey):
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "There is no such key", Hint: "GET /admin/keys lists them"}
	case errors.Is(err, keyset.ErrSigningKey):
		return api.Result{}, &wire.Failure{
			Fault:   wire.Fault{Reason: wire.Conflict, Msg: "The key signs: without a replacement nobody could log in", Hint: "Replace it at once with now: true"},
			Details: []wire.Detail{{Field: "revoke", Msg: "is the key that signs"}},
		}
	case errors.Is(err, keyset.ErrTooManyKeys):
		return api.Result{}, wire.NewFault(wire.Conflict, "There are too many keys: some must be deleted first")
	case errors.Is(err, keyset.ErrAlgorithm):
		return api.Result{}, wire.NewFailure(wire.BadField, "alg", "must be "+strings.Join(keyset.Algorithms(), ", "))
	case err != nil:
		return api.Result{}, r.unavailable(q, err)
	}
	answer := adminapi.Keys{Keys: adminapi.NewKeys(r.cfg.Keys.Keys()), Changes: adminapi.NewKeyChanges(changes)}
	return object(answer)
}

// Default and maximum number of rows in an answer, and how many rows of the audit log one request
// looks at.
const (
	usualRows = 100
	mostRows  = 1000
	mostRead  = 20_000
)

// audit serves GET /admin/audit?user=&kind=&after=&limit=.
func (r *Routes) audit(q *Request) (api.Result, error) {
	limit, f := q.Params.Limit(usualRows, mostRows)
	if f != nil {
		return api.Result{}, f
	}
	user, kind := q.Params.Get("user"), audit.Kind(q.Params.Get("kind"))
	if kind != "" && !slices.Contains(audit.Kinds(), kind) {
		return api.Result{}, wire.NewFailure(wire.BadField, "kind", "is not one of the kinds of the audit log")
	}
	after, f := readSeq(q.Params.Get("after"))
	if f != nil {
		return api.Result{}, f
	}
	if r.cfg.Audit == nil {
		return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway has no audit log")
	}
	r.cfg.Noted(q, "", "audit log")
	answer, err := readAudit(q.Context(), r.cfg.Audit, user, kind, after, limit)
	if err != nil {
		return api.Result{}, r.unavailable(q, err)
	}
	return object(answer)
}

// usage serves GET /admin/usage?month=.
func (r *Routes) usage(q *Request) (api.Result, error) {
	month := q.Params.Get("month")
	if month == "" {
		month = time.Now().UTC().Format("2006-01")
	} else if _, err := time.Parse("2006-01", month); err != nil {
		return api.Result{}, wire.NewFailure(wire.BadField, "month", "must be a month such as 2026-11")
	}
	if r.cfg.Usage == nil {
		return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway stores no usage")
	}
	r.cfg.Noted(q, "", "usage")
	rows, err := r.cfg.Usage(q.Context(), month)
	if err != nil {
		return api.Result{}, r.unavailable(q, err)
	}
	return object(adminapi.UsageReport{Month: month, Rows: append([]usage.Row{}, rows...)})
}
