package rest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// token serves POST /auth/token.
func (h *Handler) token(q *request) (api.Result, error) {
	data, err := h.grant(q, api.MediaJSON, wire.ReadTokenRequest)
	if err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: data.Append(nil)}, nil
}

// oauthToken serves POST /oauth/token, which offers the grants of /auth/token to RFC 6749
// libraries. It ignores client_id, client_secret and Basic credentials, because clients have no
// identity of their own.
func (h *Handler) oauthToken(q *request) (api.Result, error) {
	data, err := h.grant(q, api.MediaForm, wire.ReadTokenForm)
	if err != nil {
		return api.Result{}, err
	}
	q.Out.Set("Pragma", "no-cache") // RFC 6749, section 5.1
	return api.Result{Status: http.StatusOK, Raw: append(data.Append(nil), '\n')}, nil
}

// revoke serves POST /auth/revoke. The answer does not reveal whether the token existed.
func (h *Handler) revoke(q *request) (api.Result, error) {
	if err := h.revokeToken(q, api.MediaJSON, maxBody, wire.ReadRevokeRequest); err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: []byte("{}")}, nil
}

// oauthRevoke serves POST /oauth/revoke (RFC 7009). The answer is an empty JSON object, because
// some clients require JSON.
func (h *Handler) oauthRevoke(q *request) (api.Result, error) {
	if err := h.revokeToken(q, api.MediaForm, maxTokenBody, wire.ReadTokenParameter); err != nil {
		return api.Result{}, err
	}
	return api.Result{Status: http.StatusOK, Raw: []byte("{}\n")}, nil
}

// grant reads a request for tokens, with a password or a refresh token, and returns the new tokens.
// parse reads a body of the type media.
func (h *Handler) grant(q *request, media string, parse func([]byte) (wire.TokenRequest, *wire.Failure)) (wire.TokenResponse, error) {
	r, err := readBody(q, media, maxTokenBody, parse)
	if err != nil {
		return wire.TokenResponse{}, err
	}
	q.grant = r.Grant
	var tokens auth.Tokens
	if r.Grant == wire.GrantPassword {
		tokens, err = h.cfg.Auth.Password(q.Context(), r.Username, r.Password, r.OTP, q.origin())
	} else {
		tokens, err = h.cfg.Auth.Refresh(q.Context(), auth.NewSecret(r.RefreshToken), q.origin())
	}
	var left web.Quota
	left.Limit, left.Remaining, left.Reset, left.Window = h.cfg.Auth.Limit(q.origin())
	left.SetHeader(q.Out, "address")
	if err != nil {
		return wire.TokenResponse{}, err
	}
	return tokenResponse(&tokens), nil
}

func tokenResponse(t *auth.Tokens) wire.TokenResponse {
	return wire.TokenResponse{
		Access:           t.Access.Reveal(),
		ExpiresIn:        int64(t.ExpiresIn / time.Second),
		Refresh:          t.Refresh.Reveal(),
		RefreshExpiresIn: int64(t.RefreshExpiresIn / time.Second),
		Scope:            t.Scope,
	}
}

// origin returns the address and the User-Agent of the client, as package auth expects them.
func (q *request) origin() auth.Origin { return auth.Origin{Address: q.Address, Client: q.UserAgent()} }

// revokeToken reads a token with parse from a body of up to limit bytes, and revokes it. It first
// charges the request to the token's login, or to the client's address for an unknown token.
func (h *Handler) revokeToken(q *request, media string, limit int64, parse func([]byte) (string, *wire.Failure)) error {
	token, err := readBody(q, media, limit, parse)
	if refused := h.spendLimit(q, h.cfg.Auth.LimitKey(auth.NewSecret(token), q.origin())); refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	return h.cfg.Auth.Revoke(q.Context(), auth.NewSecret(token), q.origin())
}

// readBody reads a body of the given media type and of up to limit bytes, and returns what parse
// makes of it.
func readBody[T any](q *request, media string, limit int64, parse func([]byte) (T, *wire.Failure)) (parsed T, err error) {
	body, err := q.ReadBody(media, limit)
	if err != nil {
		return parsed, err
	}
	parsed, f := parse(body)
	if f != nil {
		return parsed, f
	}
	return parsed, nil
}

