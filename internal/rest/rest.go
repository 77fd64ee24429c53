package rest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/proxy"
	"github.com/ruedahq/rueda/internal/socket"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// Config is what a Handler is made of. Auth, Accounts and Hub are needed; the
// zero value of every other field means what is said beside it.
type Config struct {
	Auth     *auth.Service
	Accounts broker.Accounts
	Hub      *stream.Hub

	// Stream serves /stream, the WebSocket upgrade, with its own answers and
	// log. Its ResponseWriter is an http.Hijacker, which gives the connection
	// as the Server's listener accepted it. nil: not found.
	Stream http.Handler

	// Journal is where history comes from; nil: its routes are not found.
	Journal *journal.Journal

	// Connect opens a session of the stream for the client with an address. nil: GET /market/stream
	// is not found.
	Connect func(client netip.Addr) (*socket.LocalConn, error)

	// HistoryReaders bounds the history requests that read at a time, and HistoryPerUser those of one
	// user, the waiting ones too. 0: one reader fewer than there are cores, at least one; 4 of a user.
	HistoryReaders int
	HistoryPerUser int

	// Ready says why the gateway should get no traffic now; it is asked at each
	// GET /readyz, must not block, and its text is for everybody. nil: always ready.
	Ready func() error

	// Origins are the origins of web pages that may read answers, such as
	// https://app.example.com; "*" is every page. Empty: the request's own host.
	Origins []string

	// Proxies are those in front, whose word on a client's address is taken. None: it is the peer's.
	Proxies proxy.Trusted

	// PublicURL is where clients reach the gateway, such as https://api.example.com, for the metadata of the
	// token endpoint. nil, or "" for the time being: there are none.
	PublicURL func() string

	// Secure says that the connections are of TLS: browsers are told to use nothing else.
	Secure bool

	// Sockets counts the open connections of the stream of a token family. nil: none.
	Sockets func(family string) int

	// Used is told what market data a request is answered with, and Denied what was refused for want of a right. They
	// must not block. nil: nobody is told.
	Used   func(user, market, level string, delay int)
	Denied func(user, market, level, reason string)

	// RequestsPerMinute bounds a user who has no such limit of their own: 600.
	RequestsPerMinute int

	Logger *slog.Logger // nil: discarded
}

// Handler answers REST requests.
type Handler struct {
	cfg       Config
	log       *slog.Logger
	routes    map[string][]*route // by path
	zones     zones
	users     quotas
	addresses quotas
	operator  func(*request) error // lets in whoever may use the routes of the administrator; nil: nobody
	readers   *lanes               // of the journal
	exports   *lanes               // of whole days
	packers   packers
	rooms     rooms
	panics    atomic.Uint64
}

// Panics counts the faults of our own that were met in requests, each of which has ended one.
func (h *Handler) Panics() uint64 { return h.panics.Load() }

// New makes a Handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Auth == nil || cfg.Accounts == nil || cfg.Hub == nil {
		return nil, errors.New("rest: Auth, Accounts and Hub are needed")
	}
	if cfg.RequestsPerMinute < 0 || cfg.HistoryReaders < 0 || cfg.HistoryPerUser < 0 {
		return nil, errors.New("rest: RequestsPerMinute, HistoryReaders and HistoryPerUser must not be negative")
	}
	if cfg.RequestsPerMinute == 0 {
		cfg.RequestsPerMinute = 600
	}
	// The stream comes before history: a processor is left to it.
	cfg.HistoryReaders = cmp.Or(cfg.HistoryReaders, max(1, runtime.NumCPU()-1))
	cfg.HistoryPerUser = cmp.Or(cfg.HistoryPerUser, 4)
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
	h := &Handler{
		cfg: cfg, log: cfg.Logger, users: newQuotas(), addresses: newQuotas(),
		readers: newLanes(cfg.HistoryReaders, cfg.HistoryPerUser, queuedReaders, readerPatience),
		exports: newLanes(exportsAtOnce, 1, queuedExports, exportPatience),
	}
	for _, o := range cfg.Origins {
		if _, ok := web.ParseOrigin(o); !ok && o != "*" {
			return nil, fmt.Errorf("rest: origin %q is not like https://app.example.com", o)
		}
	}
	h.routes = byPath(h.publicRoutes())
	return h, nil
}

// request is an HTTP request with what the steps before its route's function found out.
type request struct {
	*http.Request
	id       string
	address  netip.Addr  // of the client; the zero Addr where it has none
	out      http.Header // of the answer
	route    *route
	params   params
	segment  string // the path's segment that the route leaves open
	media    string // of the answer, by Accept
	user     broker.User
	identity auth.Identity // of the token, with that user
	presents bool          // a Bearer token was given
	secured  bool          // by TLS
	used     []use         // market data that the answer has, if it is one
}

