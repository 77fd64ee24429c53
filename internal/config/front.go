package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/ruedahq/rueda/gateway"
)

// adminConfig is the listener of the administrator.
type adminConfig struct {
	Listen      string `toml:"listen"`
	TokenFile   string `toml:"token_file"`
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	ClientCA    string `toml:"client_ca"`
}

// checkAdmin refuses what gateway.New would, with the line of the key.
func (c *mainFile) checkAdmin(doc *document) {
	a := &c.Admin
	if a.Listen == "" {
		if *a != (adminConfig{}) {
			doc.wrong("admin", "has no listen, such as \"127.0.0.1:8081\"")
		}
		return
	}
	if a.TokenFile == "" {
		doc.wrong("admin", "has no token_file: a file with the token that requests bring, of mode 0600")
	}
	if (a.Certificate == "") != (a.Key == "") {
		doc.wrong("admin", "certificate and key go together")
	}
	if a.ClientCA != "" && a.Certificate == "" {
		doc.wrong("admin.client_ca", "needs certificate and key, too")
	}
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil {
		doc.wrong("admin.listen", "%q is not of the form host:port, such as \"127.0.0.1:8081\"", a.Listen)
		return
	}
	if ip, err := netip.ParseAddr(host); a.ClientCA == "" && (host == "" || err == nil && !ip.Unmap().IsLoopback()) {
		doc.wrong("admin.listen", "%q can be reached by others: give certificate, key and client_ca, so that clients have to show a certificate, or listen on 127.0.0.1", a.Listen)
	}
	if sameAddress(a.Listen, cmp.Or(c.Listen, defaultListen)) {
		doc.wrong("admin.listen", "%q is what listen has already, which is for clients: take another port", a.Listen)
	}
}

// defaultListen is where clients are listened for unless listen says otherwise.
const defaultListen = "127.0.0.1:8080"

// sameAddress says whether only one of two addresses could be listened on. The system gives each a port of its own
// where they have 0.
func sameAddress(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, err := net.SplitHostPort(b) // what is wrong with it is told where it stands
	every := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	return err == nil && portA == portB && portA != "0" && (hostA == hostB || every(hostA) || every(hostB))
}

// checkFront looks at what is said of proxies and of the address that clients use.
func (c *mainFile) checkFront(doc *document) {
	for _, s := range c.Proxies {
		switch p, err := parseProxy(s); {
		case err != nil:
			doc.wrong("proxies", "%q is not a network like \"10.0.0.0/8\", or an address", s)
		case p.Bits() == 0:
			doc.wrong("proxies", "%q is every address, and would let anybody choose theirs", s)
		case tooWide(p):
			doc.wrong("proxies", "%q is too wide: whoever is in it may choose their address; name the networks of the proxies, of /8 at least, or /16 of IPv6", s)
		}
	}
	if c.PublicURL == "" {
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		doc.wrong("public_url", "%q is not like \"https://api.broker.example\": scheme and host alone", c.PublicURL)
	}
}

// parseProxy reads a network, or an address, which is one of itself.
func parseProxy(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// front sets what stands before the clients' listener, and the administrator's.
func (c *mainFile) front(doc *document, g *gateway.Config) {
	for _, s := range c.Proxies {
		if p, err := parseProxy(s); err == nil { // checked with the rest
			g.Proxies = append(g.Proxies, p)
		}
	}
	g.PublicURL = c.PublicURL
	if a := &c.Admin; a.Listen != "" {
		g.Admin = gateway.Admin{
			Listen: a.Listen, TokenFile: doc.relative(a.TokenFile), ClientCA: doc.relative(a.ClientCA),
			TLS: gateway.TLS{Certificate: doc.relative(a.Certificate), Key: doc.relative(a.Key)},
		}
	}
}