// sessions serves GET /auth/sessions, the list of the user's logins.
func (h *Handler) sessions(q *request) (api.Result, error) {
	list, err := h.cfg.Auth.Sessions(q.Context(), q.identity)
	if err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: h.appendSessions(list)}, nil
}

// endLogins serves POST /auth/sessions, which ends logins of a user. The body contains the
// password.
func (h *Handler) endLogins(q *request) (api.Result, error) {
	r, err := readBody(q, api.MediaJSON, maxTokenBody, wire.ReadSessionsRequest)
	if err != nil {
		return api.Result{}, err
	}
	ended, err := auth.EndLogins(q.Context(), h.cfg.Auth, login(r.Credentials), r.Session, r.Keep, q.origin())
	if err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: wire.AppendEnded(nil, ended)}, nil
}

// endSession serves DELETE /auth/sessions/{id}, which ends the login of the token. The answer is
// forbidden for another login of the same user, and not_found for any other id.
func (h *Handler) endSession(q *request) (api.Result, error) {
	if err := h.cfg.Auth.EndSession(q.Context(), q.identity, q.segment, q.origin()); err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: []byte("{}")}, nil
}

// endSessions serves DELETE /auth/sessions. It ends the login of the token, or nothing with
// keep=current. The answer is forbidden if the user has other logins.
func (h *Handler) endSessions(q *request) (api.Result, error) {
	keep := q.Params.Get("keep")
	if keep != "" && keep != "current" {
		return api.Result{}, wire.NewFailure(wire.BadField, "keep", "must be current, or left out")
	}
	ended, err := h.cfg.Auth.EndSessions(q.Context(), q.identity, keep != "", q.origin())
	if err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: wire.AppendEnded(nil, ended)}, nil
}

func (h *Handler) appendSessions(list []auth.Session) []byte {
	rows := make([]wire.Session, len(list))
	for i, s := range list {
		rows[i] = wire.Session{
			ID: s.ID, Created: s.Created, Used: s.Used, Address: s.Address, Client: s.Client,
			Connections: h.cfg.Sockets(s.ID), Current: s.Current,
		}
	}
	return wire.AppendSessions(nil, rows)
}

// failedGrant returns the answer for a failure in the form of RFC 6749. code is the status that the
// failure has elsewhere.
func (q *request) failedGrant(code int, f *wire.Failure) answer {
	word, code := f.Reason.GrantError(code)
	if code != http.StatusUnauthorized {
		q.Out.Del("WWW-Authenticate")
	}
	q.Out.Set("Pragma", "no-cache")
	return answer{status: code, reason: f.Reason, body: wire.AppendGrantError(nil, word, &f.Fault, q.ID)}
}

// jwks serves GET /.well-known/jwks.json, an RFC 7517 key set. The answer has no envelope.
func (h *Handler) jwks(q *request) (api.Result, error) {
	body, etag := h.cfg.Auth.JWKS()
	q.Out.Set("Cache-Control", "public, max-age=300")
	return q.Tagged(etag, api.Result{Status: http.StatusOK, Raw: body}), nil
}

// metadata serves GET /.well-known/oauth-authorization-server (RFC 8414). Its URLs and the issuer
// are the public URL from the configuration. A URL from the Host header would be unsafe: clients
// can send any Host, and caches would store the answer. Clients compare the issuer with the URL of
// the metadata (section 3.3).
func (h *Handler) metadata(q *request) (api.Result, error) {
	url := ""
	if h.cfg.PublicURL != nil {
		url = h.cfg.PublicURL()
	}
	if url == "" {
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The gateway does not know its public URL"}
	}
	m := wire.Metadata{URL: url, Scopes: []string{
		broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin,
	}}
	body := m.Append(nil)
	q.Out.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(metadataAge/time.Second)))
	return q.Tagged(api.EntityTag(body), api.Result{Status: http.StatusOK, Raw: body}), nil
}

// metadataAge is how long caches may keep the metadata. It is short because the configuration may
// change.
const metadataAge = time.Hour
