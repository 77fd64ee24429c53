package rest

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/wire"
)

// AdminConfig is what the handler of the administrator's listener is made of. Auth and Token are needed.
type AdminConfig struct {
	Auth    *auth.Service
	Token   auth.Secret             // that requests must bring
	Ready   func() error            // as of Config
	Sockets func(family string) int // as of Config
	Secure  bool                    // as of Config
	Logger  *slog.Logger            // nil: discarded
}

// NewAdmin makes the handler of the administrator's listener. Its routes are on no other, and no route of
// clients is on it.
func NewAdmin(cfg AdminConfig) (*Handler, error) {
	if cfg.Auth == nil || cfg.Token.Reveal() == "" {
		return nil, errors.New("rest: Auth and Token are needed")
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Sockets == nil {
		cfg.Sockets = func(string) int { return 0 }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{
		cfg: Config{Auth: cfg.Auth, Ready: cfg.Ready, Sockets: cfg.Sockets, Secure: cfg.Secure, Origins: []string{nobodysOrigin}},
		log: cfg.Logger, users: newQuotas(), addresses: newQuotas(),
	}
	h.operator = h.operatorBy(sha256.Sum256([]byte(cfg.Token.Reveal())))
	h.routes = byPath(h.adminRoutes())
	return h, nil
}

// nobodysOrigin is no origin that a browser sends: no page may call the administrator's listener.
const nobodysOrigin = "null:"

// adminRoutes are the routes of the administrator.
func (h *Handler) adminRoutes() []*route {
	return []*route{
		{method: http.MethodPost, path: "/oauth/introspect", needs: operator, serve: h.introspect, oauth: true},
		{method: http.MethodGet, path: "/admin/users/{id}/sessions", needs: operator, serve: h.sessionsOfUser},
		{method: http.MethodDelete, path: "/admin/users/{id}/sessions", needs: operator, serve: h.endUser},
		{method: http.MethodGet, path: "/livez", needs: anyone, serve: h.live, probe: true},
		{method: http.MethodGet, path: "/readyz", needs: anyone, serve: h.ready, probe: true},
	}
}

// failuresPerMinute bounds wrong tokens of an administrator, by address.
const failuresPerMinute = 30

// operatorBy lets in whoever brings the token with this hash. Hashes of the same length are compared in the
// same time whatever is in them, and so tell nothing of the token's length either.
func (h *Handler) operatorBy(want [sha256.Size]byte) func(*request) error {
	return func(q *request) error {
		token, err := q.bearer()
		if err != nil {
			return err
		}
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil
		}
		if err := q.spend("address", h.addresses.take(clientaddr.Client(q.address).String(), failuresPerMinute, time.Now())); err != nil {
			return err
		}
		return wire.NewFault(wire.InvalidToken, "This is not the administrator's token")
	}
}

// introspect is POST /oauth/introspect (RFC 7662). Whatever is wrong with a token, it is not active.
func (h *Handler) introspect(q *request) (result, error) {
	body, err := q.readBody(mediaForm, maxTokenBody)
	if err != nil {
		return result{}, err
	}
	token, f := wire.ReadTokenParameter(body)
	if f != nil {
		return result{}, f
	}
	state, err := h.cfg.Auth.Introspect(q.Context(), auth.NewSecret(token))
	if err != nil {
		return result{}, err
	}
	if !state.Active {
		return result{status: http.StatusOK, raw: []byte(wire.InactiveToken)}, nil
	}
	answer := wire.TokenState{
		Subject: state.Subject, Username: state.Username, Scope: state.Scope, ClientID: state.ClientID,
		TokenType: state.TokenType, Session: state.Session, Issued: state.Issued, Expires: state.Expires,
	}
	return result{status: http.StatusOK, raw: answer.Append(nil)}, nil
}

// sessionsOfUser is GET /admin/users/{id}/sessions.
func (h *Handler) sessionsOfUser(q *request) (result, error) {
	list, err := h.cfg.Auth.SessionsOf(q.Context(), q.segment)
	if err != nil {
		return result{}, noSuchUser(err)
	}
	return result{object: h.appendSessions(list)}, nil
}

// endUser is DELETE /admin/users/{id}/sessions: all logins of a user end, with their sockets.
func (h *Handler) endUser(q *request) (result, error) {
	ended, err := h.cfg.Auth.EndUser(q.Context(), q.segment, q.origin())
	if err != nil {
		return result{}, noSuchUser(err)
	}
	return result{object: wire.AppendEnded(nil, ended)}, nil
}

// noSuchUser says where ids are found, if that is what is wrong.
func noSuchUser(err error) error {
	if !auth.IsReason(err, auth.NotFound) {
		return err
	}
	return &wire.Fault{Reason: wire.NotFound, Msg: "No user has this id",
		Hint: "The id is in rueda user show NAME and in sub of /oauth/introspect"}
}

// openSegment replaces one segment of a path by {id}, from the last on, until known knows the pattern.
func openSegment(path string, known func(pattern string) bool) (pattern, segment string, ok bool) {
	if strings.Count(path, "/") > maxSegments {
		return "", "", false
	}
	for end := len(path); end > 0; {
		begin := strings.LastIndexByte(path[:end], '/')
		if segment = path[begin+1 : end]; segment != "" {
			if pattern = path[:begin+1] + "{id}" + path[end:]; known(pattern) {
				return pattern, segment, true
			}
		}
		end = begin
	}
	return "", "", false
}

// maxSegments bounds the segments of a path that may be one of a pattern.
const maxSegments = 6
