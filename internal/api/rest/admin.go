package rest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/api/rest/operator"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/usage"
	"github.com/ruedahq/rueda/wire"
)

// AdminConfig configures the Handler of the listener for administrators. Auth is required, and so
// is one of Token and Operators.
type AdminConfig struct {
	Auth      *auth.Service
	Users     *local.Base             // the gateway's own user base; nil: another one
	Token     auth.Secret             // token that requests must send; its role is operate
	Operators func() []Operator       // returns the current operators; nil: only Token is accepted
	Ready     func() error            // see Config
	Sockets   func(family string) int // see Config
	Observe   func(Observation)       // see Config

	// Metrics returns the page for Prometheus and its media type. If nil, GET /metrics answers
	// not_found.
	Metrics func() (body []byte, media string)
	Secure  web.HTTPS    // see Config
	Logger  *slog.Logger // nil: no log

	// Record stores rows in the audit log before an operator changes LogLevel or closes a
	// connection. It is required if LogLevel or Stream is set.
	Record   func(ctx context.Context, events ...audit.Event) error
	LogLevel *slog.LevelVar // of Logger; nil: operators may not change it
	Stream   *socket.Server // whose connections operators may list and close; nil: none
	Reload   Reload         // nil: operators may not read the configuration again

	Feeds   func() []adminapi.Feed   // the feeds now; nil: none
	Cluster func() *adminapi.Cluster // the node of a cluster now; nil, or a nil answer: none
	Keys    operator.Keys            // nil: keys cannot be read or rotated
	Audit   operator.Audit           // nil: there is no audit log
	Pages   map[string]http.Handler  // see Config
	Hosts   []string                 // names of the listener, besides addresses and localhost
	// Usage returns the usage of a month such as 2026-11. If nil, the gateway stores no usage.
	Usage func(ctx context.Context, month string) ([]usage.Row, error)
}

// Reload reads the configuration again, as operator.Reload documents.
type Reload = operator.Reload

// adminScheme returns the scheme that the origins of pages must have: https, or "" for either
// scheme. Without a certificate, a proxy may serve the pages over HTTPS.
func adminScheme(https web.HTTPS) string {
	if https == web.NoHTTPS {
		return ""
	}
	return "https"
}

// NewAdmin returns the Handler of the listener for administrators. Of the routes for clients it has
// only those about health and reasons.
func NewAdmin(cfg AdminConfig) (*Handler, error) {
	if cfg.Auth == nil || cfg.Token.Reveal() == "" && cfg.Operators == nil {
		return nil, errors.New("rest: Auth, and Token or Operators are needed")
	}
	if (cfg.LogLevel != nil || cfg.Stream != nil) && cfg.Record == nil {
		return nil, errors.New("rest: LogLevel and Stream need Record")
	}
	if cfg.Operators == nil {
		only := []Operator{{Hash: sha256.Sum256([]byte(cfg.Token.Reveal())), Role: RoleOperate}}
		cfg.Operators = func() []Operator { return only }
	}
	h := newHandler(Config{
		Auth: cfg.Auth, Ready: cfg.Ready, Sockets: cfg.Sockets, Secure: cfg.Secure, Scheme: adminScheme(cfg.Secure), Logger: cfg.Logger, Observe: cfg.Observe,
		Hosts: append([]string{}, cfg.Hosts...),
	})
	h.operator = h.checkOperator(cfg.Operators)
	serve := h.adminRoutes()
	serve["GET /metrics"] = servePage(cfg.Metrics)
	maps.Copy(serve, (&userRoutes{h, cfg.Users}).routes())
	maps.Copy(serve, operatorRoutes(h, &cfg))
	maps.Copy(serve, (&connectionRoutes{h, cfg.Stream, cfg.Record}).routes())
	var err error
	if h.routes, err = bind(openapi.Admin(), serve); err != nil {
		return nil, err
	}
	h.documents = documents{"/admin/openapi.json": once(openapi.AdminDocument)}
	h.pages = newPages(cfg.Pages, h.notFound)
	return h, nil
}

// adminRoutes returns the functions of the routes for administrators that are in this package, by
// method and path.
func (h *Handler) adminRoutes() map[string]serveFunc {
	return map[string]serveFunc{
		"POST /oauth/introspect":            h.introspect,
		"GET /admin/users/{id}/sessions":    h.sessionsOfUser,
		"DELETE /admin/users/{id}/sessions": h.endUser,
		"DELETE /admin/sessions/{id}":       endAnySession(h.cfg.Auth),
		"GET /livez":                        h.live,
		"GET /readyz":                       h.ready,
		"GET /admin/openapi.json":           h.document,
		"GET /docs/reasons":                 h.reasons,
		"GET /docs/reasons/{id}":            h.reason,
	}
}

