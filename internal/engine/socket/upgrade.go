package socket

import (
	"crypto/sha1"
	"encoding/base64"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/web"
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
	compression deflate.Agreement
	token       string // of Authorization: Bearer, not verified; "": none
}

// refusal is the HTTP response that refuses a handshake.
type refusal = web.Error

func invalid(msg string) *refusal {
	return web.NewError(http.StatusBadRequest, wire.InvalidRequest, msg)
}

// proxyHint is for handshakes that are not WebSocket ones. Most come through a proxy.
const proxyHint = "A proxy in front must pass the WebSocket handshake on. For nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade"

// checkUpgrade checks a handshake by RFC 6455 section 4.2.1 and by the rules of the stream. Without
// origins, only the host of the request is allowed, with that scheme.
func checkUpgrade(r *upgradeRequest, hosts, origins []string, scheme string) (upgrade, *refusal) {
	if f := checkMethod(r); f != nil {
		return upgrade{}, f
	}
	if len(origins) == 0 && !web.HostAllowed(r.header.Values("Origin"), r.host, hosts) {
		return upgrade{}, web.NewError(http.StatusForbidden, wire.Forbidden, "Host not allowed")
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
	if f := checkOrigin(r, origins, scheme); f != nil {
		return upgrade{}, f
	}
	protocol, format, f := chooseProtocol(r.header)
	if f != nil {
		return upgrade{}, f
	}
	compression, ok := deflate.Negotiate(r.header[extensionsField])
	if !ok {
		return upgrade{}, invalid("Invalid Sec-WebSocket-Extensions")
	}
	if compression != deflate.Off {
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
		return web.NewError(http.StatusMethodNotAllowed, wire.MethodNotAllowed, "The stream requires GET", "Allow", http.MethodGet)
	case r.major == 1 && r.minor < 1 || r.major < 1:
		f := invalid("HTTP/1.1 is required")
		f.Failure.Hint = proxyHint
		return f
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
		if web.IsSecret(name) {
			return invalid("Do not send a token in the URL; use auth_token or Authorization: Bearer")
		}
	}
	return nil
}

func checkVersion(r *upgradeRequest) *refusal {
	if r.major != 1 || !hasToken(r.header.Values("Upgrade"), "websocket") || !hasToken(r.header.Values("Connection"), "upgrade") {
		f := web.NewError(http.StatusUpgradeRequired, upgradeRequired, "This is a WebSocket endpoint", "Upgrade", "websocket")
		f.Failure.Hint = proxyHint
		return f
	}
	if version, f := single(r.header, versionField, "Sec-WebSocket-Version"); f != nil || version != "13" {
		return web.NewError(http.StatusUpgradeRequired, upgradeRequired, "WebSocket version 13 is required", "Sec-WebSocket-Version", "13")
	}
	return nil
}

// checkOrigin allows programs, which send no Origin, and pages of the listed origins.
func checkOrigin(r *upgradeRequest, origins []string, scheme string) *refusal {
	values := r.header.Values("Origin")
	if len(values) > 0 && !web.OriginAllowed(values, origins, r.host, scheme) {
		return web.NewError(http.StatusForbidden, wire.Forbidden, "Origin not allowed")
	}
	return nil
}

// chooseProtocol returns the first subprotocol of the client that is known. Tokens are refused
// there, as proxies may log the field and the response repeats it.
func chooseProtocol(h http.Header) (name string, format wire.Format, f *refusal) {
	for member := range tokens(h[protocolField]) {
		lower := strings.ToLower(member)
		if strings.HasPrefix(member, "eyJ") || strings.Contains(lower, "bearer") || lower == "token" || lower == "access_token" || lower == "jwt" {
			return "", wire.JSON, invalid("Do not send a token in the subprotocol; use auth_token or Authorization: Bearer")
		}
		if known, ok := wire.ParseSubprotocol(member); ok && name == "" {
			name, format = member, known
		}
	}
	return name, format, nil
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
	return web.NewError(http.StatusUnauthorized, reason, msg, "WWW-Authenticate", "Bearer")
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
	b = h.compression.AppendHeader(b)
	return append(b, "\r\n\r\n"...)
}
