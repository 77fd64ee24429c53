package rest

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// AdminConfig configures the handler of the administrator's listener. Auth and Token are required.
type AdminConfig struct {
	Auth    *auth.Service
	Token   auth.Secret             // that requests must send
	Ready   func() error            // see Config
	Sockets func(family string) int // see Config
	Secure  bool                    // see Config
	Logger  *slog.Logger            // nil discards
}

// NewAdmin returns the handler of the administrator's listener. It shares only the health routes
// with the handler of clients.
func NewAdmin(cfg AdminConfig) (*Handler, error) {
	if cfg.Auth == nil || cfg.Token.Reveal() == "" {
		return nil, errors.New("rest: Auth and Token are needed")
	}
	h := newHandler(Config{
		Auth: cfg.Auth, Ready: cfg.Ready, Sockets: cfg.Sockets, Secure: cfg.Secure, Logger: cfg.Logger,
		Origins: []string{noOrigin},
	})
	h.operator = h.checkOperator(sha256.Sum256([]byte(cfg.Token.Reveal())))
	h.routes = byPath(h.adminRoutes())
	return h, nil
}

// noOrigin is an origin that no browser sends: no page may call the administrator's listener.
const noOrigin = "null:"

// adminRoutes returns the routes of the administrator.
func (h *Handler) adminRoutes() []*route {
	return []*route{
		{method: http.MethodPost, path: "/oauth/introspect", needs: operator, serve: h.introspect, oauth: true},
		{method: http.MethodGet, path: "/admin/users/{id}/sessions", needs: operator, serve: h.sessionsOfUser},
		{method: http.MethodDelete, path: "/admin/users/{id}/sessions", needs: operator, serve: h.endUser},
		{method: http.MethodGet, path: "/livez", needs: anyone, serve: h.live, probe: true},
		{method: http.MethodGet, path: "/readyz", needs: anyone, serve: h.ready, probe: true},
	}
}

// failuresPerMinute limits wrong tokens of an administrator, by address.
const failuresPerMinute = 30

// checkOperator returns a function that accepts only the token with this hash. Comparing hashes
// takes the same time for all tokens, and does not reveal the token's length.
func (h *Handler) checkOperator(want [sha256.Size]byte) func(*request) error {
	return func(q *request) error {
		if err := q.readToken(); err != nil {
			return err
		}
		// The attempt is charged before the comparison, so that attempts at once do not exceed the
		// limit together.
		key, now := "administrator "+clientaddr.Client(q.Address).String(), time.Now()
		quota := h.addresses.take(key, failuresPerMinute, now)
		if quota.Wait > 0 {
			return q.spend("address", quota)
		}
		got := sha256.Sum256([]byte(q.Token))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			h.addresses.refund(key, failuresPerMinute)
			return nil
		}
		_ = q.spend("address", quota) // only its headers: this attempt was within the limit
		h.cfg.Auth.AdminRefused(q.Context(), q.origin())
		return wire.NewFault(wire.InvalidToken, "This is not the administrator's token")
	}
}

// introspect serves POST /oauth/introspect (RFC 7662). An invalid token is not active.
func (h *Handler) introspect(q *request) (api.Result, error) {
	asked, err := readBody(q, api.MediaForm, maxTokenBody, wire.ReadIntrospection)
	if err != nil {
		return api.Result{}, err
	}
	state, err := h.cfg.Auth.Introspect(q.Context(), auth.NewSecret(asked.Token))
	if err != nil {
		return api.Result{}, err
	}
	// A resource server that reads only active must not take a refresh token for an access token.
	if !state.Active || state.TokenType == auth.TypeRefresh && asked.Hint != auth.TypeRefresh {
		return api.Result{Status: http.StatusOK, Raw: []byte(wire.InactiveToken)}, nil
	}
	answer := wire.TokenState{
		Subject: state.Subject, Username: state.Username, Scope: state.Scope, ClientID: state.ClientID,
		TokenUse: state.TokenType, Session: state.Session, Issued: state.Issued, Expires: state.Expires,
	}
	if state.TokenType == auth.TypeAccess {
		answer.TokenType, answer.Issuer, answer.Audience = "Bearer", state.Issuer, state.Audience
	}
	return api.Result{Status: http.StatusOK, Raw: answer.Append(nil)}, nil
}

// sessionsOfUser serves GET /admin/users/{id}/sessions.
func (h *Handler) sessionsOfUser(q *request) (api.Result, error) {
	list, err := h.cfg.Auth.SessionsOf(q.Context(), q.segment)
	if err != nil {
		return api.Result{}, noSuchUser(err)
	}
	return api.Result{Object: h.appendSessions(list)}, nil
}

// endUser serves DELETE /admin/users/{id}/sessions: it ends all logins of a user and their sockets.
func (h *Handler) endUser(q *request) (api.Result, error) {
	ended, err := h.cfg.Auth.EndUser(q.Context(), q.segment, q.origin())
	if err != nil {
		return api.Result{}, noSuchUser(err)
	}
	return api.Result{Object: wire.AppendEnded(nil, ended)}, nil
}

// noSuchUser adds a hint to the error of an unknown user.
func noSuchUser(err error) error {
	if !auth.IsReason(err, auth.NotFound) {
		return err
	}
	return &wire.Fault{Reason: wire.NotFound, Msg: "No user has this id",
		Hint: "The id is in rueda user show NAME and in sub of /oauth/introspect"}
}
