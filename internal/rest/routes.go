package rest

import (
	"net/http"
	"strings"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

// streamPath is the path of the WebSocket upgrade.
const streamPath = "/stream"

// What a route asks of a request, beside the scopes of package broker.
const (
	anyone  = ""      // no token; an Authorization header is not looked at
	anyUser = "token" // a token, whatever its user's scopes

	operator = "administrator" // the administrator's token
)

// route is a row of the table of routes.
type route struct {
	method string
	path   string // a segment {id} stands for any one segment
	needs  string // anyone, anyUser, operator or a scope
	serve  func(*request) (result, error)
	probe  bool     // asked all the time by machines
	oauth  bool     // its errors are those of RFC 6749
	query  []string // names of all parameters; nil: they are not looked at
	empty  []string // those of query that may be empty: filters, the first page's cursor, and what has a refusal of its own
	limit  int      // requests a minute of an address, where no token is asked for; 0: none, or its own

	offers []string // media types that it answers in, the first by default; nil: JSON alone
	packed bool     // compressed where the client likes it: never where an answer has secrets
}

// result is what a route's function answers with: an object for the envelope, or
// something without one.
type result struct {
	object []byte // a JSON object
	status int    // not 0: this status with raw as its body
	raw    []byte
	done   func()                          // called once the answer is written, or is not going to be; nil: nothing
	stream func(http.ResponseWriter) int64 // writes the body instead of raw, and returns its length
}

// byPath is a table of routes.
func byPath(routes []*route) map[string][]*route {
	table := make(map[string][]*route)
	for _, r := range routes {
		table[r.path] = append(table[r.path], r)
	}
	return table
}

// publicRoutes are the routes of clients.
func (h *Handler) publicRoutes() []*route {
	return []*route{
		{method: http.MethodPost, path: "/auth/token", needs: anyone, serve: h.token},
		{method: http.MethodPost, path: "/auth/revoke", needs: anyone, serve: h.revoke, limit: revokesPerMinute},
		{method: http.MethodGet, path: "/auth/sessions", needs: anyUser, serve: h.sessions},
		{method: http.MethodDelete, path: "/auth/sessions", needs: anyUser, serve: h.endSessions, query: []string{"keep"}},
		{method: http.MethodDelete, path: "/auth/sessions/{id}", needs: anyUser, serve: h.endSession},
		{method: http.MethodPost, path: "/oauth/token", needs: anyone, serve: h.oauthToken, oauth: true},
		{method: http.MethodPost, path: "/oauth/revoke", needs: anyone, serve: h.oauthRevoke, oauth: true, limit: revokesPerMinute},
		{method: http.MethodGet, path: "/broker/accounts", needs: broker.ScopeAccounts, serve: h.accounts, query: []string{"status", "limit", "cursor"}, empty: []string{"status", "cursor"}},
		{method: http.MethodGet, path: "/broker/accounts/{id}", needs: broker.ScopeAccounts, serve: h.account, query: noQuery()},
		{method: http.MethodGet, path: "/market/markets", needs: broker.ScopeRead, serve: h.markets, query: noQuery()},
		{method: http.MethodGet, path: "/market/instruments", needs: broker.ScopeRead, serve: h.instruments, query: []string{"market", "term", "kind", "q", "limit", "cursor"}, empty: []string{"market", "term", "kind", "q", "cursor"}, packed: true},
		{method: http.MethodGet, path: "/market/status", needs: broker.ScopeRead, serve: h.marketStatus, query: noQuery()},
		{method: http.MethodGet, path: "/market/time", needs: anyUser, serve: h.time, query: noQuery()},
		{method: http.MethodGet, path: "/market/snapshot", needs: broker.ScopeRead, serve: h.snapshot, query: []string{"instruments"}, empty: []string{"instruments"}},
		{method: http.MethodGet, path: "/market/book", needs: broker.ScopeRead, serve: h.book, query: []string{"instrument", "depth", "at"}, empty: []string{"instrument"}},
		{method: http.MethodGet, path: "/market/calendar", needs: broker.ScopeRead, serve: h.calendar, query: []string{"market", "from", "to"}, empty: []string{"market"}, packed: true},
		{method: http.MethodGet, path: "/market/trades", needs: broker.ScopeHistory, serve: h.trades, query: historyQuery(), empty: []string{"instrument", "cursor"}, offers: tables(), packed: true},
		{method: http.MethodGet, path: "/market/quotes", needs: broker.ScopeHistory, serve: h.quotes, query: historyQuery(), empty: []string{"instrument", "cursor"}, offers: tables(), packed: true},
		{method: http.MethodGet, path: "/market/statuses", needs: broker.ScopeHistory, serve: h.statuses, query: historyQuery(), empty: []string{"instrument", "cursor"}, offers: tables(), packed: true},
		{method: http.MethodGet, path: "/market/bars", needs: broker.ScopeHistory, serve: h.bars, query: historyQuery("interval"), empty: []string{"instrument", "cursor"}, offers: tables(), packed: true},
		{method: http.MethodGet, path: "/market/export", needs: broker.ScopeHistory, serve: h.export, query: []string{"type", "date", "market", "format"}, offers: files(), packed: true},
		{method: http.MethodGet, path: followPath, needs: broker.ScopeRead, serve: h.follow, query: followQuery(), offers: []string{mediaEvents, mediaLines}},
		{method: http.MethodGet, path: "/.well-known/jwks.json", needs: anyone, serve: h.jwks, limit: readsPerMinute},
		{method: http.MethodGet, path: "/.well-known/oauth-authorization-server", needs: anyone, serve: h.metadata, limit: readsPerMinute},
		{method: http.MethodGet, path: "/livez", needs: anyone, serve: h.live, probe: true},
		{method: http.MethodGet, path: "/readyz", needs: anyone, serve: h.ready, probe: true},
	}
}

// serve takes a request through all steps to its route's function.
func (h *Handler) serve(q *request) (result, error) {
	if f := checkHygiene(q); f != nil {
		return result{}, f
	}
	routes, segment := h.find(q.URL.Path)
	if routes == nil {
		return result{}, h.notFound(q.URL.Path)
	}
	q.segment = segment
	q.route = routes[0] // for the log, whatever the method
	preflight, f := h.crossOrigin(q, routes)
	if f != nil {
		return result{}, f
	}
	if preflight {
		return result{status: http.StatusNoContent}, nil
	}
	if f := q.choose(routes); f != nil {
		return result{}, f
	}
	if f := q.chooseMedia(); f != nil {
		return result{}, f
	}
	if err := h.letIn(q); err != nil {
		return result{}, err
	}
	if f := q.checkQuery(); f != nil {
		return result{}, f
	}
	if f := q.checkValues(); f != nil {
		return result{}, f
	}
	return q.route.serve(q)
}

// find is the routes of a path; none is nil.
func (h *Handler) find(path string) (routes []*route, segment string) {
	if routes = h.routes[path]; routes != nil {
		return routes, ""
	}
	pattern, segment, _ := openSegment(path, func(pattern string) bool { return h.routes[pattern] != nil })
	return h.routes[pattern], segment
}

// choose sets the route of the request's method.
func (q *request) choose(routes []*route) *wire.Fault {
	method := q.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	for _, r := range routes {
		if r.method == method {
			q.route = r
			return nil
		}
	}
	q.out.Set("Allow", allowed(routes))
	return &wire.Fault{Reason: wire.MethodNotAllowed, Hint: useMethod(routes)}
}

// chooseMedia sets the media type of the answer. Errors are JSON whatever a client accepts.
func (q *request) chooseMedia() *wire.Fault {
	offers := q.route.offers
	if len(offers) == 0 {
		offers = []string{mediaJSON}
	} else {
		q.out.Add("Vary", "Accept")
	}
	if q.media = negotiate(q.Header.Values("Accept"), offers); q.media == "" {
		return wire.NewFault(wire.NotAcceptable, "Only "+strings.Join(offers, ", ")+" is served here")
	}
	return nil
}

// allowed is the methods of routes, for Allow.
func allowed(routes []*route) string {
	var methods []string
	for _, r := range routes {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(methods, ", ")
}
