package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/api/rest/operator"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// userCursor marks the cursors of the list of users, so that no other list accepts them.
const userCursor = 'u'

// userRoutes serves the routes for administrators that list, show and change users.
type userRoutes struct {
	handler *Handler
	base    *local.Base // nil: the gateway uses another user base
}

// routes returns the functions of the routes, by method and path.
func (u *userRoutes) routes() map[string]serveFunc {
	return map[string]serveFunc{
		"GET /admin/users":       u.list,
		"GET /admin/users/{id}":  u.show,
		"POST /admin/users/{id}": u.change,
	}
}

// usersHere returns a fault if the gateway has another user base than its own.
func (u *userRoutes) usersHere() error {
	if u.base == nil {
		return wire.NewFault(wire.UnsupportedOption, "Users of this gateway are managed in the broker's user base")
	}
	return nil
}

// list serves GET /admin/users?name=&limit=&cursor=, a page of users sorted by name. With name it
// returns only the user with exactly this name.
func (u *userRoutes) list(q *request) (api.Result, error) {
	pg, f := readPage(q.Params, userCursor)
	if f != nil {
		return api.Result{}, f
	}
	if !utf8.ValidString(pg.after) || strings.ContainsFunc(pg.after, unicode.IsControl) {
		return api.Result{}, api.BadCursor()
	}
	if err := u.usersHere(); err != nil {
		return api.Result{}, err
	}
	list, err := u.find(q.Context(), q.Params.Get("name"), pg)
	if err != nil {
		return api.Result{}, u.failure(q, err)
	}
	u.handler.recordRead(q, "", "users")
	b := append([]byte(nil), `{"users":[`...)
	for i := range list[:min(len(list), pg.limit)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, adminapi.NewUser(&list[i], time.Now()))
	}
	b = append(b, ']')
	if len(list) > pg.limit {
		b = appendNext(b, userCursor, list[pg.limit-1].Username)
	}
	return api.Result{Object: append(b, '}')}, nil
}

// find returns the user with a name, or none if there is no such user. If username is empty, it
// returns the users of a page and one more, which shows whether another page follows.
func (u *userRoutes) find(ctx context.Context, username string, pg page) ([]local.Entry, error) {
	if username == "" {
		return u.base.Page(ctx, pg.after, pg.limit+1)
	}
	entry, err := u.base.Entry(ctx, username)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return nil, nil
	case err != nil && !errors.Is(err, broker.ErrBadUser):
		return nil, err
	}
	return []local.Entry{entry}, nil
}

// show serves GET /admin/users/{id}, and records the access in the audit log.
func (u *userRoutes) show(q *request) (api.Result, error) {
	if err := u.usersHere(); err != nil {
		return api.Result{}, err
	}
	r, err := u.result(q)
	if err == nil {
		u.handler.recordRead(q, q.segment, "user")
	}
	return r, err
}

// result returns the answer that describes the user whose id is in the path.
func (u *userRoutes) result(q *request) (api.Result, error) {
	entry, err := u.base.EntryByID(q.Context(), q.segment)
	if err != nil {
		return api.Result{}, u.failure(q, err)
	}
	row := adminapi.NewUser(&entry, time.Now())
	if entry.SecondFactor {
		n, err := u.base.RecoveryCodes(q.Context(), entry.ID)
		if err != nil {
			return api.Result{}, u.failure(q, err)
		}
		row.RecoveryCodes = &n
	}
	return api.Result{Object: appendJSON(nil, row)}, nil
}

// change serves POST /admin/users/{id}, which changes a user. The answer describes the changed
// user.
func (u *userRoutes) change(q *request) (api.Result, error) {
	change, err := readBody(q, api.MediaJSON, operator.MaxBody, readUserChange)
	if err != nil {
		return api.Result{}, err
	}
	if err := u.usersHere(); err != nil {
		return api.Result{}, err
	}
	entry, err := u.base.EntryByID(q.Context(), q.segment)
	if err == nil {
		err = change(q.Context(), u.base.ByOperator(q.actor, auth.Caller(q.origin())), entry.Username)
	}
	if err != nil {
		return api.Result{}, u.failure(q, err)
	}
	return u.result(q)
}

// userChange changes the user with this name in users.
type userChange func(ctx context.Context, users *local.Base, username string) error

