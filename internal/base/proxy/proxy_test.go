package proxy

import (
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) (t Trusted) {
	for _, s := range list {
		t = append(t, netip.MustParsePrefix(s))
	}
	return t
}

// TestThreat28ForwardedAddresses is a matrix of spoofed forwarding headers. Each element of a list
// is a line of a header; "" means none.
func TestThreat28ForwardedAddresses(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "2001:db8:ffff::/48")
	for _, tt := range []struct {
		name, peer     string
		forwarded, xff []string
		want           string
	}{
		{name: "no headers", peer: "10.0.0.1", want: "10.0.0.1"},
		{name: "untrusted peer", peer: "192.0.2.9", xff: []string{"198.51.100.1"}, forwarded: []string{"for=198.51.100.1"}, want: "192.0.2.9"},
		{name: "one proxy", peer: "10.0.0.1", xff: []string{"198.51.100.1"}, want: "198.51.100.1"},
		{name: "client's own entry is left of the proxy's", peer: "10.0.0.1", xff: []string{"127.0.0.1, 198.51.100.1"}, want: "198.51.100.1"},
		{name: "a trusted address that the client made up", peer: "10.0.0.1", xff: []string{"1.2.3.4, 10.9.9.9, 198.51.100.1"}, want: "198.51.100.1"},
		{name: "two proxies", peer: "10.0.0.1", xff: []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}, want: "198.51.100.1"},
		{name: "all trusted", peer: "10.0.0.1", xff: []string{"10.0.0.3, 10.0.0.2"}, want: "10.0.0.3"},
		{name: "lines are one list", peer: "10.0.0.1", xff: []string{"1.1.1.1", "198.51.100.1", "10.0.0.2"}, want: "198.51.100.1"},
		{name: "tabs and spaces", peer: "10.0.0.1", xff: []string{"1.1.1.1\t,\t 198.51.100.1 \t"}, want: "198.51.100.1"},
		{name: "garbage ends the walk", peer: "10.0.0.1", xff: []string{"198.51.100.1, unknown, 10.0.0.2"}, want: "0.0.0.0"},
		{name: "garbage at the right end", peer: "10.0.0.1", xff: []string{"198.51.100.1, x"}, want: "0.0.0.0"},
		{name: "empty entry", peer: "10.0.0.1", xff: []string{"198.51.100.1,"}, want: "0.0.0.0"},
		{name: "empty line", peer: "10.0.0.1", xff: []string{"198.51.100.1", ""}, want: "0.0.0.0"},
		{name: "port", peer: "10.0.0.1", xff: []string{"198.51.100.1:4711"}, want: "198.51.100.1"},
		{name: "port that is none", peer: "10.0.0.1", xff: []string{"198.51.100.1:http"}, want: "0.0.0.0"},
		{name: "IPv6", peer: "10.0.0.1", xff: []string{"2001:db8::7"}, want: "2001:db8::7"},
		{name: "IPv6 in brackets, with a port", peer: "10.0.0.1", xff: []string{"[2001:db8::7]:443"}, want: "2001:db8::7"},
		{name: "IPv6 with a zone", peer: "10.0.0.1", xff: []string{"fe80::1%eth0"}, want: "0.0.0.0"},
		{name: "IPv4 in brackets", peer: "10.0.0.1", xff: []string{"[198.51.100.1]"}, want: "0.0.0.0"},
		{name: "IPv4 written as IPv6", peer: "10.0.0.1", xff: []string{"::ffff:198.51.100.1"}, want: "198.51.100.1"},
		{name: "a proxy written as IPv6", peer: "10.0.0.1", xff: []string{"198.51.100.1, ::ffff:10.0.0.2"}, want: "198.51.100.1"},
		{name: "IPv6 proxy", peer: "2001:db8:ffff::1", xff: []string{"198.51.100.1"}, want: "198.51.100.1"},
		{name: "octal and short forms", peer: "10.0.0.1", xff: []string{"198.051.100.1"}, want: "0.0.0.0"},
		{name: "Forwarded", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1;proto=https;by=10.0.0.1"}, want: "198.51.100.1"},
		{name: "Forwarded, name in capitals", peer: "10.0.0.1", forwarded: []string{"proto=https; For=198.51.100.1"}, want: "198.51.100.1"},
		{name: "Forwarded, quoted IPv6 with a port", peer: "10.0.0.1", forwarded: []string{`for=1.1.1.1, for="[2001:db8:cafe::17]:4711"`}, want: "2001:db8:cafe::17"},
		{name: "Forwarded, obfuscated port", peer: "10.0.0.1", forwarded: []string{`for="198.51.100.1:_x"`}, want: "198.51.100.1"},
		{name: "Forwarded, lines", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1", "for=10.0.0.2;host=a"}, want: "198.51.100.1"},
		{name: "Forwarded, comma in quotes", peer: "10.0.0.1", forwarded: []string{`for=198.51.100.1;x="a, for=1.1.1.1"`}, want: "198.51.100.1"},
		{name: "Forwarded, semicolon in quotes", peer: "10.0.0.1", forwarded: []string{`x="a;for=1.1.1.1";for=198.51.100.1`}, want: "198.51.100.1"},
		{name: "Forwarded, open quote of the client", peer: "10.0.0.1", forwarded: []string{`for=1.1.1.1;x=", for=198.51.100.1`}, want: "198.51.100.1"},
		{name: "Forwarded, open quote of the client and a quoted proxy", peer: "10.0.0.1", forwarded: []string{`for=1.1.1.1;x=", for="[2001:db8::7]"`}, want: "2001:db8::7"},
		{name: "Forwarded, unknown", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1, for=unknown"}, want: "0.0.0.0"},
		{name: "Forwarded, hidden", peer: "10.0.0.1", forwarded: []string{"for=_gazonk"}, want: "0.0.0.0"},
		{name: "Forwarded, twice in an element", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1;for=1.1.1.1"}, want: "0.0.0.0"},
		{name: "Forwarded, without for", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1, proto=https"}, want: "0.0.0.0"},
		{name: "Forwarded, escape", peer: "10.0.0.1", forwarded: []string{`for="198.51.100.\1"`}, want: "0.0.0.0"},
		{name: "Forwarded, no pairs", peer: "10.0.0.1", forwarded: []string{"198.51.100.1"}, want: "0.0.0.0"},
		{name: "both agree", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1"}, xff: []string{"1.1.1.1, 198.51.100.1"}, want: "198.51.100.1"},
		{name: "one was passed on unread", peer: "10.0.0.1", forwarded: []string{"for=1.1.1.1"}, xff: []string{"198.51.100.1"}, want: "0.0.0.0"},
		{name: "the other was", peer: "10.0.0.1", forwarded: []string{"for=198.51.100.1"}, xff: []string{"1.1.1.1"}, want: "0.0.0.0"},
	} {
		got := trusted.Client(netip.MustParseAddr(tt.peer), tt.forwarded, tt.xff)
		if got != netip.MustParseAddr(tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestNobodyIsTrusted(t *testing.T) {
	peer := netip.MustParseAddr("127.0.0.1")
	if got := Trusted(nil).Client(peer, []string{"for=1.1.1.1"}, []string{"1.1.1.1"}); got != peer {
		t.Errorf("got %v", got)
	}
	if got := prefixes("0.0.0.0/0").Client(netip.Addr{}, nil, []string{"1.1.1.1"}); got.IsValid() {
		t.Errorf("a peer without an address became %v", got)
	}
}

// FuzzClient checks that the client cannot change the answer as long as a trusted proxy appends to
// the header.
func FuzzClient(f *testing.F) {
	f.Add("1.1.1.1", `for=1.1.1.1;x="`)
	f.Add("10.0.0.9,,", `for="\"`)
	f.Add("[", `,;=",`)
	trusted := prefixes("10.0.0.0/8")
	peer, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.7")
	f.Fuzz(func(t *testing.T, listed, forwarded string) {
		if strings.ContainsAny(listed+forwarded, "\r\n\x00") {
			return // no header
		}
		for _, got := range []netip.Addr{
			trusted.Client(peer, nil, []string{listed + ", 198.51.100.7"}),
			trusted.Client(peer, nil, []string{listed, "198.51.100.7"}),
			trusted.Client(peer, []string{forwarded + ", for=198.51.100.7"}, nil),
			trusted.Client(peer, []string{forwarded, "for=198.51.100.7;proto=https"}, nil),
			trusted.Client(peer, []string{forwarded + `, for="198.51.100.7:80";by="[2001:db8::1]"`}, nil),
		} {
			if got != client {
				t.Fatalf("%q, %q: got %v", listed, forwarded, got)
			}
		}
		trusted.Client(peer, []string{forwarded}, []string{listed}) // must not panic
	})
}
