package config

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/broker/ldapusers"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/broker/sqlusers"
	"github.com/ruedahq/rueda/gateway"
)

// UserSource is where users and accounts come from.
type UserSource struct {
	Type     string          // type of [users]
	users    broker.Users    // nil: the built-in users
	accounts broker.Accounts // nil: the built-in accounts if users is nil, otherwise none
	none     bool            // no user has accounts
	groups   func(context.Context, string) ([]broker.Membership, error)
	doc      *document // the configuration, for messages
	checks   []sourceCheck
	closers  []io.Closer // in the order of closing
}

// sourceCheck checks a source at the start.
type sourceCheck struct {
	key string // key of its table
	ask func(context.Context) error
}

// BuiltIn reports whether users are in the gateway's own database.
func (s *UserSource) BuiltIn() bool { return s.users == nil }

// NeedsData reports whether users or accounts are in the gateway's own database.
func (s *UserSource) NeedsData() bool { return s.users == nil || s.accounts == nil && !s.none }

// Groups returns the groups of a user. ok is false if the source has no groups with configured
// rights.
func (s *UserSource) Groups(ctx context.Context, id string) (list []broker.Membership, ok bool, err error) {
	if s.groups == nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	list, err = s.groups(ctx, id)
	return list, true, err
}

// Close waits for calls in flight.
func (s *UserSource) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// sources creates the sources of [users] and [accounts]. It reads files and does not connect.
func (c *mainFile) sources(doc *document, s *Settings) {
	from := &s.Users
	from.Type, from.none, from.doc = c.Users.Type, c.Accounts.Type == typeNone, doc
	before := func(name string, limit duration) *guard.Guard {
		return guard.New(guard.Config{Name: name, Limit: time.Duration(limit), Logger: s.Gateway.Logger})
	}
	if c.Users.Type != typeLocal && doc.clean("users") {
		g := before("users", c.Users.Limit)
		from.closers = append(from.closers, g)
		c.userSource(doc, s, g)
	}
	if doc.clean("accounts") {
		c.accountSource(doc, from, before("accounts", c.Accounts.Limit))
	}
}

// accountSource creates the source of [accounts]. It does not repeat mistakes of values shared with
// [users].
func (c *mainFile) accountSource(doc *document, from *UserSource, g *guard.Guard) {
	switch c.Accounts.Type {
	case typeHTTP:
		a, key := c.Accounts.HTTP, "accounts.http"
		if a == (httpConfig{}) && c.Users.Type == typeHTTP {
			if a, key = c.Users.HTTP, "users.http"; !doc.clean("users") {
				return
			}
		}
		if u := a.open(doc, key); u != nil {
			from.accounts = guard.Accounts(g, u)
			from.check(key, u.Check)
			from.closers = append(from.closers, g, u)
		}
	case typeSQL:
		a, key := c.Accounts.SQL, "accounts.sql"
		at := sqlConfig{Driver: a.Driver, File: a.File, URLFile: a.URLFile, URLEnv: a.URLEnv, URLCommand: a.URLCommand}
		if a.Query == "" {
			doc.wrong("accounts.sql", "query is missing: the SELECT of a user's accounts")
		}
		if at == (sqlConfig{}) && c.Users.Type == typeSQL {
			if at, key = c.Users.SQL, "users.sql"; !doc.clean("users") {
				doc.blame("accounts.sql", sqlusers.CheckQueries(sqlusers.Config{Driver: at.Driver, Accounts: a.Query}))
				return
			}
		}
		if u := at.open(doc, key, sqlusers.Config{Accounts: a.Query, Guard: g}); u != nil {
			from.accounts = u
			from.check(key, u.Check)
			from.closers = append(from.closers, g, u)
		}
	}
}

func (s *UserSource) check(key string, ask func(context.Context) error) {
	s.checks = append(s.checks, sourceCheck{key, ask})
}

func (c *mainFile) userSource(doc *document, s *Settings, g *guard.Guard) {
	everybody, groups := c.Users.groups()
	from := &s.Users
	switch c.Users.Type {
	case typeHTTP:
		if u := c.Users.HTTP.open(doc, "users.http"); u != nil {
			from.users = guard.Users(g, u)
			from.check("users.http", u.Check)
			from.closers = append(from.closers, u)
		}
	case typeSQL:
		q := &c.Users.SQL
		for _, needed := range []struct{ name, text, by string }{{"login", q.Login, "name"}, {"user", q.User, "id"}} {
			if needed.text == "" {
				doc.wrong("users.sql", "%s is missing: the SELECT of a user by %s", needed.name, needed.by)
			}
		}
		u := q.open(doc, "users.sql", sqlusers.Config{
			Login: q.Login, User: q.User, Rights: everybody, Groups: groups, Guard: g, Logger: s.Gateway.Logger,
			Passwords: password.New(password.Config{Slots: c.Auth.PasswordSlots}),
		})
		if u != nil {
			from.users, from.groups = u, u.Groups
			from.check("users.sql", u.Check)
			from.closers = append(from.closers, u)
		}
	case typeLDAP:
		l := &c.Users.LDAP
		u, err := ldapusers.New(ldapusers.Config{
			URL: l.URL, StartTLS: l.StartTLS, Insecure: l.Insecure, Authorities: doc.relative(l.CA),
			BindDN: l.BindDN, BindPassword: doc.secret("users.ldap", "bind_password", secretSource{l.PasswordFile, l.PasswordEnv, l.PasswordCommand}),
			Base: l.Base, Filter: l.Filter, Username: l.Username, ID: l.ID, Version: l.Version, Disabled: l.Disabled, Expires: l.Expires, Networks: l.Networks,
			GroupAttribute: l.GroupAttribute, GroupBase: l.GroupBase, GroupFilter: l.GroupFilter,
			Rights: everybody, Groups: groups, Connections: l.Connections,
		})
		if err != nil {
			if doc.clean("users.ldap") {
				doc.wrong("users.ldap", "%v", err)
			}
			return
		}
		from.users, from.groups = guard.Users(g, u), u.Groups
		from.check("users.ldap", u.Check)
		from.closers = append(from.closers, u)
	}
}

