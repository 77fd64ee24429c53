package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/pages"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/metrics"
	"github.com/ruedahq/rueda/internal/engine/tlslimit"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/usage"
)

// Admin configures the listener for administrators. This listener has its own routes, such as those
// about users, sessions and keys. The listener for clients has none of them.
type Admin struct {
	Listen string // "": none. Port 0 chooses a free port, which Bound.Admin has

	// TokenFile is the name of a file with the tokens that requests may send as Authorization:
	// Bearer. It contains one token of at least 32 characters, or a line for each operator. Such a
	// line has a name, the SHA-256 of the token in hexadecimal, a role (read, operate or identity),
	// and optionally the last valid day. Only its owner may have access, or root and the group of
	// the process. The file is read again when it changes.
	TokenFile string
	Tokens    string // what the file would have, a secret; "": TokenFile

	// TLS contains the names of the certificate files. The zero TLS means plain HTTP, which is
	// allowed on a loopback address only.
	TLS TLS
	// ClientCA is the name of a PEM file with certificate authorities. Clients must have a
	// certificate from one of them. ClientCA and TLS are required if other machines can reach the
	// address. The file is read again when it changes.
	ClientCA string
	// ClientCRL is the name of a file with lists of revoked client certificates (CRL); "": none.
	// The file is read again when it changes. Connections with a certificate that was revoked are
	// then closed.
	ClientCRL string
}

// ErrAdmin is wrapped by errors about the listener for administrators.
var ErrAdmin = errors.New("administrator's listener")

// errAdminOpen means that other machines could reach the listener for administrators without a
// client certificate.
var errAdminOpen = errors.New("an address that other machines can reach needs certificate, key and client_ca; otherwise listen on 127.0.0.1")

// administrator is the listener for administrators, once it is configured.
type administrator struct {
	server      *rest.Server
	certificate *certificate.Certificate // nil: plain HTTP
	clients     *certificate.Clients     // nil: no client certificate is required
}

// buildAdmin sets g.admin to the server for administrators. It leaves g.admin nil if no listener
// for administrators is configured.
func (g *Gateway) buildAdmin() error {
	c := g.cfg.Admin
	if c.Listen == "" {
		if c != (Admin{}) {
			return fmt.Errorf("%w: listen is missing", ErrAdmin)
		}
		return nil
	}
	a := &administrator{}
	list, err := rest.Operators(c.Tokens, c.TokenFile, g.log)
	if err != nil {
		return fmt.Errorf("%w: read the token: %w", ErrAdmin, err)
	}
	if c.TLS != (TLS{}) {
		if a.certificate, err = certificate.Load(certificate.Files(c.TLS), g.log); err != nil {
			return fmt.Errorf("%w: %w", ErrAdmin, err)
		}
	}
	if c.ClientCA != "" {
		files := certificate.ClientFiles{Authorities: c.ClientCA, Revoked: c.ClientCRL}
		if a.clients, err = certificate.LoadClients(files, g.log); err != nil {
			return fmt.Errorf("%w: %w", ErrAdmin, err)
		}
		if a.certificate == nil {
			return fmt.Errorf("%w: client_ca needs certificate and key too", ErrAdmin)
		}
	} else if c.ClientCRL != "" {
		return fmt.Errorf("%w: client_crl needs client_ca", ErrAdmin)
	}
	if err := a.checkAddress(c.Listen); err != nil {
		return err
	}
	page, err := metrics.New(g.snapshot, g.log)
	if err != nil {
		return err
	}
	site, err := pages.ForOperators()
	if err != nil {
		return err
	}
	users, _ := g.cfg.Users.(*local.Base)
	handler, err := rest.NewAdmin(rest.AdminConfig{
		Auth: g.auth, Users: users, Operators: list, Ready: g.ready, Sockets: g.registry.FamilyConnections,
		Observe: g.monitor.observe, Metrics: page.Body, Secure: g.https(a.certificate != nil), Logger: g.log, LogLevel: g.cfg.LogLevel, Record: g.auditLog.Append,
		Stream: g.sockets, Reload: g.reloader(), Pages: site, Hosts: c.hosts(g.cfg.Hosts),
		Feeds: g.feedStates, Cluster: g.node.Describe, Keys: g.keys, Audit: g.auditLog, Usage: func(ctx context.Context, month string) ([]usage.Row, error) {
			return usage.Report(ctx, g.auditLog, users, month)
		},
	})
	if err != nil {
		return err
	}
	a.server = rest.NewServer(rest.ServerConfig{Handler: handler, Secure: g.https(a.certificate != nil), Logger: g.log})
	g.admin = a
	return nil
}