// operatorRoutes returns the functions of the routes of package operator, by method and path.
func operatorRoutes(h *Handler, cfg *AdminConfig) map[string]serveFunc {
	wrap := func(q *request) *operator.Request {
		return &operator.Request{
			Request: &q.Request, Segment: q.segment, Actor: q.actor, Name: q.operator.Name, Role: q.operator.Role.String(), Client: auth.Caller(q.origin()),
		}
	}
	noted := func(q *operator.Request, user, what string) {
		from := auth.Origin{Address: q.Address, Client: q.UserAgent()}
		h.cfg.Auth.RecordAdmin(q.Context(), audit.Event{Kind: audit.AdminRead, Actor: q.Actor, User: user, Detail: what}, from)
	}
	routes := operator.New(operator.Config{
		Users: cfg.Users, Feeds: cfg.Feeds, Cluster: cfg.Cluster, Keys: cfg.Keys, Audit: cfg.Audit, Usage: cfg.Usage,
		LogLevel: cfg.LogLevel, Record: cfg.Record, Reload: cfg.Reload, Noted: noted, Logger: h.log,
	})
	serve := map[string]serveFunc{}
	for name, f := range routes.Table() {
		serve[name] = func(q *request) (api.Result, error) { return f(wrap(q)) }
	}
	return serve
}

// servePage returns the function that serves GET /metrics. It answers not_found if page is nil.
func servePage(page func() (body []byte, media string)) serveFunc {
	return func(q *request) (api.Result, error) {
		if page == nil {
			return api.Result{}, &wire.Fault{Reason: wire.NotFound}
		}
		body, media := page()
		q.Out.Set("Content-Type", media)
		return api.Result{Status: http.StatusOK, Raw: body}, nil
	}
}

// failuresPerMinute limits how often one address may send a wrong operator's token.
const failuresPerMinute = 30

// Operator is a person or program that may use the listener for administrators.
type Operator struct {
	Name    string            // in the audit log; "": that of the only token
	Hash    [sha256.Size]byte // SHA-256 of the token
	Role    Role              // zero: nothing is allowed
	Expires time.Time         // zero: never
}

// Role says what an operator may do. Each role includes all lower roles.
type Role int

// Roles of operators, from the lowest to the highest.
const (
	RoleRead     Role = iota + 1 // introspect tokens, read sessions, feeds and keys, and list connections
	RoleOperate                  // end sessions, close connections, rotate keys, read audit log and usage, set the log level, reload
	RoleIdentity                 // read users and groups, and change them
)

// String returns the name of the role: read, operate or identity, or "none" for any other value.
func (r Role) String() string {
	switch r {
	case RoleRead:
		return "read"
	case RoleOperate:
		return "operate"
	case RoleIdentity:
		return "identity"
	}
	return "none"
}