// answer is a whole answer.
type answer struct {
	status int
	body   []byte
	done   func()      // called when it is written
	reason wire.Reason // of an error

	// stream writes the body instead, and returns its length.
	stream  func(http.ResponseWriter) int64
	written int64
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := &request{Request: r, id: web.RequestID(r.Header["X-Request-Id"]...), address: h.cfg.Proxies.Client(web.Peer(r), r.Header["Forwarded"], r.Header["X-Forwarded-For"]), out: w.Header(), secured: h.cfg.Secure}
	unsound := checkFraming(q)
	if unsound == nil && r.URL.Path == streamPath && h.cfg.Stream != nil {
		h.upgrade(w, q)
		return
	}
	a := h.answer(q, unsound)
	defer h.cutOff(q, &a)
	if a.done != nil {
		defer a.done()
	}
	h.tellUse(q, &a)
	a.write(w, q)
	h.logAccess(q, &a, time.Since(start))
}

// cutOff ends a connection in the middle of whose answer a function panicked. net/http would log
// the value, which may quote the request.
func (h *Handler) cutOff(q *request, a *answer) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		*a = h.panicked(q, p)
	}
	panic(http.ErrAbortHandler)
}

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
	case r.status != 0:
		a = answer{status: r.status, body: r.raw, done: r.done, stream: r.stream}
	default:
		a = answer{status: http.StatusOK, body: wire.AppendEnvelope(make([]byte, 0, len(r.object)+32), r.object)}
	}
	if q.route != nil && q.route.packed {
		h.pack(q, &a)
	}
	return a
}

// pack compresses a body as the client likes it.
func (h *Handler) pack(q *request, a *answer) {
	q.out.Add("Vary", "Accept-Encoding")
	if a.stream != nil {
		return // has seen to it
	}
	var used string
	a.body, used = h.packers.pack(a.body, coding(q.Header.Values("Accept-Encoding")))
	if used == codingNone {
		return
	}
	q.out.Set("Content-Encoding", used)
	if etag := q.out.Get("ETag"); etag != "" { // other bytes, another tag
		q.out.Set("ETag", strings.TrimSuffix(etag, `"`)+"-"+used+`"`)
	}
}

// panicked tells the log where it happened; the value may quote the request.
func (h *Handler) panicked(q *request, value any) answer {
	h.panics.Add(1)
	h.log.LogAttrs(q.Context(), slog.LevelError, "request handler panicked",
		slog.String(keyRequest, q.id),
		slog.String(keyType, fmt.Sprintf("%T", value)),
		slog.String(keyStack, string(debug.Stack())))
	return q.failed(&wire.Failure{Fault: wire.Fault{Reason: wire.Internal}})
}

// refuse turns an error into its answer.
func (h *Handler) refuse(q *request, err error) answer {
	var (
		failure *wire.Failure
		fault   *wire.Fault
		refused *auth.Error
	)
	switch {
	case errors.Is(err, errGone):
		return q.failed(&wire.Failure{Fault: wire.Fault{Reason: wire.Unavailable, RetryAfter: 1}})
	case errors.As(err, &failure):
		return q.failed(failure)
	case errors.As(err, &fault):
		return q.failed(&wire.Failure{Fault: *fault})
	case errors.As(err, &refused):
		hint := ""
		if refused.Reason == auth.MFARequired {
			hint = "Send otp beside the password: six digits, or a recovery code"
		}
		return q.failed(&wire.Failure{Fault: wire.Fault{Reason: wire.Reason(refused.Reason), Hint: hint, RetryAfter: web.Seconds(refused.RetryAfter)}})
	}
	h.log.LogAttrs(q.Context(), slog.LevelError, "request failed",
		slog.String(keyRequest, q.id), slog.Any(keyError, err))
	return q.failed(&wire.Failure{Fault: wire.Fault{Reason: wire.Internal}})
}

// failed is the answer of a failure, with the headers that its status asks for.
func (q *request) failed(f *wire.Failure) answer {
	told := *f
	code, msg := statusOf(f.Reason)
	if told.Msg == "" {
		told.Msg = msg
	}
	switch code {
	case http.StatusUnauthorized:
		// RFC 6750, section 3.1: no error code where no token was given.
		challenge := "Bearer"
		if q.presents {
			challenge = `Bearer error="invalid_token"`
		}
		q.out.Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		q.out.Set("Retry-After", strconv.Itoa(max(1, told.RetryAfter)))
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusInternalServerError:
		q.out.Set("Connection", "close") // the rest of the body may still be on its way
	}
	q.out.Del("ETag")
	q.out.Set("Cache-Control", "no-store")
	if q.route != nil && q.route.oauth {
		return q.failedGrant(code, &told)
	}
	return answer{status: code, reason: f.Reason, body: wire.AppendFailure(nil, code, &told, q.id)}
}

func (a *answer) write(w http.ResponseWriter, q *request) {
	set := func(name, value string) {
		if _, ok := q.out[name]; !ok {
			q.out.Set(name, value)
		}
	}
	set("Cache-Control", "no-store")
	for name, value := range web.SecurityHeader(q.secured) {
		q.out.Set(name, value)
	}
	q.out.Set("X-Request-Id", q.id)
	if len(a.body) > 0 {
		set("Content-Type", "application/json")
		q.out.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if a.stream != nil {
		a.written = a.stream(w)
		return
	}
	a.written = int64(len(a.body))
	// One write(2) of megabytes may keep a processor in the kernel for as many milliseconds.
	_ = inPieces(a.body, w.Write) // a client that is gone misses nothing
}
