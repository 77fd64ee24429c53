package socket

import (
	"crypto/sha1"
	"encoding/base64"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// upgradeRequired is the reason of status 426. The other refusals of a handshake use the reasons of
// REST:
//
//	400 invalid_request     malformed handshake, token in the URL or the subprotocol
//	401 invalid_token       bad Bearer; token_expired and token_revoked as they apply
//	403 forbidden           Origin not on the list
//	405 method_not_allowed  anything but GET
//	426 upgrade_required    not WebSocket, or not version 13
//	429 rate_limited        too many handshakes or unauthenticated connections from one address
//	503 unavailable         too many connections, draining, or tokens cannot be checked
const upgradeRequired wire.Reason = "upgrade_required"

// upgradeRequest contains the parts of an HTTP request that checkUpgrade needs.
type upgradeRequest struct {
	method       string
	major, minor int    // of the HTTP version
	host         string // from the request, with its port
	query        string // raw
	body         bool   // the request has a body
	header       http.Header
}

// upgrade is an accepted upgrade request.
type upgrade struct {
	key         string      // Sec-WebSocket-Key
	protocol    string      // "": none
	format      wire.Format // of the server's messages
	compression compression
	token       string // of Authorization: Bearer, not verified; "": none
}

// refusal is the HTTP response that refuses a handshake.
type refusal struct {
	status     int
	reason     wire.Reason
	msg        string
	header     [2]string // an additional field; "": none
	retryAfter int       // seconds; 0: none
	rate       *rate     // the limit that was exceeded; nil: none
}

// rate describes a rate limit in the response.
type rate struct {
	burst         int
	window, reset time.Duration // until the full burst is available: from zero, and from now
}

// fields returns the header fields that do not depend on the connection.
func (f *refusal) fields(secure bool) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		list := append(make([][2]string, 0, 16),
			[2]string{"Cache-Control", "no-store"}, [2]string{"Content-Type", "application/json"},
			[2]string{"X-Content-Type-Options", "nosniff"}, [2]string{"Referrer-Policy", "no-referrer"},
			[2]string{"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
			[2]string{"Cross-Origin-Resource-Policy", "same-origin"}, f.header)
		if secure {
			list = append(list, [2]string{"Strict-Transport-Security", "max-age=31536000"})
		}
		if f.retryAfter > 0 {
			list = append(list, [2]string{"Retry-After", strconv.Itoa(f.retryAfter)})
		}
		if r := f.rate; r != nil {
			most, reset := strconv.Itoa(r.burst), strconv.Itoa(seconds(r.reset))
			list = append(list,
				[2]string{"RateLimit-Policy", `"handshakes";q=` + most + ";w=" + strconv.Itoa(seconds(r.window))},
				[2]string{"RateLimit", `"handshakes";r=0;t=` + reset},
				[2]string{"X-RateLimit-Limit", most}, [2]string{"X-RateLimit-Remaining", "0"}, [2]string{"X-RateLimit-Reset", reset})
		}
		for _, field := range list {
			if field[0] != "" && !yield(field[0], field[1]) {
				return
			}
		}
	}
}

// seconds rounds up, so that a client that waits as long is not too early.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

func invalid(msg string) *refusal {
	return &refusal{status: http.StatusBadRequest, reason: wire.InvalidRequest, msg: msg}
}

// checkUpgrade checks a handshake by RFC 6455 section 4.2.1 and by the rules of the stream. Without
// origins, only the host of the request is allowed.
func checkUpgrade(r *upgradeRequest, origins []string) (upgrade, *refusal) {
	if f := checkMethod(r); f != nil {
		return upgrade{}, f
	}
	if f := checkQuery(r.query); f != nil {
		return upgrade{}, f
	}
	if f := checkVersion(r); f != nil {
		return upgrade{}, f
	}
	key, f := single(r.header, keyField, "Sec-WebSocket-Key")
	if f != nil {
		return upgrade{}, f
	}
	if raw, err := base64.StdEncoding.Strict().DecodeString(key); err != nil || len(raw) != 16 {
		return upgrade{}, invalid("Sec-WebSocket-Key is not 16 bytes of base64")
	}
	if f := checkOrigin(r, origins); f != nil {
		return upgrade{}, f
	}
	protocol, format, f := chooseProtocol(r.header)
	if f != nil {
		return upgrade{}, f
	}
	compression, f := chooseCompression(r.header)
	if f != nil {
		return upgrade{}, f
	}
	if compression != notCompressed {
		format |= wire.Deflate
	}
	token, f := bearer(r.header)
	if f != nil {
		return upgrade{}, f
	}
	return upgrade{key: key, protocol: protocol, format: format, compression: compression, token: token}, nil
}

func checkMethod(r *upgradeRequest) *refusal {
	switch {
	case r.method != http.MethodGet:
		return &refusal{status: http.StatusMethodNotAllowed, reason: wire.MethodNotAllowed,
			msg: "The stream requires GET", header: [2]string{"Allow", http.MethodGet}}
	case r.major == 1 && r.minor < 1 || r.major < 1:
		return invalid("HTTP/1.1 is required")
	case r.body:
		// Its bytes would be parsed as frames.
		return invalid("A handshake must not have a body")
	}
	return nil
}

