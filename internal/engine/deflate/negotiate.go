package deflate

import "strings"

// Agreement is the result of the negotiation of permessage-deflate (RFC 7692).
type Agreement uint8

// Results of a negotiation.
const (
	Off      Agreement = iota
	On                 // without context takeover
	OnWindow           // the response must also state the window of 15 bits
)

// Negotiate accepts the first offer of permessage-deflate in the values of Sec-WebSocket-Extensions
// that works without context takeover and with windows of 15 bits. Other offers and extensions are
// ignored. It returns false for invalid syntax, which fails the handshake (RFC 6455, section 9.1).
func Negotiate(values []string) (chosen Agreement, ok bool) {
	for _, value := range values {
		l := lexer{rest: value}
		for more := true; more; {
			if l.space(); l.rest == "" || l.rest[0] == ',' { // empty members are valid
				more = l.take(',')
				continue
			}
			offer, ok := l.offer()
			if !ok || l.rest != "" && l.rest[0] != ',' {
				return Off, false
			}
			if chosen == Off {
				chosen = offer
			}
			more = l.take(',')
		}
	}
	return chosen, true
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

// IsToken reports whether s is a token (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	l := lexer{rest: s}
	return l.token() != "" && l.rest == ""
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
func (l *lexer) offer() (Agreement, bool) {
	name := l.token()
	if name == "" {
		return Off, false
	}
	good := name == "permessage-deflate"
	seen := 0
	for l.take(';') {
		parameter, value, given := l.token(), "", false
		if parameter == "" {
			return Off, false
		}
		if given = l.take('='); given {
			if value = l.value(); value == "" {
				return Off, false
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
		return Off, true
	case seen&serverWindow != 0:
		return OnWindow, true
	}
	return On, true
}

// isWindow reports whether s is a window size in bits: 8 to 15, without leading zeros.
func isWindow(s string) bool {
	return s == "8" || s == "9" || len(s) == 2 && s[0] == '1' && s[1] >= '0' && s[1] <= '5'
}

// AppendHeader appends the field of the response, after a line break, if there is an agreement.
func (c Agreement) AppendHeader(b []byte) []byte {
	if c == Off {
		return b
	}
	b = append(b, "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"...)
	if c == OnWindow {
		b = append(b, "; server_max_window_bits=15"...) // an offer with this parameter requires it (section 7.1.2.1)
	}
	return b
}
