package socket

import (
	"net/http"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

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

// compression is the result of the negotiation of permessage-deflate (RFC 7692).
type compression uint8

const (
	notCompressed    compression = iota
	compressed                   // without context takeover
	compressedWindow             // the response must also state the window of 15 bits
)

// chooseCompression accepts the first offer of permessage-deflate that works without context
// takeover and with windows of 15 bits. Other offers and extensions are ignored. A header with
// invalid syntax fails the handshake (RFC 6455, section 9.1).
func chooseCompression(h http.Header) (compression, *refusal) {
	chosen := notCompressed
	for _, value := range h[extensionsField] {
		l := lexer{rest: value}
		for more := true; more; {
			if l.space(); l.rest == "" || l.rest[0] == ',' { // empty members are valid
				more = l.take(',')
				continue
			}
			offer, ok := l.offer()
			if !ok || l.rest != "" && l.rest[0] != ',' {
				return notCompressed, invalid("Invalid Sec-WebSocket-Extensions")
			}
			if chosen == notCompressed {
				chosen = offer
			}
			more = l.take(',')
		}
	}
	return chosen, nil
}

// lexer parses a header value (RFC 9110, section 5.6).
type lexer struct{ rest string }

func (l *lexer) space() { l.rest = strings.TrimLeft(l.rest, " \t") }

// take skips c with the spaces around it. It returns false if another byte comes next.
func (l *lexer) take(c byte) bool {
	l.space()
	if l.rest == "" || l.rest[0] != c {
		return false
	}
	l.rest = l.rest[1:]
	l.space()
	return true
}

// token consumes a token; "" if there is none.
func (l *lexer) token() string {
	n := 0
	for n < len(l.rest) && isTokenByte(l.rest[n]) {
		n++
	}
	token := l.rest[:n]
	l.rest = l.rest[n:]
	return token
}

// value consumes a token or a quoted token.
func (l *lexer) value() string {
	if !strings.HasPrefix(l.rest, `"`) {
		return l.token()
	}
	inner, rest, found := strings.Cut(l.rest[1:], `"`)
	inside := lexer{rest: inner}
	if token := inside.token(); found && inside.rest == "" { // no escapes: a token needs none
		l.rest = rest
		return token
	}
	return ""
}

func isTokenByte(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// Parameters of permessage-deflate (RFC 7692, section 7.1).
const (
	serverNoContext = 1 << iota
	clientNoContext
	serverWindow
	clientWindow
)

// offer consumes one member of the list. It returns false for invalid syntax.
func (l *lexer) offer() (compression, bool) {
	name := l.token()
	if name == "" {
		return notCompressed, false
	}
	good := name == "permessage-deflate"
	seen := 0
	for l.take(';') {
		parameter, value, given := l.token(), "", false
		if parameter == "" {
			return notCompressed, false
		}
		if given = l.take('='); given {
			if value = l.value(); value == "" {
				return notCompressed, false
			}
		}
		which := 0
		switch parameter {
		case "server_no_context_takeover":
			which, good = serverNoContext, good && !given
		case "client_no_context_takeover":
			which, good = clientNoContext, good && !given
		case "server_max_window_bits":
			which, good = serverWindow, good && value == "15"
		case "client_max_window_bits":
			which, good = clientWindow, good && (!given || isWindow(value))
		}
		if which == 0 || seen&which != 0 {
			good = false
		}
		seen |= which
	}
	l.space()
	switch {
	case !good:
		return notCompressed, true
	case seen&serverWindow != 0:
		return compressedWindow, true
	}
	return compressed, true
}

// isWindow reports whether s is a window size in bits: 8 to 15, without leading zeros.
func isWindow(s string) bool {
	return s == "8" || s == "9" || len(s) == 2 && s[0] == '1' && s[1] >= '0' && s[1] <= '5'
}

// appendExtension appends the response header of the extension, if one was agreed on.
func (c compression) appendExtension(b []byte) []byte {
	if c == notCompressed {
		return b
	}
	b = append(b, "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"...)
	if c == compressedWindow {
		b = append(b, "; server_max_window_bits=15"...) // an offer with this parameter requires it (section 7.1.2.1)
	}
	return b
}
