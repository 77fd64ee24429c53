package rest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/api/rest/console"
	"github.com/ruedahq/rueda/internal/api/rest/history"
	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// Config configures a Handler. Auth, Accounts and Hub are required; the other fields have defaults.
type Config struct {
	Auth     *auth.Service
	Accounts broker.Accounts
	Hub      *hub.Hub

	// Stream serves the WebSocket upgrade at /stream, and writes all answers and log records
	// itself. Its ResponseWriter is an http.Hijacker that returns the connection as the listener of
	// the Server accepted it. If nil, the route answers not_found.
	Stream http.Handler

	// Journal contains the rows of history. If nil, the routes of history answer not_found.
	Journal *journal.Journal

	// Connect opens a session of the stream for a client. If nil, GET /market/stream answers
	// not_found.
	Connect func(client netip.Addr) (*socket.LocalConn, error)

	// HistoryReaders bounds how many history requests read at a time. 0 means one fewer than there
	// are cores, but at least one. HistoryPerUser bounds the history requests of one user,
	// including those that wait. 0 means 4.
	HistoryReaders int
	HistoryPerUser int

	// Ready returns nil, or the reason why the gateway should get no new clients now. GET /readyz
	// publishes the reason. Ready must not block. If nil, the gateway is always ready.
	Ready func() error

	// Serves returns nil, or the reason why the gateway refuses all requests now except those about
	// its health. It must not block. If nil, the gateway refuses none.
	Serves func() error

	// Origins lists the origins whose web pages may read answers, such as https://app.example.com.
	// "*" allows every page. If it is empty, only pages from the host of the request may read them.
	Origins []string

	// Hosts lists the names that the Host header of a page's request may contain, besides addresses
	// and localhost. It applies only without Origins. nil allows any name.
	Hosts []string

	// Proxies are trusted to report the client's address. Without any, it is the address of the
	// peer.
	Proxies proxy.Trusted

	// PublicURL returns the URL at which clients reach the gateway, such as
	// https://api.example.com, for the metadata of the token endpoint. If it is nil or returns "",
	// there is no metadata.
	PublicURL func() string

	// Secure says whether clients connect over HTTPS. If so, answers have
	// Strict-Transport-Security.
	Secure web.HTTPS

	// Scheme is the scheme of the gateway's own pages, https or http, or "" for either.
	Scheme string

	// Pages maps paths to the handlers of web pages. They serve GET and HEAD requests that match no
	// route. A path that ends in a slash also covers all paths below it, except for "/". If a
	// handler answers 404 without a body, the client gets the error of an unknown path. If nil,
	// there are no pages.
	Pages map[string]http.Handler

	// Console is the answer to GET /console/config. If nil, the routes of the console answer
	// not_found.
	Console *console.Page

	// Sockets returns how many connections to the stream a token family has open. If nil, answers
	// contain 0.
	Sockets func(family string) int

	// Used records market data that an answer contains. Denied records a refusal because of a
	// missing right. They must not block. A nil function records nothing.
	Used   func(user, market, level string, delay int)
	Denied func(user, market, level, reason string)

	// Counted stores which instruments users with limited rights have requested. If nil, this is
	// kept in memory until a restart.
	Counted entitlement.DailyStore

	// Observe is called with each answer, for metrics. It must not block. It may be nil.
	Observe func(Observation)

	// RequestsPerMinute limits the requests of each user whose user base sets no other limit. 0
	// means 600.
	RequestsPerMinute int

	Logger *slog.Logger // nil: no log
}

// Handler answers the REST requests of one listener: that of clients or that of administrators.
type Handler struct {
	cfg         Config
	log         *slog.Logger
	routes      map[string][]*route // by path
	zones       zones
	users       quotas
	addresses   quotas
	operator    func(*request) error // checks the administrator's token; nil: no administrator
	history     *history.Routes
	self        *auth.SelfService
	compressors api.Compressors
	panics      atomic.Uint64
	perMinute   atomic.Int64 // limit for the requests of a user
	anonymous   *anonymousLog
	quota       *entitlement.Daily
	documents   documents
	pages       pages
}

