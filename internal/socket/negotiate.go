package socket

import (
	"net/http"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// chooseProtocol takes the first of the client's list that is known. Some
// clients that cannot set headers put a token there: that is refused, since the
// chosen protocol is echoed and logged on the way.
func chooseProtocol(h http.Header) (name string, format wire.Format, f *refusal) {
	for member := range tokens(h[protocolField]) {
		lower := strings.ToLower(member)
		if strings.HasPrefix(member, "eyJ") || strings.Contains(lower, "bearer") || lower == "token" || lower == "access_token" || lower == "jwt" {
			return "", wire.JSON, invalid("A token does not belong in the subprotocol; send auth_token, or Authorization: Bearer")
		}
		if known, ok := wire.ParseSubprotocol(member); ok && name == "" {
			name, format = member, known
		}
	}
	return name, format, nil
}

// compression is the outcome of a negotiation of RFC 7692.
type compression uint8

const (
	notCompressed    compression = iota
	compressed                   // no context takeover on either side
	compressedWindow             // likewise, and the client wants to hear that the window is of 15 bits
)

// chooseCompression takes the first offer of permessage-deflate that can be met: no context is
// taken over on either side, whether the client asks for that or not, and windows are of 15 bits. What
// an offer asks for beyond that cannot be met, and it is declined, by silence, as any other extension
// is. A header that is not of RFC 6455's grammar fails the handshake (section 9.1).
func chooseCompression(h http.Header) (compression, *refusal) {
	chosen := notCompressed
	for _, value := range h[extensionsField] {
		l := lexer{rest: value}
		for more := true; more; {
			if l.space(); l.rest == "" || l.rest[0] == ',' { // empty members are allowed
				more = l.take(',')
				continue
			}
			offer, ok := l.offer()
			if !ok || l.rest != "" && l.rest[0] != ',' {
				return notCompressed, invalid("Sec-WebSocket-Extensions not understood")
			}
			if chosen == notCompressed {
				chosen = offer
			}
			more = l.take(',')
		}
	}
	return chosen, nil
}

// A lexer takes a header's value apart (RFC 9110, section 5.6).
type lexer struct{ rest string }

func (l *lexer) space() { l.rest = strings.TrimLeft(l.rest, " \t") }

// take steps over c and the spaces around it.
func (l *lexer) take(c byte) bool {
	l.space()
	if l.rest == "" || l.rest[0] != c {
		return false
	}
	l.rest = l.rest[1:]
	l.space()
	return true
}

// token takes a token; "" where there is none.
func (l *lexer) token() string {
	n := 0
	for n < len(l.rest) && isTokenByte(l.rest[n]) {
		n++
	}
	token := l.rest[:n]
	l.rest = l.rest[n:]
	return token
}

// value takes a token, or a quoted string that holds one.
func (l *lexer) value() string {
	if !strings.HasPrefix(l.rest, `"`) {
		return l.token()
	}
	inner, rest, found := strings.Cut(l.rest[1:], `"`)
	inside := lexer{rest: inner}
	if token := inside.token(); found && inside.rest == "" { // so without escapes, which a token needs none of
		l.rest = rest
		return token
	}
	return ""
}

func isTokenByte(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// Parameters of RFC 7692, section 7.1, as bits.
const (
	serverNoContext = 1 << iota
	clientNoContext
	serverWindow
	clientWindow
)

// offer takes one member of the list, and judges it.
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

// isWindow tells whether s is a window's bits: 8 to 15, without leading zeros.
func isWindow(s string) bool {
	return s == "8" || s == "9" || len(s) == 2 && s[0] == '1' && s[1] >= '0' && s[1] <= '5'
}

// appendExtension appends the header that answers the client's offers; nothing where none is met.
func (c compression) appendExtension(b []byte) []byte {
	if c == notCompressed {
		return b
	}
	b = append(b, "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"...)
	if c == compressedWindow {
		b = append(b, "; server_max_window_bits=15"...) // an offer that has it is met by saying it (section 7.1.2.1)
	}
	return b
}