// ParseRole returns the role with a name, and an error for an unknown name.
func ParseRole(name string) (Role, error) {
	for r := RoleRead; r <= RoleIdentity; r++ {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is none of read, operate and identity", name)
}

// checkOperator returns a function that accepts a request only with an operator's token and a
// sufficient role. It compares hashes in constant time, so that the time reveals nothing about a
// token.
func (h *Handler) checkOperator(operators func() []Operator) func(*request) error {
	return func(q *request) error {
		if err := q.readToken(); err != nil {
			return err
		}
		// Charge the attempt before the comparison, so that simultaneous attempts cannot exceed the
		// limit together.
		key, now := "administrator "+clientaddr.Client(q.Address).String(), time.Now()
		quota := h.addresses.take(key, failuresPerMinute, now)
		if quota.Wait > 0 {
			return q.spend("address", quota)
		}
		got := sha256.Sum256([]byte(q.Token))
		var found *Operator
		for _, o := range operators() {
			if subtle.ConstantTimeCompare(got[:], o.Hash[:]) == 1 && (o.Expires.IsZero() || now.Before(o.Expires)) {
				found = &o
			}
		}
		if found == nil {
			_ = q.spend("address", quota) // only its headers: this attempt was within the limit
			h.cfg.Auth.RecordAdmin(q.Context(), audit.Event{Kind: audit.AdminRefused, Actor: "client", Detail: "wrong token"}, q.origin())
			return wire.NewFault(wire.InvalidToken, "This is not the administrator's token")
		}
		h.addresses.refund(key, failuresPerMinute)
		q.operator, q.actor = *found, actor(found.Name, certificateName(q.Conn))
		if found.Role < q.route.role {
			detail := "needs the role " + q.route.role.String()
			h.cfg.Auth.RecordAdmin(q.Context(), audit.Event{Kind: audit.AdminRefused, Actor: q.actor, Detail: detail}, q.origin())
			return &wire.Fault{Reason: wire.Forbidden, Msg: "The operator's role does not allow this",
				Hint: "It " + detail + " in the operator's line of token_file"}
		}
		return nil
	}
}

// actor returns the text for the actor of an audit row. names are the names of the operator and of
// the client certificate; empty names are left out.
func actor(names ...string) string {
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	if len(names) == 0 {
		return "administrator"
	}
	return "administrator (" + strings.Join(names, ", ") + ")"
}

// maxCertificateName bounds how many bytes of a certificate's common name the audit log contains.
const maxCertificateName = 64

// certificateName returns the common name of a connection's client certificate, or "" without a
// certificate. It quotes and shortens a name that is too long or not printable ASCII.
func certificateName(c net.Conn) string {
	type tlsConn interface{ ConnectionState() tls.ConnectionState }
	secure, ok := c.(tlsConn)
	for !ok {
		wrapper, wraps := c.(interface{ NetConn() net.Conn })
		if !wraps {
			return ""
		}
		c = wrapper.NetConn()
		secure, ok = c.(tlsConn)
	}
	certificates := secure.ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return ""
	}
	name := certificates[0].Subject.CommonName
	if len(name) > maxCertificateName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return strconv.QuoteToASCII(name[:min(len(name), maxCertificateName)])
	}
	return name
}

// recordRead records in the audit log that an operator has read something. what describes it, and
// user is the id of the user that it is about, or "". Repetitions within a minute are left out.
func (h *Handler) recordRead(q *request, user, what string) {
	h.cfg.Auth.RecordAdmin(q.Context(), audit.Event{Kind: audit.AdminRead, Actor: q.actor, User: user, Detail: what}, q.origin())
}

// introspect serves POST /oauth/introspect (RFC 7662). The answer for an invalid token has active:
// false.
func (h *Handler) introspect(q *request) (api.Result, error) {
	asked, err := readBody(q, api.MediaForm, maxTokenBody, wire.ReadIntrospection)
	if err != nil {
		return api.Result{}, err
	}
	state, err := h.cfg.Auth.Introspect(q.Context(), auth.NewSecret(asked.Token))
	if err != nil {
		return api.Result{}, err
	}
	h.recordRead(q, "", "introspection")
	// A resource server may read only the member active. It must not take a refresh token for an
	// access token.
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
	h.recordRead(q, q.segment, "sessions")
	return api.Result{Object: h.appendSessions(list)}, nil
}

// endUser serves DELETE /admin/users/{id}/sessions: it ends all logins of a user and their sockets.
func (h *Handler) endUser(q *request) (api.Result, error) {
	from := q.origin()
	from.Actor = q.actor
	ended, err := h.cfg.Auth.EndUser(q.Context(), q.segment, from)
	if err != nil {
		return api.Result{}, noSuchUser(err)
	}
	return api.Result{Object: wire.AppendEnded(nil, ended)}, nil
}

// endAnySession serves DELETE /admin/sessions/{sid}: it ends one login of any user and its sockets.
func endAnySession(service *auth.Service) serveFunc {
	return func(q *request) (api.Result, error) {
		from := q.origin()
		from.Actor = q.actor
		err := service.EndAnySession(q.Context(), q.segment, from)
		if auth.IsReason(err, auth.NotFound) {
			err = &wire.Fault{Reason: wire.NotFound, Msg: "No login has this id, or it has ended",
				Hint: "GET /admin/users/{id}/sessions has the id in sid, GET /admin/connections in login"}
		}
		if err != nil {
			return api.Result{}, err
		}
		return api.Result{Object: wire.AppendEnded(nil, 1)}, nil
	}
}

// noSuchUser returns err, or a fault with a hint if err says that the user does not exist.
func noSuchUser(err error) error {
	if !auth.IsReason(err, auth.NotFound) {
		return err
	}
	return unknownUser()
}

func unknownUser() *wire.Fault {
	return &wire.Fault{Reason: wire.NotFound, Msg: "No user has this id",
		Hint: "The id is in rueda user show NAME and in sub of /oauth/introspect"}
}
