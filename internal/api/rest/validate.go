package rest

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// Limits of a request in bytes: of its URI, of the body with a token or password, and of any other
// body. The Server limits headers.
const (
	maxURI       = 8 << 10
	maxTokenBody = 8 << 10
	maxBody      = 64 << 10
)

// validate returns a fault for a request that is unacceptable on any route. Otherwise it sets
// Request.Params.
func validate(q *request) *wire.Fault {
	// net/http reports the preface of HTTP/2 as a request. The targets "*" and the authority of
	// CONNECT identify no resource.
	if q.ProtoMajor != 1 || !strings.HasPrefix(q.URL.Path, "/") {
		q.Out.Set("Connection", "close")
		return wire.NewFault(wire.InvalidRequest, "Request target not understood")
	}
	if len(q.RequestURI) > maxURI {
		return &wire.Fault{Reason: wire.URITooLong}
	}
	if !isPlainPath(q.URL) {
		return &wire.Fault{Reason: wire.NotFound}
	}
	var f *wire.Fault
	q.Params, f = readQuery(q.URL.RawQuery)
	return f
}

// isPlainPath reports whether all proxies and servers read the path of a URL in the same way. It
// returns false for an encoded or doubled slash, a backslash, a dot segment, a control character,
// or invalid UTF-8. With such a path a client could bypass the rules of a proxy.
func isPlainPath(u *url.URL) bool {
	p := u.Path
	if strings.Count(p, "/") != strings.Count(u.EscapedPath(), "/") || strings.Contains(p, "//") {
		return false
	}
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' })
}

// readQuery parses a query. It returns a fault if a parameter is named like a secret, because URLs
// end up in logs and histories.
func readQuery(raw string) (api.Params, *wire.Fault) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, wire.NewFault(wire.InvalidRequest, "Query not understood")
	}
	for name, list := range values {
		if web.IsSecret(name) {
			return nil, wire.NewFault(wire.InvalidRequest, "Tokens and credentials do not belong in the URL")
		}
		if slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, wire.NewFault(wire.InvalidRequest, "Query is not UTF-8")
		}
	}
	return api.Params(values), nil
}

// checkNames returns a fault for a parameter that the route does not know, which is usually
// misspelled. The fault does not repeat the name, because it may contain anything, even a secret.
func (q *request) checkNames() *wire.Fault {
	known := q.route.query
	if known == nil {
		return nil
	}
	for name := range q.Params {
		if slices.Contains(known, name) {
			continue
		}
		f := wire.NewFault(wire.BadField, "A parameter of the query is not known here")
		switch near, ok := spell.Nearest(strings.ToLower(name), known); {
		case ok:
			f.Hint = "Did you mean " + near + "?"
		case len(known) > 0:
			f.Hint = "Known are " + strings.Join(known, ", ")
		}
		return f
	}
	return nil
}

// checkValues returns a failure for a known parameter that is repeated, or empty without
// permission. The client has probably lost a value and would get the answer to another request.
func (q *request) checkValues() *wire.Failure {
	for _, name := range q.route.query {
		if len(q.Params[name]) > 1 {
			return wire.NewFailure(wire.BadField, name, "is given more than once")
		}
		if slices.Contains(q.Params[name], "") && !q.route.MayBeEmpty(name) {
			return wire.NewFailure(wire.BadField, name, "is empty: give it a value or leave it out")
		}
	}
	return nil
}
