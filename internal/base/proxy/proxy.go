package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Trusted holds the networks of trusted proxies. If it is empty, no proxy is trusted.
type Trusted []netip.Prefix

// Unknown returns 0.0.0.0, the address of clients whose headers are not clear. No client has it.
func Unknown() netip.Addr { return netip.IPv4Unspecified() }

// Client returns the address of the client. peer is the peer of the connection; forwarded and
// xForwardedFor are the lines of these headers in the order in which they arrived.
func (t Trusted) Client(peer netip.Addr, forwarded, xForwardedFor []string) netip.Addr {
	if len(forwarded)+len(xForwardedFor) == 0 || !t.Has(peer) {
		return peer
	}
	switch {
	case len(forwarded) == 0:
		return t.walk(peer, xForwardedFor, lastListed)
	case len(xForwardedFor) == 0:
		return t.walk(peer, forwarded, lastForwarded)
	}
	client := t.walk(peer, forwarded, lastForwarded)
	if t.walk(peer, xForwardedFor, lastListed) != client {
		return Unknown()
	}
	return client
}

// Check returns an error for an invalid network, and for one that contains every address.
func (t Trusted) Check() error {
	for _, p := range t {
		switch {
		case !p.IsValid() || p.Addr().Zone() != "":
			return errors.New("proxies: a network is not like 10.0.0.0/8")
		case p.Bits() == 0:
			return fmt.Errorf("proxies: %v has so many addresses that any client could choose its own", p)
		}
	}
	return nil
}

// Has reports whether an address belongs to a trusted proxy.
func (t Trusted) Has(a netip.Addr) bool {
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(a) })
}

// walk goes from the right end of a list to the first address that is not trusted. It is Unknown if
// the list cannot be parsed so far. last splits the last entry off a line.
func (t Trusted) walk(at netip.Addr, lines []string, last func(string) (rest string, more bool, a netip.Addr, ok bool)) netip.Addr {
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			if !t.Has(at) {
				return at
			}
			var a netip.Addr
			var ok bool
			if line, more, a, ok = last(line); !ok {
				return Unknown()
			}
			at = a
		}
	}
	return at
}

// lastListed splits the last entry off a line of X-Forwarded-For.
func lastListed(line string) (rest string, more bool, a netip.Addr, ok bool) {
	comma := strings.LastIndexByte(line, ',')
	a, ok = parseNode(trim(line[comma+1:]))
	return line[:max(comma, 0)], comma >= 0, a, ok
}

// lastForwarded splits the last element off a line of Forwarded. It looks for the start of the
// element from the right, so that it finds the element that the nearest proxy appended, whatever
// precedes it, even an open quote. Addresses need no escapes, so a line with an escape is not
// parsed.
func lastForwarded(line string) (rest string, more bool, a netip.Addr, ok bool) {
	comma, quoted := -1, false
	for i := len(line) - 1; i >= 0 && comma < 0; i-- {
		switch line[i] {
		case '"':
			quoted = !quoted
		case '\\':
			return "", false, a, false
		case ',':
			if !quoted {
				comma = i
			}
		}
	}
	if quoted {
		return "", false, a, false
	}
	a, ok = forOf(line[comma+1:])
	return line[:max(comma, 0)], comma >= 0, a, ok
}

// forOf returns the address in the parameter "for" of an element (RFC 7239, section 4).
func forOf(element string) (a netip.Addr, ok bool) {
	for element != "" {
		end, quoted := 0, false
		for ; end < len(element) && (quoted || element[end] != ';'); end++ {
			if element[end] == '"' {
				quoted = !quoted
			}
		}
		pair := element[:end]
		element = element[min(end+1, len(element)):]
		name, value, found := strings.Cut(trim(pair), "=")
		if !found {
			return a, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if ok { // given twice
			return a, false
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if a, ok = parseNode(value); !ok {
			return a, false
		}
	}
	return a, ok
}

// parseNode parses an address as proxies write it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1] or [2001:db8::1]:80.
func parseNode(s string) (netip.Addr, bool) {
	host, port, bracket := s, "", false
	if strings.HasPrefix(s, "[") {
		if host, port, bracket = strings.Cut(s[1:], "]"); !bracket {
			return netip.Addr{}, false
		}
		if port != "" && port[0] != ':' {
			return netip.Addr{}, false
		}
		port = strings.TrimPrefix(port, ":")
	} else if strings.Count(s, ":") == 1 {
		host, port, _ = strings.Cut(s, ":")
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" || bracket && !a.Is6() || !portLike(port) {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// portLike reports whether s is empty, a port, or an obfuscated port (RFC 7239, section 6.3).
func portLike(s string) bool {
	if strings.HasPrefix(s, "_") {
		return true
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) <= 5
}

// trim removes the optional whitespace around members of a list (RFC 9110, section 5.6.1).
func trim(s string) string { return strings.Trim(s, " \t") }
