package broker

import (
	"net/netip"
	"strings"
	"testing"
)

// TestNetworks checks which texts are networks, and which addresses are in them.
func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.0/24": "192.0.2.0/24", "192.0.2.7": "192.0.2.7/32", "2001:db8::/32": "2001:db8::/32", "::1": "::1/128", "0.0.0.0/0": "0.0.0.0/0",
		"192.0.2.7/24": "", "::ffff:192.0.2.0/120": "", "::ffff:192.0.2.7": "", "fe80::1%eth0": "", "192.0.2": "", "": "", "192.0.2.0/33": "", "x": "",
	} {
		p, err := ParseNetwork(text)
		if (err == nil) != (want != "") || err == nil && p.String() != want {
			t.Errorf("%q: %v %v, want %q", text, p, err, want)
		}
	}
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:7::/48")}
	for address, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "::ffff:192.0.2.9": true, "192.0.3.0": false, "192.0.1.255": false,
		"2001:db8:7:ffff::1": true, "2001:db8:8::": false, "::": false, "2001:db8:7::1%eth0": true,
	} {
		if got := AddressAllowed(networks, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
		if !AddressAllowed(nil, netip.MustParseAddr(address)) {
			t.Errorf("%s: refused without networks", address)
		}
	}
	if AddressAllowed([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, netip.IPv4Unspecified()) {
		t.Error("an unclear address is in a network")
	}
	if AddressAllowed(networks, netip.Addr{}) || !AddressAllowed(nil, netip.Addr{}) {
		t.Error("an unknown address")
	}
	if got := FormatNetworks(networks); got != "192.0.2.0/24,2001:db8:7::/48" {
		t.Errorf("formatted: %s", got)
	}
	u := User{ID: "u", Username: "u", Networks: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("192.0.2.7"), 24)}}
	if err := u.Check(); err == nil || !strings.Contains(err.Error(), "192.0.2.0/24") {
		t.Errorf("a network with more bits: %v", err)
	}
}
