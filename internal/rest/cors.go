package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// What pages of other origins may send and read. Credentials in the sense of
// CORS, cookies that is, are never allowed: a page sends its token itself.
const (
	corsRequestHeaders = "Authorization, Content-Type, If-None-Match, Last-Event-ID, X-Request-Id"
	corsAnswerHeaders  = "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"
	corsMaxAge         = "600"
)

// crossOrigin marks the answer as readable by the page that asks, if its origin
// is allowed, and says whether the request is a preflight, which needs no more. The
// preflight of an origin that is not allowed is refused; any other request of it is
// answered, and the browser keeps the answer from the page.
func (h *Handler) crossOrigin(q *request, routes []*route) (preflight bool, f *wire.Fault) {
	q.out.Set("Vary", "Origin")
	origin := q.Header.Get("Origin")
	if origin == "" {
		return false, nil
	}
	preflight = q.Method == http.MethodOptions && q.Header.Get("Access-Control-Request-Method") != ""
	if !web.OriginAllowed([]string{origin}, h.cfg.Origins, q.Host) {
		if preflight {
			return false, wire.NewFault(wire.Forbidden, "Origin not allowed")
		}
		return false, nil
	}
	q.out.Set("Access-Control-Allow-Origin", origin)
	q.out.Set("Access-Control-Expose-Headers", corsAnswerHeaders)
	if preflight {
		q.out.Set("Access-Control-Allow-Methods", allowed(routes))
		q.out.Set("Access-Control-Allow-Headers", corsRequestHeaders)
		q.out.Set("Access-Control-Max-Age", corsMaxAge)
	}
	return preflight, nil
}
