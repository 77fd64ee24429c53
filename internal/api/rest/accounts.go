package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// accountCursor marks the cursors of the list of accounts, so that no other list accepts them.
const accountCursor = 'a'

// accounts serves GET /broker/accounts?status=&limit=&cursor=.
func (h *Handler) accounts(q *request) (api.Result, error) {
	status := q.Params.Get("status")
	switch status {
	case "", "active", "restricted", "closed":
	default:
		return api.Result{}, wire.NewFailure(wire.BadField, "status", "must be active, restricted or closed")
	}
	pg, f := readPage(q.Params, accountCursor)
	if f != nil {
		return api.Result{}, f
	}
	list, err := h.listAccounts(q)
	if err != nil {
		return api.Result{}, err
	}
	if pg.after != "" {
		i := slices.IndexFunc(list, func(a broker.Account) bool { return a.ID == pg.after })
		if i < 0 {
			return api.Result{}, api.BadCursor()
		}
		list = list[i+1:]
	}
	b := append([]byte(nil), `{"accounts":[`...)
	rows, last := 0, ""
	more := false
	for i := range list {
		if status != "" && list[i].Status != status {
			continue
		}
		if rows == pg.limit {
			more = true
			break
		}
		if rows > 0 {
			b = append(b, ',')
		}
		b = appendAccount(b, list[i])
		rows, last = rows+1, list[i].ID
	}
	b = append(b, ']')
	if more {
		b = appendNext(b, accountCursor, last)
	}
	return api.Result{Object: append(b, '}')}, nil
}

// account serves GET /broker/accounts/{id}. The answer for another user's account is not_found.
func (h *Handler) account(q *request) (api.Result, error) {
	list, err := h.listAccounts(q)
	if err != nil {
		return api.Result{}, err
	}
	for i := range list {
		if list[i].ID == q.segment {
			return api.Result{Object: appendAccount(nil, list[i])}, nil
		}
	}
	return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "No such account"}
}

// listAccounts returns the accounts of the user, or none for an unknown user. Another failure is
// logged and returned as Unavailable.
func (h *Handler) listAccounts(q *request) ([]broker.Account, error) {
	list, err := h.cfg.Accounts.ListAccounts(q.Context(), q.User.ID)
	if err == nil || errors.Is(err, broker.ErrNotFound) {
		return list, nil
	}
	h.log.LogAttrs(q.Context(), slog.LevelWarn, "accounts not read",
		slog.String("request_id", q.ID), slog.String("user", q.User.ID), slog.Any("error", err))
	return nil, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
}

// appendAccount appends an account as JSON, with its time in UTC and whole seconds. It leaves out
// empty optional fields.
func appendAccount(b []byte, a broker.Account) []byte {
	a.CreatedAt = a.CreatedAt.UTC().Truncate(time.Second)
	return appendJSON(b, a)
}

// appendJSON appends value as JSON. Its callers pass only types that can be encoded.
func appendJSON(b []byte, value any) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
