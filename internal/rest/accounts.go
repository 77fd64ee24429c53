package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

// accountCursor marks the cursors of the list of accounts.
const accountCursor = 'a'

// accounts is GET /broker/accounts?status=&limit=&cursor=.
func (h *Handler) accounts(q *request) (result, error) {
	status := q.params.get("status")
	switch status {
	case "", "active", "restricted", "closed":
	default:
		return result{}, wire.NewFailure(wire.BadField, "status", "must be active, restricted or closed")
	}
	pg, f := q.params.page(accountCursor)
	if f != nil {
		return result{}, f
	}
	list, err := h.listAccounts(q)
	if err != nil {
		return result{}, err
	}
	if pg.after != "" {
		i := slices.IndexFunc(list, func(a broker.Account) bool { return a.ID == pg.after })
		if i < 0 {
			return result{}, badCursor()
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
	return result{object: append(b, '}')}, nil
}

// account is GET /broker/accounts/{id}. That of another user is not found, as
// if it did not exist.
func (h *Handler) account(q *request) (result, error) {
	list, err := h.listAccounts(q)
	if err != nil {
		return result{}, err
	}
	for i := range list {
		if list[i].ID == q.segment {
			return result{object: appendAccount(nil, list[i])}, nil
		}
	}
	return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "No such account"}
}

// listAccounts reads the accounts of the token's own user.
func (h *Handler) listAccounts(q *request) ([]broker.Account, error) {
	list, err := h.cfg.Accounts.ListAccounts(q.Context(), q.user.ID)
	if err == nil || errors.Is(err, broker.ErrNotFound) {
		return list, nil
	}
	h.log.LogAttrs(q.Context(), slog.LevelWarn, "accounts not read",
		slog.String(keyRequest, q.id), slog.String(keyUser, q.user.ID), slog.Any(keyError, err))
	return nil, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
}

// appendAccount appends an account, without fields that the user base does not know.
func appendAccount(b []byte, a broker.Account) []byte {
	a.CreatedAt = a.CreatedAt.UTC().Truncate(time.Second)
	return appendJSON(b, a)
}

// appendJSON appends a value whose strings and fields can be encoded.
func appendJSON(b []byte, value any) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
