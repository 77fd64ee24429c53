package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/broker/ldapusers"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/broker/sqlusers"
	"github.com/ruedahq/rueda/gateway"
)

// UserSource is where users and accounts come from, if that is not the built-in base.
type UserSource struct {
	Type     string          // of [users]
	users    broker.Users    // nil: the built-in ones
	accounts broker.Accounts // nil: the built-in ones, with users nil; none otherwise
	none     bool            // nobody has accounts
	checks   []func(context.Context) error
	closers  []io.Closer // in the order of closing
}

// BuiltIn says whether the users are those of the gateway's own database.
func (s *UserSource) BuiltIn() bool { return s.users == nil }

// NeedsData says whether users or accounts are in the gateway's own database.
func (s *UserSource) NeedsData() bool { return s.users == nil || s.accounts == nil && !s.none }

// Close waits for calls that are on their way.
func (s *UserSource) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// sources makes what [users] and [accounts] name. It reads files and connects to nothing.
func (c *mainFile) sources(doc *document, s *Settings) {
	from := &s.Users
	from.Type, from.none = c.Users.Type, c.Accounts.Type == typeNone
	if !doc.clean("users") || !doc.clean("accounts") {
		return
	}
	before := func(name string, limit duration, inFlight int) *guard.Guard {
		return guard.New(guard.Config{Name: name, Limit: time.Duration(limit), InFlight: inFlight, Logger: s.Gateway.Logger})
	}
	if c.Users.Type != typeLocal {
		g := before("users", c.Users.Limit, c.Users.InFlight)
		from.closers = append(from.closers, g)
		c.userSource(doc, from, g)
	}
	g := before("accounts", c.Accounts.Limit, c.Accounts.InFlight)
	switch c.Accounts.Type {
	case typeHTTP:
		a, key := c.Accounts.HTTP, "accounts.http"
		if a == (httpConfig{}) {
			a, key = c.Users.HTTP, "users.http"
		}
		if u := a.open(doc, key); u != nil {
			from.accounts = guard.Accounts(g, u)
			from.closers = append(from.closers, g, u)
		}
	case typeSQL:
		a, key := c.Accounts.SQL, "accounts.sql"
		at := sqlConfig{Driver: a.Driver, File: a.File, URLFile: a.URLFile, URLEnv: a.URLEnv}
		if at == (sqlConfig{}) {
			at, key = c.Users.SQL, "users.sql"
		}
		if a.Query == "" {
			doc.wrong("accounts.sql", "query is missing")
			return
		}
		if u := at.open(doc, key, sqlusers.Config{Accounts: a.Query, Guard: g}); u != nil {
			from.accounts = u
			from.checks, from.closers = append(from.checks, u.Check), append(from.closers, g, u)
		}
	}
}

func (c *mainFile) userSource(doc *document, from *UserSource, g *guard.Guard) {
	everybody, groups := c.Users.groups()
	switch c.Users.Type {
	case typeHTTP:
		if u := c.Users.HTTP.open(doc, "users.http"); u != nil {
			from.users = guard.Users(g, u)
			from.closers = append(from.closers, u)
		}
	case typeSQL:
		q := &c.Users.SQL
		if q.Login == "" || q.User == "" {
			doc.wrong("users.sql", "the queries login and user are needed")
			return
		}
		u := q.open(doc, "users.sql", sqlusers.Config{
			Login: q.Login, User: q.User, Rights: everybody, Groups: groups, Guard: g,
			Passwords: password.New(password.Config{Slots: c.Auth.PasswordSlots, Queue: c.Auth.PasswordQueue}),
		})
		if u != nil {
			from.users = u
			from.checks, from.closers = append(from.checks, u.Check), append(from.closers, u)
		}
	case typeLDAP:
		l := &c.Users.LDAP
		u, err := ldapusers.New(ldapusers.Config{
			URL: l.URL, StartTLS: l.StartTLS, Insecure: l.Insecure, Authorities: doc.relative(l.CA),
			BindDN: l.BindDN, BindPassword: doc.secret("users.ldap", "bind_password", l.PasswordFile, l.PasswordEnv),
			Base: l.Base, Filter: l.Filter, Username: l.Username, ID: l.ID, Version: l.Version, Disabled: l.Disabled,
			GroupAttribute: l.GroupAttribute, GroupBase: l.GroupBase, GroupFilter: l.GroupFilter,
			Rights: everybody, Groups: groups, Connections: l.Connections,
		})
		if err != nil {
			if doc.clean("users.ldap") {
				doc.wrong("users.ldap", "%v", err)
			}
			return
		}
		from.users = guard.Users(g, u)
		from.checks, from.closers = append(from.checks, u.Check), append(from.closers, u)
	}
}

// open makes the users of a web service, or says what is wrong.
func (h *httpConfig) open(doc *document, key string) *httpusers.Users {
	var secret string
	if h.SecretFile != "" || h.SecretEnv != "" {
		secret = doc.secret(key, "secret", h.SecretFile, h.SecretEnv)
	}
	u, err := httpusers.New(httpusers.Config{
		URL: h.URL, Secret: []byte(secret),
		Certificate: doc.relative(h.Certificate), Key: doc.relative(h.Key), Authorities: doc.relative(h.CA),
	})
	if err != nil && doc.clean(key) {
		doc.wrong(key, "%v", err)
	}
	return u
}

// open makes the users of a database, or says what is wrong.
func (q *sqlConfig) open(doc *document, key string, cfg sqlusers.Config) *sqlusers.Users {
	cfg.Driver, cfg.Source = q.Driver, doc.relative(q.File)
	switch {
	case q.Driver == "":
		doc.wrong(key, "driver is missing: %s or %s", sqlusers.SQLite, sqlusers.Postgres)
		return nil
	case q.Driver == sqlusers.SQLite && (q.File == "" || q.URLFile != "" || q.URLEnv != ""):
		doc.wrong(key, "driver %q has its database in file", q.Driver)
		return nil
	case q.Driver == sqlusers.Postgres && q.File != "":
		doc.wrong(key+".file", "is for driver %q; %q has url_file or url_env", sqlusers.SQLite, q.Driver)
		return nil
	case q.Driver == sqlusers.Postgres:
		if cfg.Source = doc.secret(key, "url", q.URLFile, q.URLEnv); cfg.Source == "" {
			return nil
		}
	}
	u, err := sqlusers.Open(cfg)
	if err != nil {
		doc.wrong(key, "%v", err)
	}
	return u
}

// sourcePatience is how long a source is waited for at the start.
const sourcePatience = 5 * time.Second

// Use has the gateway ask the source. One that is wrong is an error; one that is down is not, for the stream needs none.
func (s *UserSource) Use(ctx context.Context, g *gateway.Config) error {
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	for _, check := range s.checks {
		err := check(ctx)
		switch {
		case errors.Is(err, broker.ErrUnavailable):
			g.Logger.Warn("user base not reached, nobody can log in until it is", "error", err)
		case err != nil:
			return fmt.Errorf("check the user base: %w", err)
		}
	}
	switch {
	case s.users != nil:
		g.Users, g.Accounts = s.users, s.accounts
	case s.accounts != nil || s.none: // of users who are built in
		local := g.Data.Users
		g.Users, g.WatchUsers, g.Accounts = local, local.Watch, s.accounts
	}
	return nil
}
