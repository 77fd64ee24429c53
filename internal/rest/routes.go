package rest

import (
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/internal/rest/history"
	"github.com/ruedahq/rueda/internal/rest/sse"
	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// streamPath is the path of the WebSocket upgrade.
const streamPath = "/stream"

// What a route requires of a request, besides the scopes of package broker.
const (
	anyone   = ""              // no token; the Authorization header is ignored
	anyUser  = "token"         // a token of any user
	operator = "administrator" // the administrator's token
)

// route is a row of the table of routes.
type route struct {
	method string
	path   string // a segment {id} stands for any one segment
	needs  string // anyone, anyUser, operator or a scope
	role   Role   // that an operator needs
	serve  func(*request) (api.Result, error)
	probe  bool     // requested all the time by machines
	oauth  bool     // its errors are those of RFC 6749
	query  []string // names of all parameters; nil: they are ignored
	empty  []string // those of query that may be empty: filters, the cursor of the first page, and those with their own error
	limit  int      // requests a minute from an address, if no token is required; 0: none, or its own

	offers     []string // media types of its answers, the default one first; nil: only JSON
	compressed bool     // compressed if the client accepts it: never if an answer has secrets
}

// publicRoutes returns the routes of clients.
func (h *Handler) publicRoutes() []*route {
	x := h.history
	follow := sse.Route(h.cfg.Connect)
	return []*route{
		{method: http.MethodPost, path: "/auth/token", needs: anyone, serve: h.token},
		{method: http.MethodPost, path: "/auth/revoke", needs: anyone, serve: h.revoke, limit: revokesPerMinute},
		{method: http.MethodPost, path: "/auth/password", needs: anyone, serve: h.password, limit: changesPerMinute},
		{method: http.MethodPost, path: "/auth/otp", needs: anyone, serve: h.otp, limit: changesPerMinute},
		{method: http.MethodGet, path: "/auth/sessions", needs: anyUser, serve: h.sessions},
		{method: http.MethodDelete, path: "/auth/sessions", needs: anyUser, serve: h.endSessions, query: []string{"keep"}},
		{method: http.MethodDelete, path: "/auth/sessions/{id}", needs: anyUser, serve: h.endSession},
		{method: http.MethodPost, path: "/oauth/token", needs: anyone, serve: h.oauthToken, oauth: true},
		{method: http.MethodPost, path: "/oauth/revoke", needs: anyone, serve: h.oauthRevoke, oauth: true, limit: revokesPerMinute},
		{method: http.MethodGet, path: "/broker/accounts", needs: broker.ScopeAccounts, serve: h.accounts, query: []string{"status", "limit", "cursor"}, empty: []string{"status", "cursor"}},
		{method: http.MethodGet, path: "/broker/accounts/{id}", needs: broker.ScopeAccounts, serve: h.account, query: noQuery()},
		{method: http.MethodGet, path: "/market/markets", needs: broker.ScopeRead, serve: h.markets, query: noQuery()},
		{method: http.MethodGet, path: "/market/instruments", needs: broker.ScopeRead, serve: h.instruments, query: []string{"market", "term", "kind", "q", "limit", "cursor"}, empty: []string{"market", "term", "kind", "q", "cursor"}, compressed: true},
		{method: http.MethodGet, path: "/market/status", needs: broker.ScopeRead, serve: h.marketStatus, query: noQuery()},
		{method: http.MethodGet, path: "/market/time", needs: anyUser, serve: h.time, query: noQuery()},
		{method: http.MethodGet, path: "/market/snapshot", needs: broker.ScopeRead, serve: h.snapshot, query: []string{"instruments"}, empty: []string{"instruments"}},
		{method: http.MethodGet, path: "/market/book", needs: broker.ScopeRead, serve: h.book, query: []string{"instrument", "depth", "at"}, empty: []string{"instrument"}},
		{method: http.MethodGet, path: "/market/calendar", needs: broker.ScopeRead, serve: h.calendar, query: []string{"market", "from", "to"}, empty: []string{"market"}, compressed: true},
		historyRoute("/market/trades", x.Trades),
		historyRoute("/market/quotes", x.Quotes),
		historyRoute("/market/statuses", x.Statuses),
		historyRoute("/market/bars", x.Bars, "interval"),
		{method: http.MethodGet, path: "/market/export", needs: broker.ScopeHistory, serve: part(x.Export), query: []string{"type", "date", "market", "format"}, offers: history.Files(), compressed: true},
		{method: http.MethodGet, path: "/market/stream", needs: broker.ScopeRead, serve: part(follow), query: sse.Query(), offers: sse.Media()},
		{method: http.MethodGet, path: "/.well-known/jwks.json", needs: anyone, serve: h.jwks, limit: readsPerMinute},
		{method: http.MethodGet, path: "/.well-known/oauth-authorization-server", needs: anyone, serve: h.metadata, limit: readsPerMinute},
		{method: http.MethodGet, path: "/livez", needs: anyone, serve: h.live, probe: true},
		{method: http.MethodGet, path: "/readyz", needs: anyone, serve: h.ready, probe: true},
	}
}

// historyRoute returns a route for pages of history; more are its own parameters.
func historyRoute(path string, serve func(*api.Request) (api.Result, error), more ...string) *route {
	return &route{
		method: http.MethodGet, path: path, needs: broker.ScopeHistory, serve: part(serve),
		query:  append(more, "instrument", "start", "end", "after_sequence", "epoch", "order", "limit", "cursor"),
		empty:  []string{"instrument", "cursor"},
		offers: history.Media(), compressed: true,
	}
}

// part adapts the function of a route of another package.
func part(serve func(*api.Request) (api.Result, error)) func(*request) (api.Result, error) {
	return func(q *request) (api.Result, error) { return serve(&q.Request) }
}

// noQuery returns the query of routes without parameters.
func noQuery() []string { return []string{} }

// byPath returns a table of routes by path.
func byPath(routes []*route) map[string][]*route {
	table := make(map[string][]*route)
	for _, r := range routes {
		table[r.path] = append(table[r.path], r)
	}
	return table
}

// serve checks a request and calls its route's function.
func (h *Handler) serve(q *request) (api.Result, error) {
	if f := validate(q); f != nil {
		return api.Result{}, f
	}
	routes, segment := h.find(q.URL.Path)
	if routes == nil {
		if s := h.addresses.take("none "+clientaddr.Client(q.Address).String(), unknownPerMinute, time.Now()); s.Wait > 0 {
			return api.Result{}, q.spend("address", s)
		}
		return api.Result{}, h.notFound(q.URL.Path)
	}
	q.segment = segment
	q.setRoute(routes[0]) // for the log, whatever the method
	if len(h.cfg.Origins) == 0 && !web.HostAllowed(q.Header.Values("Origin"), q.Host, h.cfg.Hosts) {
		return api.Result{}, &wire.Fault{Reason: wire.Forbidden, Msg: "Host not allowed", Hint: "An operator lists the names of the gateway in public_url and hosts"}
	}
	preflight, f := h.crossOrigin(q, routes)
	if f != nil {
		return api.Result{}, f
	}
	if preflight {
		return api.Result{Status: http.StatusNoContent}, nil
	}
	if f := q.chooseRoute(routes); f != nil {
		return api.Result{}, f
	}
	if f := q.chooseMedia(); f != nil {
		return api.Result{}, f
	}
	if err := h.authorize(q); err != nil {
		return api.Result{}, err
	}
	if f := q.checkNames(); f != nil {
		return api.Result{}, f
	}
	if f := q.checkValues(); f != nil {
		return api.Result{}, f
	}
	return q.route.serve(q)
}

// find returns the routes of a path, or nil if there are none.
func (h *Handler) find(path string) (routes []*route, segment string) {
	if routes = h.routes[path]; routes != nil {
		return routes, ""
	}
	pattern, segment, _ := openSegment(path, func(pattern string) bool { return h.routes[pattern] != nil })
	return h.routes[pattern], segment
}

// maxSegments bounds the segments of a path that is compared with patterns.
const maxSegments = 6

// openSegment replaces one segment of a path by {id}, from the last one on, until the pattern is
// known.
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

func (q *request) setRoute(r *route) { q.route, q.Path = r, r.path }

// chooseRoute sets the route of the request's method.
func (q *request) chooseRoute(routes []*route) *wire.Fault {
	method := q.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http discards the body
	}
	for _, r := range routes {
		if r.method == method {
			q.setRoute(r)
			return nil
		}
	}
	q.Out.Set("Allow", allowed(routes))
	return &wire.Fault{Reason: wire.MethodNotAllowed, Hint: "Use " + methods(routes, " or ", false)}
}

// allowed returns the methods of routes, for Allow.
func allowed(routes []*route) string { return methods(routes, ", ", true) }

// methods returns the methods of routes, with HEAD where it is served if head is set.
func methods(routes []*route, separator string, head bool) string {
	var list []string
	for _, r := range routes {
		list = append(list, r.method)
		if head && r.method == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	return strings.Join(list, separator)
}

// chooseMedia sets the media type of the answer. Errors are JSON whatever a client accepts.
func (q *request) chooseMedia() *wire.Fault {
	offers := q.route.offers
	if len(offers) == 0 {
		offers = []string{api.MediaJSON}
	} else {
		q.Out.Add("Vary", "Accept")
	}
	if q.Media = api.Negotiate(q.Header.Values("Accept"), offers); q.Media == "" {
		return wire.NewFault(wire.NotAcceptable, "Only "+strings.Join(offers, ", ")+" is served here")
	}
	return nil
}
