package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/gateway"
)

// adminConfig is the administrator's listener.
type adminConfig struct {
	Listen       string    `toml:"listen"`
	TokenFile    string    `toml:"token_file"`
	TokenCommand *[]string `toml:"token_command"`
	Certificate  string    `toml:"certificate"`
	Key          string    `toml:"key"`
	ClientCA     string    `toml:"client_ca"`
	ClientCRL    string    `toml:"client_crl"`
}

// checkAdmin checks the keys of [admin]. gateway.New would refuse the same mistakes, but without
// the line of the key.
func (c *mainFile) checkAdmin(doc *document) {
	a := &c.Admin
	if a.Listen == "" {
		if *a != (adminConfig{}) {
			doc.wrong("admin", "listen is missing, such as \"127.0.0.1:8081\"")
		}
		return
	}
	switch {
	case a.TokenFile == "" && a.TokenCommand == nil:
		doc.wrong("admin", "token_file is missing: a file of mode 0600 with the token of requests")
	case a.TokenFile != "" && a.TokenCommand != nil:
		doc.wrong("admin.token_command", "is set together with token_file: remove one")
	}
	if (a.Certificate == "") != (a.Key == "") {
		doc.wrong("admin", "certificate and key go together")
	}
	if a.ClientCA != "" && a.Certificate == "" {
		doc.wrong("admin.client_ca", "needs certificate and key, too")
	}
	if a.ClientCRL != "" && a.ClientCA == "" {
		doc.wrong("admin.client_crl", "needs client_ca, too")
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
		doc.wrong("admin.listen", "%q is the address for clients: use another port", a.Listen)
	}
}

// defaultListen is the default of listen.
const defaultListen = "127.0.0.1:8080"

// sameAddress reports whether two addresses conflict. Port 0 never does.
func sameAddress(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, err := net.SplitHostPort(b) // reported at its own key
	every := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	return err == nil && portA == portB && portA != "0" && (hostA == hostB || every(hostA) || every(hostB))
}

// checkFront checks the proxies and the public URL.
func (c *mainFile) checkFront(doc *document) {
	for _, s := range c.Proxies {
		switch p, err := parseProxy(s); {
		case err != nil:
			doc.wrong("proxies", "%q is not a network like \"10.0.0.0/8\", or an address", s)
		case p.Bits() == 0:
			doc.wrong("proxies", "%q is every address: any client could choose its address", s)
		case tooWide(p):
			doc.wrong("proxies", "%q is too wide: every host in it could choose its address; give the networks of the proxies, at least /8, or /16 for IPv6", s)
		}
	}
	if u, err := url.Parse(c.Contact); c.Contact != "" && (err != nil || !slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme)) {
		doc.wrong("security_contact", "%q must be a URI, such as \"mailto:security@broker.example\"", c.Contact)
	}
	if c.PublicURL == "" {
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		doc.wrong("public_url", "%q must have only scheme and host, such as \"https://api.broker.example\"", c.PublicURL)
	}
}

// parseProxy parses a network, or an address as a network of one.
func parseProxy(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// front sets the proxies, the public URL and the administrator's listener.
func (c *mainFile) front(doc *document, g *gateway.Config) {
	for _, s := range c.Proxies {
		if p, err := parseProxy(s); err == nil { // checked before
			g.Proxies = append(g.Proxies, p)
		}
	}
	g.PublicURL = c.PublicURL
	if a := &c.Admin; a.Listen != "" {
		g.Admin = gateway.Admin{
			Listen: a.Listen, TokenFile: doc.relative(a.TokenFile), ClientCA: doc.relative(a.ClientCA), ClientCRL: doc.relative(a.ClientCRL),
			TLS: gateway.TLS{Certificate: doc.relative(a.Certificate), Key: doc.relative(a.Key), MinVersion: c.TLS.minVersion(a.Certificate)},
		}
		if a.TokenCommand != nil {
			g.Admin.Tokens = doc.secret("admin", "token", secretSource{command: a.TokenCommand})
		}
	}
}