// checkQuery refuses tokens in the URL, because URLs end up in logs.
func checkQuery(raw string) *refusal {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return invalid("Invalid query string")
	}
	for name := range query {
		switch strings.ToLower(name) {
		case "token", "access_token", "refresh_token", "jwt", "username", "password", "otp", "client_secret":
			return invalid("Do not send a token in the URL; use auth_token or Authorization: Bearer")
		}
	}
	return nil
}

func checkVersion(r *upgradeRequest) *refusal {
	if r.major != 1 || !hasToken(r.header.Values("Upgrade"), "websocket") || !hasToken(r.header.Values("Connection"), "upgrade") {
		return &refusal{status: http.StatusUpgradeRequired, reason: upgradeRequired,
			msg: "This is a WebSocket endpoint", header: [2]string{"Upgrade", "websocket"}}
	}
	if version, f := single(r.header, versionField, "Sec-WebSocket-Version"); f != nil || version != "13" {
		return &refusal{status: http.StatusUpgradeRequired, reason: upgradeRequired,
			msg: "WebSocket version 13 is required", header: [2]string{"Sec-WebSocket-Version", "13"}}
	}
	return nil
}

// checkOrigin allows programs, which send no Origin, and pages of the listed origins. "*" allows
// all pages.
func checkOrigin(r *upgradeRequest, origins []string) *refusal {
	values := r.header.Values("Origin")
	if len(values) == 0 || slices.Contains(origins, "*") {
		return nil
	}
	forbidden := &refusal{status: http.StatusForbidden, reason: wire.Forbidden, msg: "Origin not allowed"}
	if len(values) > 1 {
		return forbidden
	}
	scheme, host, ok := splitOrigin(values[0])
	if !ok {
		return forbidden
	}
	if len(origins) == 0 {
		if !strings.EqualFold(host, trimPort(scheme, r.host)) {
			return forbidden
		}
		return nil
	}
	for _, listed := range origins {
		if s, h, ok := splitOrigin(listed); ok && s == scheme && strings.EqualFold(h, host) {
			return nil
		}
	}
	return forbidden
}

// splitOrigin parses an origin. It removes a default port from the host.
func splitOrigin(s string) (scheme, host string, ok bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", "", false // such as "null"
	}
	return u.Scheme, trimPort(u.Scheme, u.Host), true
}

func trimPort(scheme, host string) string {
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// bearer returns the token of the Authorization header (RFC 6750, section 2.1); "" if there is
// none.
func bearer(h http.Header) (string, *refusal) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", invalid("More than one Authorization header")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsFunc(token, notToken68) {
		return "", unauthorized(wire.InvalidToken, "Authorization is not a Bearer token")
	}
	return token, nil
}

func unauthorized(reason wire.Reason, msg string) *refusal {
	return &refusal{status: http.StatusUnauthorized, reason: reason, msg: msg,
		header: [2]string{"WWW-Authenticate", "Bearer"}}
}

func notToken68(r rune) bool { return !isAlphanumericOr(r, "-._~+/=") }

// Field names in the form of http.Header. Other spellings cost an allocation.
const (
	keyField        = "Sec-Websocket-Key"
	versionField    = "Sec-Websocket-Version"
	protocolField   = "Sec-Websocket-Protocol"
	extensionsField = "Sec-Websocket-Extensions"
)

// single returns the value of a field that must occur exactly once. name is its spelling in RFC
// 6455.
func single(h http.Header, field, name string) (string, *refusal) {
	values := h[field]
	if len(values) != 1 {
		return "", invalid(name + " must occur exactly once")
	}
	return values[0], nil
}

// tokens yields the members of a comma-separated header.
func tokens(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, value := range values {
			for member := range strings.SplitSeq(value, ",") {
				if member = strings.Trim(member, " \t"); member != "" && !yield(member) {
					return
				}
			}
		}
	}
}

func hasToken(values []string, want string) bool {
	for member := range tokens(values) {
		if strings.EqualFold(member, want) {
			return true
		}
	}
	return false
}

// appendSwitching appends the 101 response.
func (h *upgrade) appendSwitching(b []byte) []byte {
	b = append(b, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	// RFC 6455, section 4.2.2, defines the GUID and the digest. They do not protect a secret.
	sum := sha1.Sum([]byte(h.key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	b = base64.StdEncoding.AppendEncode(b, sum[:])
	if h.protocol != "" {
		b = append(append(b, "\r\nSec-WebSocket-Protocol: "...), h.protocol...)
	}
	b = h.compression.appendExtension(b)
	return append(b, "\r\n\r\n"...)
}

// write writes the refusal with net/http.
func (f *refusal) write(w http.ResponseWriter, requestID string, secure bool) {
	h := w.Header()
	for name, value := range f.fields(secure) {
		h.Set(name, value)
	}
	h.Set("X-Request-Id", requestID)
	if f.status == http.StatusUpgradeRequired {
		h.Set("Upgrade", "websocket") // RFC 9110, section 15.5.22
		h.Set("Connection", "Upgrade")
	}
	w.WriteHeader(f.status)
	failure := wire.Failure{Fault: wire.Fault{Reason: f.reason, Msg: f.msg}}
	_, _ = w.Write(wire.AppendFailure(nil, f.status, &failure, requestID)) // the client may be gone
}
