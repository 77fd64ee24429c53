package clientaddr

import (
	"net/netip"
	"testing"
)

func TestKeys(t *testing.T) {
	for _, c := range []struct{ address, client, network string }{
		{"192.0.2.77", "192.0.2.77/32", "192.0.2.0/24"},
		{"::ffff:192.0.2.1", "192.0.2.1/32", "192.0.2.0/24"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"2001:db8:1:2::", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"},
		{"::1", "::/64", "::/48"},
	} {
		a := netip.MustParseAddr(c.address)
		if got := Client(a).String(); got != c.client {
			t.Errorf("client of %s: %s, want %s", c.address, got, c.client)
		}
		if got := Network(a).String(); got != c.network {
			t.Errorf("network of %s: %s, want %s", c.address, got, c.network)
		}
	}
	if Client(netip.Addr{}).IsValid() || Network(netip.Addr{}).IsValid() {
		t.Error("an unknown address has a key")
	}
}