// feedStates returns the state of each feed that this process runs now.
func (g *Gateway) feedStates() (list []adminapi.Feed) {
	for _, f := range g.supervisors() {
		st := f.Stats()
		x := adminapi.Feed{Name: f.Name(), Up: st.Up, Events: st.Events, Refused: st.Refused, Failures: st.Failures, Suspect: st.Suspect}
		if !st.Newest.IsZero() {
			x.Newest = st.Newest.UTC().Truncate(time.Millisecond)
		}
		list = append(list, x)
	}
	return list
}

// hosts returns the host names under which browsers may request the operations page: those in more,
// and the host of Listen.
func (a *Admin) hosts(more []string) []string {
	host, _, _ := net.SplitHostPort(a.Listen) // checked before
	return append(slices.Clone(more), host)
}

// checkAddress checks the address before it is opened. It refuses an IP address that other machines
// can reach if no client certificate is required.
func (a *administrator) checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not of the form host:port: %w", ErrAdmin, address, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%w: listen on %q: %q is not a port from 0 to 65535", ErrAdmin, address, port)
	}
	ip, err := netip.ParseAddr(host)
	if a.clients == nil && (host == "" || err == nil && !ip.Unmap().IsLoopback()) {
		return fmt.Errorf("%w: listen on %s: %w", ErrAdmin, address, errAdminOpen)
	}
	return nil
}

// open listens on the address, with TLS if a certificate is configured. It refuses a host name that
// resolves to an address other machines can reach, unless client certificates are required.
func (a *administrator) open(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// A name may resolve to any address, so the bound address is checked.
	if a.clients == nil && !isLoopback(l.Addr()) {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", address, errAdminOpen), l.Close())
	}
	if a.certificate == nil {
		return l, nil
	}
	secure := a.certificate.Config()
	if a.clients != nil {
		a.clients.Require(secure)
	}
	return tlslimit.New(adminHandshakes, adminHandshakeRate, adminHandshakeBurst, nil).Listen(l, secure), nil
}

// Limits of the TLS connections that one address may open to the listener for administrators. They
// equal the default limits for clients, but count separately.
const (
	adminHandshakes     = 200 // without a request at a time
	adminHandshakeRate  = 100 // new ones per second
	adminHandshakeBurst = 1000
)

// openAdmin opens the listener for administrators. Without one in the configuration, l is nil. shut
// closes the listener, and may be called more than once.
func (g *Gateway) openAdmin(ctx context.Context) (l net.Listener, shut func(), err error) {
	if g.admin == nil {
		return nil, func() {}, nil
	}
	if l, err = g.admin.open(ctx, g.cfg.Admin.Listen); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	return l, func() { _ = l.Close() }, nil // its server has closed it, if it ran
}

// runAdmin starts the server for administrators in servers, and watches its certificate files. It
// does nothing if l is nil.
func (g *Gateway) runAdmin(l net.Listener, servers *group) {
	if l == nil {
		return
	}
	servers.run(func(ctx context.Context) error { return g.admin.server.Run(ctx, l) })
	if g.admin.certificate != nil {
		servers.run(g.admin.certificate.Run)
	}
	if g.admin.clients != nil {
		servers.run(g.admin.clients.Run)
	}
}

// hostNames returns the names that the Host header may contain, besides IP addresses and localhost.
// It returns nil if any name is allowed.
func (c *Config) hostNames() []string {
	names := slices.Clone(c.Hosts)
	if u, err := url.Parse(c.PublicURL); err == nil && c.PublicURL != "" {
		names = append(names, u.Hostname())
	}
	if len(names) > 0 {
		return names
	}
	host, _, err := net.SplitHostPort(c.Listen)
	ip, notAddress := netip.ParseAddr(host)
	local := err == nil && (host == "localhost" || notAddress == nil && ip.Unmap().IsLoopback())
	if c.Listener != nil || !local || len(c.Proxies) > 0 || c.Insecure {
		return nil
	}
	return []string{}
}

// plainHost matches a Host header that is safe to show in a shell command: a name or an address,
// with or without a port.
var plainHost = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// requestOrigin returns the origin at which the client of r reaches the gateway: Config.PublicURL,
// or one made of the Host header. It returns "" if the Host header does not contain a name of the
// gateway.
func (g *Gateway) requestOrigin(r *http.Request) string {
	switch {
	case g.cfg.PublicURL != "":
		return g.cfg.PublicURL
	case !plainHost.MatchString(r.Host) || !web.HostNamed(r.Host, g.cfg.hostNames()):
		return ""
	}
	return cmp.Or(g.scheme(), "https") + "://" + r.Host
}

// publicURL returns the URL at which clients reach the gateway: Config.PublicURL, or the URL of a
// loopback listener. It returns "" if neither is known.
func (g *Gateway) publicURL() string {
	if g.cfg.PublicURL != "" {
		return g.cfg.PublicURL
	}
	if own := g.own.Load(); own != nil {
		return *own
	}
	return ""
}
