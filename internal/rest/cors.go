package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

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
	if !h.originAllowed(origin, q.Host) {
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

func (h *Handler) originAllowed(origin, host string) bool {
	if slices.Contains(h.origins, "*") {
		return true
	}
	origin, ok := parseOrigin(origin)
	if !ok {
		return false
	}
	if len(h.origins) > 0 {
		return slices.Contains(h.origins, origin)
	}
	scheme, _, _ := strings.Cut(origin, "://")
	own, ok := parseOrigin(scheme + "://" + host)
	return ok && own == origin
}

// parseOrigin is an origin in lower case and without its scheme's own port, for
// comparing; ok is false for what names no origin, "null" among others.
func parseOrigin(s string) (origin string, ok bool) {
	u, err := url.Parse(strings.ToLower(s))
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	host := u.Host
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host, true
}
