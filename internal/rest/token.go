package rest

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// token is POST /auth/token.
func (h *Handler) token(q *request) (result, error) {
	body, err := q.readBody(mediaJSON, maxTokenBody)
	if err != nil {
		return result{}, err
	}
	request, f := wire.ReadTokenRequest(body)
	if f != nil {
		return result{}, f
	}
	data, err := h.grant(q, &request)
	if err != nil {
		return result{}, err
	}
	return result{object: data.Append(nil)}, nil
}

// grant asks for tokens.
func (h *Handler) grant(q *request, r *wire.TokenRequest) (wire.TokenResponse, error) {
	var tokens auth.Tokens
	var err error
	if r.Grant == wire.GrantPassword {
		tokens, err = h.cfg.Auth.Password(q.Context(), r.Username, r.Password, r.OTP, q.origin())
	} else {
		tokens, err = h.cfg.Auth.Refresh(q.Context(), auth.NewSecret(r.RefreshToken), q.origin())
	}
	var left web.Quota
	left.Limit, left.Remaining, left.Reset, left.Window = h.cfg.Auth.Limit(q.origin())
	left.SetHeader(q.out, "address")
	if err != nil {
		return wire.TokenResponse{}, err
	}
	return wire.TokenResponse{
		Access:           tokens.Access.Reveal(),
		ExpiresIn:        int64(tokens.ExpiresIn / time.Second),
		Refresh:          tokens.Refresh.Reveal(),
		RefreshExpiresIn: int64(tokens.RefreshExpiresIn / time.Second),
		Scope:            tokens.Scope,
	}, nil
}

// origin is where a request comes from.
func (q *request) origin() auth.Origin { return auth.Origin{Address: q.address, Client: q.UserAgent()} }

// revoke is POST /auth/revoke. It does not tell whether there was such a token.
func (h *Handler) revoke(q *request) (result, error) {
	body, err := q.readBody(mediaJSON, maxBody)
	if err != nil {
		return result{}, err
	}
	token, f := wire.ReadRevokeRequest(body)
	if f != nil {
		return result{}, f
	}
	if err := h.cfg.Auth.Revoke(q.Context(), auth.NewSecret(token), q.origin()); err != nil {
		return result{}, err
	}
	return result{object: []byte("{}")}, nil
}

// readBody reads the whole body, of this media type and of up to limit bytes.
func (q *request) readBody(media string, limit int64) ([]byte, error) {
	if f := checkBodyType(q.Header, media); f != nil {
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