// New returns a Handler for clients. The error says what is wrong in cfg.
func New(cfg Config) (*Handler, error) {
	if cfg.Auth == nil || cfg.Accounts == nil || cfg.Hub == nil {
		return nil, errors.New("rest: Auth, Accounts and Hub are needed")
	}
	if cfg.RequestsPerMinute < 0 || cfg.HistoryReaders < 0 || cfg.HistoryPerUser < 0 {
		return nil, errors.New("rest: RequestsPerMinute, HistoryReaders and HistoryPerUser must not be negative")
	}
	for _, o := range cfg.Origins {
		if _, ok := web.ParseOrigin(o); !ok && o != "*" {
			return nil, fmt.Errorf("rest: origin %q is not like https://app.example.com", o)
		}
	}
	// The stream has priority over history: leave one processor to it.
	cfg.HistoryReaders = cmp.Or(cfg.HistoryReaders, max(1, runtime.NumCPU()-1))
	cfg.HistoryPerUser = cmp.Or(cfg.HistoryPerUser, defaultHistory)
	h := newHandler(cfg)
	h.perMinute.Store(int64(cmp.Or(cfg.RequestsPerMinute, defaultRequests)))
	h.history = history.New(history.Config{
		Hub: cfg.Hub, Journal: cfg.Journal, Readers: cfg.HistoryReaders, PerUser: cfg.HistoryPerUser,
		Compressors: &h.compressors, Logger: h.log,
	})
	h.self = auth.NewSelfService(cfg.Auth)
	var err error
	serve := h.publicRoutes()
	maps.Copy(serve, consoleRoutes(h))
	if h.routes, err = bind(openapi.Public(), serve); err != nil {
		return nil, err
	}
	h.pages = newPages(cfg.Pages, h.notFound)
	h.documents = documents{"/openapi.json": once(openapi.PublicDocument), "/asyncapi.json": once(streamDocument)}
	return h, nil
}

const (
	defaultRequests = 600 // of a user in a minute
	defaultHistory  = 4   // history requests of a user at a time
)

// SetLimits replaces Config.RequestsPerMinute and Config.HistoryPerUser of a Handler for later
// requests. A zero limit stands for its default. Any goroutine may call SetLimits.
func SetLimits(h *Handler, requestsPerMinute, historyPerUser int) {
	h.perMinute.Store(int64(cmp.Or(requestsPerMinute, defaultRequests)))
	h.history.SetPerUser(cmp.Or(historyPerUser, defaultHistory))
}

// newHandler returns a Handler that has no routes yet. It replaces nil functions in cfg with ones
// that do nothing.
func newHandler(cfg Config) *Handler {
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Used == nil {
		cfg.Used = func(string, string, string, int) {}
	}
	if cfg.Denied == nil {
		cfg.Denied = func(string, string, string, string) {}
	}
	if cfg.Sockets == nil {
		cfg.Sockets = func(string) int { return 0 }
	}
	return &Handler{
		cfg: cfg, log: cfg.Logger, users: newQuotas(), addresses: newQuotas(), anonymous: newAnonymousLog(),
		quota: entitlement.NewDaily(cfg.Counted),
	}
}

// Observation describes an answer, for metrics.
type Observation struct {
	Route  string        // "none": there is no such route
	Grant  string        // password or refresh_token; "": not a request for tokens
	Status int           // HTTP status
	Reason string        // of an error; "": none
	Time   time.Duration // from the request to the end of the answer; 0: a stream
}

