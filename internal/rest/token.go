package rest

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/wire"
)

// revokesPerMinute bounds POST /auth/revoke by address, since it asks the store
// about tokens of anybody. The other grants are bounded within auth, where it is
// known which attempt was a failure.
const revokesPerMinute = 120

// token is POST /auth/token.
func (h *Handler) token(q *request) (result, error) {
	body, err := q.readBody(maxTokenBody)
	if err != nil {
		return result{}, err
	}
	grant, f := wire.ReadTokenRequest(body)
	if f != nil {
		return result{}, f
	}
	from := auth.Origin{Address: q.address, Client: q.UserAgent()}
	var tokens auth.Tokens
	if grant.Grant == wire.GrantPassword {
		tokens, err = h.cfg.Auth.Password(q.Context(), grant.Username, grant.Password, from)
	} else {
		tokens, err = h.cfg.Auth.Refresh(q.Context(), auth.NewSecret(grant.RefreshToken), from)
	}
	if err != nil {
		return result{}, err
	}
	data := wire.TokenAnswer{
		Access:           tokens.Access.Reveal(),
		ExpiresIn:        int64(tokens.ExpiresIn / time.Second),
		Refresh:          tokens.Refresh.Reveal(),
		RefreshExpiresIn: int64(tokens.RefreshExpiresIn / time.Second),
		Scope:            tokens.Scope,
	}
	return result{object: data.Append(nil)}, nil
}

// revoke is POST /auth/revoke. It does not tell whether there was such a token.
func (h *Handler) revoke(q *request) (result, error) {
	if spent := h.addresses.take(q.address.String(), revokesPerMinute, time.Now()); spent.wait > 0 {
		return result{}, &wire.Fault{Reason: wire.RateLimited, RetryAfter: seconds(spent.wait)}
	}
	body, err := q.readBody(maxBody)
	if err != nil {
		return result{}, err
	}
	token, f := wire.ReadRevokeRequest(body)
	if f != nil {
		return result{}, f
	}
	if err := h.cfg.Auth.Revoke(q.Context(), auth.NewSecret(token), auth.Origin{Address: q.address, Client: q.UserAgent()}); err != nil {
		return result{}, err
	}
	return result{object: []byte("{}")}, nil
}

// readBody reads the whole body of up to limit bytes.
func (q *request) readBody(limit int64) ([]byte, error) {
	if f := checkBodyType(q.Header); f != nil {
		return nil, f
	}
	if q.ContentLength > limit {
		return nil, &wire.Fault{Reason: wire.BodyTooBig}
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, &wire.Fault{Reason: wire.BodyTooBig}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &wire.Fault{Reason: wire.Timeout}
	case err != nil:
		q.out.Set("Connection", "close")
		return nil, wire.NewFault(wire.InvalidRequest, "Body not understood")
	}
	return body, nil
}
