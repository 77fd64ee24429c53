package rest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/api/rest/sse"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// route combines an operation of package openapi with the function that serves it.
type route struct {
	*openapi.Operation
	serve serveFunc
	query []string // names of all parameters; nil: they are ignored
	role  Role     // that an operator needs
	page  bool     // a page, which negotiates its own media type
}

// serveFunc serves a request that has passed all checks of its route.
type serveFunc func(*request) (api.Result, error)

// bind combines operations with their functions, and returns the routes by path. serve maps a
// method and a path, such as "GET /livez", to a function. bind returns an error if an operation has
// no function, or a function no operation.
func bind(operations []openapi.Operation, serve map[string]serveFunc) (map[string][]*route, error) {
	table := make(map[string][]*route)
	bound := 0
	for i := range operations {
		o := &operations[i]
		if o.Upgrade { // ServeHTTP passes it to the stream
			continue
		}
		f := serve[o.Method+" "+o.Path]
		if f == nil {
			return nil, fmt.Errorf("rest: nothing serves %s %s", o.Method, o.Path)
		}
		r := &route{Operation: o, serve: f}
		if !o.Lax {
			r.query = o.Names()
		}
		if o.Needs == openapi.Operator {
			role, err := ParseRole(o.Role)
			if err != nil {
				return nil, fmt.Errorf("rest: %s %s: %w", o.Method, o.Path, err)
			}
			r.role = role
		}
		table[o.Path] = append(table[o.Path], r)
		bound++
	}
	if bound != len(serve) {
		return nil, fmt.Errorf("rest: %d routes are described, and %d served", bound, len(serve))
	}
	return table, nil
}

// publicRoutes returns the functions of the routes for clients, except for those of the console, by
// method and path.
func (h *Handler) publicRoutes() map[string]serveFunc {
	x := h.history
	return map[string]serveFunc{
		"POST /auth/token":           h.token,
		"POST /auth/revoke":          h.revoke,
		"POST /auth/password":        h.password,
		"POST /auth/otp":             h.otp,
		"GET /auth/sessions":         h.sessions,
		"POST /auth/sessions":        h.endLogins,
		"DELETE /auth/sessions":      h.endSessions,
		"DELETE /auth/sessions/{id}": h.endSession,
		"POST /oauth/token":          h.oauthToken,
		"POST /oauth/revoke":         h.oauthRevoke,
		"GET /broker/accounts":       h.accounts,
		"GET /broker/accounts/{id}":  h.account,
		"GET /market/markets":        h.markets,
		"GET /market/instruments":    h.instruments,
		"GET /market/status":         h.marketStatus,
		"GET /market/time":           h.time,
		"GET /market/snapshot":       h.snapshot,
		"GET /market/book":           h.book,
		"GET /market/calendar":       h.calendar,
		"GET /market/trades":         part(x.Trades),
		"GET /market/quotes":         part(x.Quotes),
		"GET /market/statuses":       part(x.Statuses),
		"GET /market/bars":           part(x.Bars),
		"GET /market/export":         part(x.Export),
		"GET /market/stream":         part(sse.Route(h.cfg.Connect)),

		"GET /.well-known/jwks.json":                  h.jwks,
		"GET /.well-known/oauth-authorization-server": h.metadata,

		"GET /livez":             h.live,
		"GET /readyz":            h.ready,
		"GET /openapi.json":      h.document,
		"GET /asyncapi.json":     h.document,
		"GET /docs/reasons":      h.reasons,
		"GET /docs/reasons/{id}": h.reason,
	}
}

// part converts the function of a route in another package to a serveFunc.
func part(serve func(*api.Request) (api.Result, error)) serveFunc {
	return func(q *request) (api.Result, error) { return serve(&q.Request) }
}

// serve finds the route of a request, makes all checks, and calls the route's function.
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
	q.setRoute(routes[0]) // for the log, even if the path has no such method
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

// find returns the routes of a path, one for each method, or nil if there are none. segment is the
// part of the path that stands for {id}, or "".
func (h *Handler) find(path string) (routes []*route, segment string) {
	if routes = h.routes[path]; routes != nil {
		return routes, ""
	}
	pattern, segment, _ := openSegment(path, func(pattern string) bool { return h.routes[pattern] != nil })
	if routes = h.routes[pattern]; routes != nil {
		return routes, segment
	}
	return h.pages.find(path), ""
}

// maxSegments bounds how many slashes a path may have to be compared with patterns.
const maxSegments = 6

// openSegment finds a pattern for a path: it replaces one segment with {id}, beginning with the
// last segment, until known accepts the pattern. ok is false if known accepts none.
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

func (q *request) setRoute(r *route) { q.route, q.Path = r, r.Operation.Path }

// chooseRoute selects the route with the request's method. It returns a fault if there is none.
// HEAD uses the route of GET.
func (q *request) chooseRoute(routes []*route) *wire.Fault {
	method := q.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http discards the body
	}
	for _, r := range routes {
		if r.Method == method {
			q.setRoute(r)
			return nil
		}
	}
	q.Out.Set("Allow", allowed(routes))
	return &wire.Fault{Reason: wire.MethodNotAllowed, Hint: "Use " + methods(routes, " or ", false)}
}

// allowed returns the methods that the routes allow, as the value of the Allow header.
func allowed(routes []*route) string { return methods(routes, ", ", true) }

// methods returns the methods of the routes, joined with separator. If head is true, HEAD follows
// GET.
func methods(routes []*route, separator string, head bool) string {
	var list []string
	for _, r := range routes {
		list = append(list, r.Method)
		if head && r.Method == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	return strings.Join(list, separator)
}

// chooseMedia selects the media type of a successful answer by the Accept header. It returns a
// fault if the client accepts none. Errors are always JSON.
func (q *request) chooseMedia() *wire.Fault {
	if q.route.page {
		return nil
	}
	offers := q.route.Offers
	if len(offers) == 0 {
		offers = []string{api.MediaJSON}
	} else {
		q.Out.Add("Vary", "Accept")
	}
	if q.Media = api.Negotiate(q.Header.Values("Accept"), offers); q.Media == "" && offers[0] == openapi.Text {
		q.Media = offers[0] // Prometheus recognizes the format by the Content-Type
	} else if q.Media == "" {
		return wire.NewFault(wire.NotAcceptable, "Only "+strings.Join(offers, ", ")+" is served here")
	}
	return nil
}