// observe passes an Observation of the answer to Config.Observe, if that is set.
func (h *Handler) observe(q *request, a *answer, took time.Duration) {
	if h.cfg.Observe == nil {
		return
	}
	o := Observation{Route: "none", Grant: q.grant, Status: a.status, Reason: string(a.reason)}
	if q.route != nil {
		o.Route = q.route.Path
	}
	if a.stream == nil {
		o.Time = took
	}
	h.cfg.Observe(o)
}

// Panics returns how many requests have ended with a panic.
func (h *Handler) Panics() uint64 { return h.panics.Load() }

// request is a request together with the results of its checks.
type request struct {
	api.Request
	route    *route
	segment  string        // the segment of the path that the route leaves open
	identity auth.Identity // of the token
	presents bool          // a Bearer token was given
	operator Operator      // of an administrator's request
	actor    string        // name of the operator in the audit log
	grant    string        // of a request for tokens
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := &request{Request: api.Request{
		Request: r, ID: web.RequestID(r.Header["X-Request-Id"]...), Out: w.Header(), Conn: connOf(r), Denied: h.cfg.Denied, Quota: h.quota,
		Address: h.cfg.Proxies.Client(web.Peer(r), r.Header["Forwarded"], r.Header["X-Forwarded-For"]),
	}}
	unsound := checkFraming(q)
	if unsound == nil {
		unsound = refusesAll(h.cfg.Serves, r)
	}
	if unsound == nil && r.URL.Path == openapi.StreamPath && h.cfg.Stream != nil {
		h.upgrade(w, q)
		return
	}
	a := h.answer(q, unsound)
	defer h.abort(q, &a)
	if a.done != nil {
		defer a.done()
	}
	h.recordUse(q, &a)
	q.SetWaiting(q.User.ID == "")
	a.write(w, q, h.cfg.Secure)
	took := time.Since(start)
	h.observe(q, &a, took)
	h.logAccess(q, &a, took)
}

// answer returns the answer to a request. If unsound is not nil, it refuses the request with that
// fault. A panic becomes the error internal.
func (h *Handler) answer(q *request, unsound *wire.Fault) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			done := a.done
			a = h.panicked(q, p)
			a.done = done
		}
	}()
	if unsound != nil {
		return h.refuse(q, unsound)
	}
	r, err := h.serve(q)
	switch {
	case err != nil:
		return h.refuse(q, err)
	case r.Status != 0:
		a = answer{status: r.Status, body: r.Raw, done: r.Done, stream: r.Stream}
	default:
		a = answer{status: http.StatusOK, body: wire.AppendEnvelope(make([]byte, 0, len(r.Object)+32), r.Object)}
	}
	if q.route != nil && q.route.Compressed && q.Out["Content-Encoding"] == nil {
		h.compress(q, &a)
	}
	return a
}

// recordUse passes the market data of an answer to Config.Used. It skips answers without market
// data in the body: errors, 304, and answers to HEAD.
func (h *Handler) recordUse(q *request, a *answer) {
	if a.status != http.StatusOK || q.Method == http.MethodHead {
		return
	}
	for _, u := range q.Used {
		h.cfg.Used(q.User.ID, u.Market, entitlement.Level(u.Channel).String(), u.Delay)
	}
}

// abort handles a panic while an answer is sent: it ends the connection without the log entry of
// net/http, which would contain the panic's value and may quote the request. Callers must defer it.
func (h *Handler) abort(q *request, a *answer) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		*a = h.panicked(q, p)
	}
	panic(http.ErrAbortHandler)
}

// panicked counts and logs a panic, and returns the answer internal. It does not log the
// panic's value, which may quote the request.
func (h *Handler) panicked(q *request, value any) answer {
	h.panics.Add(1)
	h.log.LogAttrs(q.Context(), slog.LevelError, "request handler panicked",
		slog.String("request_id", q.ID),
		slog.String("type", fmt.Sprintf("%T", value)),
		slog.String("stack", string(debug.Stack())))
	return q.failed(&wire.Failure{Fault: wire.Fault{Reason: wire.Internal}})
}
