package web

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

const maxRequestID = 64

// RequestID returns the client's X-Request-Id, or a new one if the client's is not suitable for a
// log line.
func RequestID(given ...string) string {
	if len(given) != 1 || given[0] == "" || len(given[0]) > maxRequestID {
		return rand.Text()
	}
	for _, c := range given[0] {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return rand.Text()
		}
	}
	return given[0]
}

// Peer returns the address of a request's TCP peer, or the zero Addr for a connection in memory.
func Peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// IsSecret reports whether a parameter of a query has the name of a token or credential. Those do
// not belong in URLs, which end up in logs and histories.
func IsSecret(name string) bool {
	switch strings.ToLower(name) {
	case "token", "access_token", "refresh_token", "jwt", "username", "password", "otp", "client_secret":
		return true
	}
	return false
}

// ParseOrigin returns an origin in lower case and without the default port of its scheme. It
// returns false for a text that names no origin, such as "null".
func ParseOrigin(s string) (origin string, ok bool) {
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

// ParsePublicURL returns the scheme and host of the URL at which clients reach the gateway, and ""
// for "". The error says what such a URL is like.
func ParsePublicURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "", nil
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("public_url %q is not like https://api.broker.example", s)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// HostAllowed reports whether the Host of a page's request names the gateway: an IP address,
// localhost, or one of the allowed names. A page whose name was made to resolve to the gateway's
// address (DNS rebinding) has its name as Origin and Host. Requests without an Origin are allowed:
// no page can log in or open the stream with them. A nil list allows every name.
func HostAllowed(origins []string, host string, allowed []string) bool {
	return len(origins) == 0 || HostNamed(host, allowed)
}

// HostNamed reports whether the Host of a request names the gateway, by the rules of HostAllowed.
func HostNamed(host string, allowed []string) bool {
	if allowed == nil {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(allowed, func(s string) bool { return strings.EqualFold(s, name) })
}

// OriginAllowed reports whether pages of the Origin of a request may use the gateway. An allowed
// "*" means every page. If none is allowed, the host of the request is, with the scheme of the
// gateway: https or http, or "" if a proxy may serve either.
func OriginAllowed(given, allowed []string, host, scheme string) bool {
	if slices.Contains(allowed, "*") {
		return true
	}
	if len(given) != 1 {
		return false
	}
	origin, ok := ParseOrigin(given[0])
	if !ok {
		return false
	}
	if len(allowed) == 0 {
		own, _, _ := strings.Cut(origin, "://")
		allowed = []string{cmp.Or(scheme, own) + "://" + host}
	}
	return slices.ContainsFunc(allowed, func(s string) bool {
		known, ok := ParseOrigin(s)
		return ok && known == origin
	})
}
