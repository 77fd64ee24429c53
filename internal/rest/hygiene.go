package rest

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// Bounds of what is read of a request, in bytes. Headers are bounded by the Server.
const (
	maxURI       = 8 << 10
	maxTokenBody = 8 << 10
	maxBody      = 64 << 10
)

// checkHygiene refuses requests that no route should ever see, and reads the query.
func checkHygiene(q *request) *wire.Fault {
	// HTTP/2's preface arrives as a request of its own; "*" and the
	// authority of CONNECT are no resource of ours.
	if q.ProtoMajor != 1 || !strings.HasPrefix(q.URL.Path, "/") {
		q.out.Set("Connection", "close")
		return wire.NewFault(wire.InvalidRequest, "Request target not understood")
	}
	if len(q.RequestURI) > maxURI {
		return &wire.Fault{Reason: wire.URITooLong}
	}
	if !plainPath(q.URL) {
		return &wire.Fault{Reason: wire.NotFound}
	}
	var f *wire.Fault
	q.params, f = readQuery(q.URL.RawQuery)
	return f
}

// plainPath says whether a path has one reading only: no encoded or doubled
// slash, no dot segment, no control character. Proxies and servers that
// clean paths differ over these, and rules in front could be passed by.
func plainPath(u *url.URL) bool {
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

// params are the parameters of a query.
type params url.Values

// readQuery reads a query. Secrets in it are refused, and not read: URLs end up in
// logs and histories.
func readQuery(raw string) (params, *wire.Fault) {
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
		for _, v := range list {
			if !utf8.ValidString(v) {
				return nil, wire.NewFault(wire.InvalidRequest, "Query is not UTF-8")
			}
		}
	}
	return params(values), nil
}

// get returns a parameter, or "" if it is not given.
func (p params) get(name string) string { return url.Values(p).Get(name) }
