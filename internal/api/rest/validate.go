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

// Limits of a request, in bytes. The Server limits headers.
const (
	maxURI       = 8 << 10
	maxTokenBody = 8 << 10
	maxBody      = 64 << 10
)

// validate refuses requests that no route must see, and reads the query.
func validate(q *request) *wire.Fault {
	// The preface of HTTP/2 arrives as a request; "*" and the authority of CONNECT are no resource.
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

// isPlainPath reports whether a path is unambiguous: no encoded or doubled slash, no dot segment,
// no control character. Proxies and servers clean such paths differently, which could bypass rules
// of a proxy.
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

// readQuery reads a query. It refuses secrets, because URLs end up in logs and histories.
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

// checkNames refuses parameters that the route does not know, which are usually misspelled. The
// error does not repeat the name, which may be anything, even a secret.
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

// checkValues refuses parameters that are repeated or empty. The client has probably lost a value,
// and would get the answer to another request.
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
