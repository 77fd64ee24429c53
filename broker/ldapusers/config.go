package ldapusers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/ruedahq/rueda/broker"
)

// NoVersion is the Version for a directory that does not record changes of passwords.
const NoVersion = "none"

// Config configures Users. URL, Base, BindDN, BindPassword and Version are required; other fields
// state their default.
type Config struct {
	URL         string // ldaps://directory.example or ldap://directory.example:389
	StartTLS    bool   // with ldap://: start with StartTLS
	Insecure    bool   // with ldap:// to a loopback address: no TLS
	Authorities string // file of CA certificates; "": those of the system

	BindDN       string // the service account
	BindPassword string

	Base     string // search base of user entries
	Filter   string // for the entry of {username}: "(" + Username + "={username})"
	Username string // attribute of the login name: "uid"
	ID       string // attribute of the permanent user id: "entryUUID"
	Version  string // attribute that rises when the password changes, or NoVersion
	Disabled string // filter for disabled users, not for those that are locked by wrong passwords; "": none are
	Expires  string // attribute with the time at which a user's account ends; "": it does not
	Networks string // attribute with the networks of a user, one or more in a value; "": users have none

	GroupAttribute string // attribute with the DNs of a user's groups: "memberOf" unless GroupFilter is set
	GroupBase      string // search base of groups: Base
	GroupFilter    string // for the groups of the entry {dn}

	Rights broker.Rights            // of all users
	Groups map[string]broker.Rights // of the members of a group, by its DN without regard to case

	Connections int // as the service account, and as many for binds: 8
}

func (c *Config) setDefaults() {
	c.Username = cmp.Or(c.Username, "uid")
	c.ID = cmp.Or(c.ID, "entryUUID")
	c.Filter = cmp.Or(c.Filter, "("+c.Username+"={username})")
	c.GroupBase = cmp.Or(c.GroupBase, c.Base)
	if c.GroupFilter == "" {
		c.GroupAttribute = cmp.Or(c.GroupAttribute, "memberOf")
	}
	if c.Connections <= 0 {
		c.Connections = 8
	}
}

// Placeholders in filters.
const (
	markUsername = "{username}"
	markDN       = "{dn}"
)

func (c *Config) check() error {
	for _, f := range []struct{ name, text string }{
		{"the DN of the service account", c.BindDN}, {"its password", c.BindPassword},
		{"the base of the search", c.Base}, {"the attribute of the version, or " + NoVersion, c.Version},
	} {
		if f.text == "" {
			return errors.New(f.name + " is missing")
		}
	}
	for _, dn := range []string{c.BindDN, c.Base, c.GroupBase} {
		if _, err := ldap.ParseDN(dn); err != nil {
			return fmt.Errorf("%q is no DN", dn)
		}
	}
	for _, f := range []struct{ filter, mark string }{{c.Filter, markUsername}, {c.GroupFilter, markDN}, {c.Disabled, ""}} {
		if f.filter == "" {
			continue
		}
		if f.mark != "" && !strings.Contains(f.filter, f.mark) {
			return fmt.Errorf("filter %s does not contain %s", f.filter, f.mark)
		}
		if _, err := ldap.CompileFilter(fill(f.filter, f.mark, "x")); err != nil {
			return fmt.Errorf("filter %s is none: %w", f.filter, err)
		}
	}
	for _, a := range []string{c.Username, c.ID, c.Version, c.Expires, c.Networks, c.GroupAttribute} {
		if strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.;") != "" {
			return fmt.Errorf("%q is no attribute", a)
		}
	}
	return nil
}

// fill replaces a placeholder of a filter with an escaped value.
func fill(filter, mark, value string) string {
	if mark == "" {
		return filter
	}
	return strings.ReplaceAll(filter, mark, ldap.EscapeFilter(value))
}

// dialer creates connections.
type dialer struct {
	address  string
	security *tls.Config // nil: no TLS
	startTLS bool
}

func newDialer(c *Config) (*dialer, error) {
	at, err := url.Parse(c.URL)
	if err != nil || at.Hostname() == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" {
		return nil, errors.New("the URL is not like ldaps://directory.example")
	}
	d := &dialer{startTLS: c.StartTLS}
	var port string
	switch {
	case at.Scheme == "ldaps" && !c.StartTLS:
		port = "636"
	case at.Scheme == "ldaps":
		return nil, errors.New("ldaps is TLS from the start: StartTLS goes with ldap://")
	case at.Scheme != "ldap":
		return nil, fmt.Errorf("the URL begins with %q, not with ldaps or ldap", at.Scheme)
	case !c.StartTLS && !c.Insecure && isLoopback(at.Hostname()):
		return nil, errors.New("ldap without TLS has to be asked for, though the address is of this machine: insecure = true")
	case !c.StartTLS && !c.Insecure:
		return nil, errors.New("ldap without TLS would carry passwords in the open: use ldaps or StartTLS")
	case !c.StartTLS && !isLoopback(at.Hostname()):
		return nil, errors.New("ldap without TLS is for loopback addresses alone")
	default:
		port = "389"
	}
	d.address = net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
	if at.Scheme == "ldap" && !c.StartTLS {
		return d, nil
	}
	d.security = &tls.Config{ServerName: at.Hostname(), MinVersion: tls.VersionTLS12}
	if c.Authorities != "" {
		text, err := os.ReadFile(c.Authorities)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		d.security.RootCAs = x509.NewCertPool()
		if !d.security.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", c.Authorities)
		}
	}
	return d, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dial returns an unauthenticated connection.
func (d *dialer) dial(ctx context.Context) (*ldapConn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	if d.security != nil && !d.startTLS {
		secure := tls.Client(raw, d.security)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		raw = secure
	}
	l := &ldapConn{ldap.NewConn(raw, d.security != nil && !d.startTLS), raw}
	l.Start()
	if d.startTLS {
		if err := l.StartTLS(d.security); err != nil {
			l.close()
			return nil, fmt.Errorf("StartTLS: %w", err)
		}
	}
	return l, nil
}
