package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// Headers that pages of other origins may send and read, and how many seconds browsers keep this.
// Cookies and other credentials of browsers are never allowed: a page sends its token itself.
const (
	corsRequestHeaders = "Authorization, Content-Type, If-None-Match, Last-Event-ID, X-Request-Id"
	corsAnswerHeaders  = "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, Rueda-Lost, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"
	corsMaxAge         = "600"
)

// crossOrigin applies CORS to a request. If the origin is allowed, it sets the headers that let the
// page read the answer. preflight reports whether the request is a preflight, which then needs no
// other answer.
//
// It refuses requests of other origins that may change something. Browsers send such a request of a
// form without a preflight, and from the visitor's address. It also refuses their preflights. Other
// requests of those origins are answered, but the browser hides the answer from the page.
func (h *Handler) crossOrigin(q *request, routes []*route) (preflight bool, f *wire.Fault) {
	q.Out.Set("Vary", "Origin")
	origin := q.Header.Get("Origin")
	preflight = q.Method == http.MethodOptions && origin != "" && q.Header.Get("Access-Control-Request-Method") != ""
	unsafe := q.Method != http.MethodGet && q.Method != http.MethodHead && q.Method != http.MethodOptions
	if origin == "" {
		if unsafe && q.Header.Get("Sec-Fetch-Site") == "cross-site" {
			return false, wire.NewFault(wire.Forbidden, "Requests of other sites are not allowed")
		}
		return false, nil
	}
	if !web.OriginAllowed(q.Header.Values("Origin"), h.cfg.Origins, q.Host, h.cfg.Scheme) {
		if preflight || unsafe {
			return false, wire.NewFault(wire.Forbidden, "Origin not allowed")
		}
		return false, nil
	}
	q.Out.Set("Access-Control-Allow-Origin", origin)
	q.Out.Set("Access-Control-Expose-Headers", corsAnswerHeaders)
	if preflight {
		q.Out.Set("Access-Control-Allow-Methods", allowed(routes))
		q.Out.Set("Access-Control-Allow-Headers", corsRequestHeaders)
		q.Out.Set("Access-Control-Max-Age", corsMaxAge)
	}
	return preflight, nil
}