// readUserChange parses the body of POST /admin/users/{id}, and returns the change that it
// describes.
func readUserChange(data []byte) (userChange, *wire.Failure) {
	body, err := wire.ParseJSON(data)
	if err != nil || body.Kind != wire.Object {
		return nil, &wire.Failure{Fault: wire.Fault{Reason: wire.BadJSON}}
	}
	action := body.Get("action")
	if len(data) > maxTokenBody && action.Text != adminapi.SetRights {
		return nil, &wire.Failure{Fault: wire.Fault{Reason: wire.BodyTooBig}}
	}
	if change, f := operator.ChangeUser(data, action.Text); change != nil || f != nil {
		return change, f
	}
	switch action.Text {
	case "disable":
		return func(ctx context.Context, users *local.Base, username string) error {
			return users.Disable(ctx, username)
		}, nil
	case "enable":
		return func(ctx context.Context, users *local.Base, username string) error {
			return users.Enable(ctx, username)
		}, nil
	case "reset_second_factor":
		return func(ctx context.Context, users *local.Base, username string) error {
			_, err := users.DisableSecondFactor(ctx, username)
			return err
		}, nil
	case "set_expiry":
		return readExpiry(body.Get("expires_at"))
	case "set_networks":
		return readNetworks(body.Get("networks"))
	case "join_group":
		return readGroup(body.Get("group"), (*local.Base).Join)
	case "leave_group":
		return readGroup(body.Get("group"), (*local.Base).Leave)
	default:
		if action.Kind == wire.Absent {
			return nil, wire.NewFailure(wire.InvalidRequest, "action", "is missing")
		}
		return nil, wire.NewFailure(wire.BadField, "action",
			"must be disable, enable, reset_second_factor, set_expiry, set_networks, set_rights, set_password, join_group or leave_group")
	}
}

// readExpiry returns the change for expires_at, a time or null. The member is required, so that a
// misspelled member does not remove the expiry of an account.
func readExpiry(v wire.Value) (userChange, *wire.Failure) {
	var at time.Time
	switch v.Kind {
	case wire.Absent:
		return nil, wire.NewFailure(wire.InvalidRequest, "expires_at", "is missing")
	case wire.Null:
	default:
		ns, err := wire.ParseTime(v.Text)
		if v.Kind != wire.String || err != nil || ns < int64(time.Second) {
			return nil, wire.NewFailure(wire.BadField, "expires_at", "must be a time as in RFC 3339, or null")
		}
		at = time.Unix(0, ns).UTC()
	}
	return func(ctx context.Context, users *local.Base, username string) error {
		_, err := users.SetExpiry(ctx, username, at)
		return err
	}, nil
}

// readNetworks returns the change for networks, a list. The member is required, so that a
// misspelled member does not remove the networks of a user.
func readNetworks(v wire.Value) (userChange, *wire.Failure) {
	if v.Kind != wire.Array {
		return nil, wire.NewFailure(wire.BadField, "networks", "must be a list")
	}
	list := make([]netip.Prefix, len(v.Items))
	for i, item := range v.Items {
		p, err := broker.ParseNetwork(item.Text)
		if item.Kind != wire.String || err != nil {
			return nil, wire.NewFailure(wire.BadField, "networks", "must have networks such as 192.0.2.0/24 without bits after the prefix, or addresses")
		}
		list[i] = p
	}
	return func(ctx context.Context, users *local.Base, username string) error {
		_, err := users.EditRights(ctx, username, func(r *local.Rights) error {
			r.Networks = list
			if err := r.Check(); err != nil {
				return wire.NewFailure(wire.BadField, "networks", "cannot be set: "+err.Error())
			}
			return nil
		})
		return err
	}, nil
}

// readGroup returns a change that calls do with the name of the user and the group in v.
func readGroup(v wire.Value, do func(b *local.Base, ctx context.Context, username, group string) (bool, error)) (userChange, *wire.Failure) {
	if v.Kind != wire.String || strings.ContainsFunc(v.Text, unicode.IsControl) {
		return nil, wire.NewFailure(wire.BadField, "group", "must be the name of a group")
	}
	return func(ctx context.Context, users *local.Base, username string) error {
		_, err := do(users, ctx, username, v.Text)
		return err
	}, nil
}

// failure converts an error about a user to a fault. It logs an unexpected error and returns
// Unavailable.
func (u *userRoutes) failure(q *request, err error) error {
	failure := (*wire.Failure)(nil)
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, local.ErrNoGroup):
		return wire.NewFailure(wire.UnsupportedOption, "group", "does not exist")
	case errors.Is(err, broker.ErrNotFound):
		return unknownUser()
	}
	u.handler.log.LogAttrs(q.Context(), slog.LevelWarn, "user not read or changed",
		slog.String("request_id", q.ID), slog.String("user", q.segment), slog.Any("error", err))
	return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
}
