package gateway

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestHostNames checks which names a gateway answers to.
func TestHostNames(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		config Config
		want   []string
		any    bool
	}{
		"loopback":             {Config{Listen: "127.0.0.1:8080"}, []string{}, false},
		"loopback name":        {Config{Listen: "localhost:8080"}, []string{}, false},
		"IPv6":                 {Config{Listen: "[::1]:8080"}, []string{}, false},
		"every address":        {Config{Listen: ":8443"}, nil, true},
		"network":              {Config{Listen: "192.0.2.1:8443"}, nil, true},
		"behind a proxy":       {Config{Listen: "127.0.0.1:8080", Proxies: proxies}, nil, true},
		"insecure":             {Config{Listen: "127.0.0.1:8080", Insecure: true}, nil, true},
		"own listener":         {Config{Listen: "127.0.0.1:8080", Listener: new(net.TCPListener)}, nil, true},
		"public URL":           {Config{Listen: ":8443", PublicURL: "https://api.broker.example:8443"}, []string{"api.broker.example"}, false},
		"names and a proxy":    {Config{Listen: "127.0.0.1:8080", Proxies: proxies, Hosts: []string{"rueda.internal"}}, []string{"rueda.internal"}, false},
		"names and public URL": {Config{Listen: ":1", PublicURL: "https://a.example", Hosts: []string{"b.example"}}, []string{"b.example", "a.example"}, false},
	} {
		if got := c.config.hostNames(); !slices.Equal(got, c.want) || (got == nil) != c.any {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