// open returns the users of a web service, or reports mistakes.
func (h *httpConfig) open(doc *document, key string) *httpusers.Users {
	var secret string
	if from := (secretSource{h.SecretFile, h.SecretEnv, h.SecretCommand}); from.exists() {
		secret = doc.secret(key, "secret", from)
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

// open returns the users of a database, or reports mistakes in it and in the queries.
func (q *sqlConfig) open(doc *document, key string, cfg sqlusers.Config) *sqlusers.Users {
	cfg.Driver, cfg.Source = q.Driver, doc.relative(q.File)
	q.check(doc, key)
	if q.Driver == sqlusers.Postgres && doc.clean(key+".file") {
		cfg.Source = doc.secret(key, "url", q.source())
		doc.verified(key, cfg.Source)
	}
	doc.blame(key, sqlusers.CheckQueries(cfg))
	if !doc.clean(key) || !doc.clean("accounts.sql") {
		return nil
	}
	u, err := sqlusers.Open(cfg)
	if err != nil {
		doc.wrong(key, "%v", err)
	}
	return u
}

// source returns where the connection string comes from.
func (q *sqlConfig) source() secretSource { return secretSource{q.URLFile, q.URLEnv, q.URLCommand} }

func (q *sqlConfig) check(doc *document, key string) {
	switch {
	case q.Driver == "":
		doc.wrong(key, "driver is missing: %s or %s", sqlusers.SQLite, sqlusers.Postgres)
	case q.Driver != sqlusers.SQLite && q.Driver != sqlusers.Postgres:
		doc.wrong(key+".driver", "%q is neither %s nor %s", q.Driver, sqlusers.SQLite, sqlusers.Postgres)
	case q.Driver == sqlusers.SQLite && (q.File == "" || q.source().exists()):
		doc.wrong(key, "driver %q has its database in file", q.Driver)
	case q.Driver == sqlusers.Postgres && q.File != "":
		doc.wrong(key+".file", "is for driver %q; %q has url_file, url_env or url_command", sqlusers.SQLite, q.Driver)
	case q.Driver == sqlusers.SQLite:
		if _, err := os.Stat(doc.relative(q.File)); err != nil {
			doc.wrong(key+".file", "%v", err)
		}
	}
}

// blame reports an error of a source. The position is the query if the error is about one,
// otherwise the table.
func (d *document) blame(table string, err error) {
	var query *sqlusers.QueryError
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case !errors.As(err, &query):
		d.wrong(table, "%v", err)
	case several:
		for _, one := range joined.Unwrap() {
			d.blame(table, one)
		}
	case query.Query == "accounts":
		d.wrong("accounts.sql.query", "%v", query.Err)
	default:
		d.wrong("users.sql."+query.Query, "%v", query.Err)
	}
}

// Advice returns what an operator can do about a failed login.
func (s *UserSource) Advice(err error) string {
	var said *httpusers.Refused
	switch {
	case errors.Is(err, broker.ErrSecondFactor):
		return "The password is right. Add --otp CODE."
	case errors.Is(err, password.ErrHash):
		return "There is such a user, who cannot log in with any password. docs/identity.md says which hashes can be checked."
	case errors.Is(err, broker.ErrInvalidCredentials) && err.Error() != broker.ErrInvalidCredentials.Error():
		return "There is such a user, who cannot log in until that is mended."
	case errors.Is(err, broker.ErrInvalidCredentials):
		return "So says the user base of type " + s.Type + "; it does not tell an unknown user from a wrong password or a disabled user."
	case errors.As(err, &said) && (said.Status == http.StatusUnauthorized || said.Status == http.StatusForbidden):
		return "Has it the same secret, and the same time? docs/identity.md has an example to check against."
	}
	return "A gateway would answer 503."
}

// sourcePatience is the maximum wait for a source at the start.
const sourcePatience = 5 * time.Second

// Use sets the users and accounts of the gateway. builtIn is the built-in user base. A wrong
// configuration of the source is an error. A source that is down is only logged, because the stream
// works without it.
func (s *UserSource) Use(ctx context.Context, g *gateway.Config, builtIn *local.Base) error {
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	found, away := s.doc.again(), map[string]bool{}
	for _, c := range s.checks {
		if away[c.key] { // users and accounts in one place
			continue
		}
		err := c.ask(ctx)
		if errors.Is(err, broker.ErrUnavailable) {
			away[c.key] = true
			g.Logger.Warn("user base not reached, nobody can log in until it is", "error", err)
			continue
		}
		found.blame(c.key, err)
	}
	if err := found.err(); err != nil {
		return err
	}
	g.UsersType = s.Type
	switch {
	case s.users != nil:
		g.Users, g.Accounts = s.users, s.accounts
	case s.accounts != nil || s.none: // for built-in users
		g.Users, g.WatchUsers, g.Accounts = builtIn, builtIn.Watch, s.accounts
	}
	return nil
}
