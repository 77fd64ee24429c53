package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/broker/ldapusers"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/broker/sqlusers"
	"github.com/ruedahq/rueda/gateway"
)

// usersConfig is the table [users]: where the users are, and what they may do if that does not say it.
type usersConfig struct {
	Type     string        `toml:"type"`
	Limit    duration      `toml:"limit"`
	InFlight int           `toml:"in_flight"`
	SQL      sqlConfig     `toml:"sql"`
	HTTP     httpConfig    `toml:"http"`
	LDAP     ldapConfig    `toml:"ldap"`
	Rights   []rightConfig `toml:"right"`
}

// accountsConfig is the table [accounts].
type accountsConfig struct {
	Type     string            `toml:"type"`
	Limit    duration          `toml:"limit"`
	InFlight int               `toml:"in_flight"`
	SQL      accountsSQLConfig `toml:"sql"`
	HTTP     httpConfig        `toml:"http"`
}

type sqlConfig struct {
	Driver  string `toml:"driver"`
	File    string `toml:"file"`
	URLFile string `toml:"url_file"`
	URLEnv  string `toml:"url_env"`
	Login   string `toml:"login"`
	User    string `toml:"user"`
}

type accountsSQLConfig struct {
	Driver  string `toml:"driver"`
	File    string `toml:"file"`
	URLFile string `toml:"url_file"`
	URLEnv  string `toml:"url_env"`
	Query   string `toml:"query"`
}

type httpConfig struct {
	URL         string `toml:"url"`
	SecretFile  string `toml:"secret_file"`
	SecretEnv   string `toml:"secret_env"`
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	CA          string `toml:"ca"`
}

type ldapConfig struct {
	URL            string `toml:"url"`
	StartTLS       bool   `toml:"starttls"`
	Insecure       bool   `toml:"insecure"`
	CA             string `toml:"ca"`
	BindDN         string `toml:"bind_dn"`
	PasswordFile   string `toml:"bind_password_file"`
	PasswordEnv    string `toml:"bind_password_env"`
	Base           string `toml:"base"`
	Filter         string `toml:"filter"`
	Username       string `toml:"username"`
	ID             string `toml:"id"`
	Version        string `toml:"version"`
	Disabled       string `toml:"disabled"`
	GroupAttribute string `toml:"group_attribute"`
	GroupBase      string `toml:"group_base"`
	GroupFilter    string `toml:"group_filter"`
	Connections    int    `toml:"connections"`
}

// rightConfig is what a group, or everybody, may do.
type rightConfig struct {
	Group             string   `toml:"group"`
	Scopes            []string `toml:"scopes"`
	Market            string   `toml:"market"`
	Trades            bool     `toml:"trades"`
	Quotes            bool     `toml:"quotes"`
	Depth             int      `toml:"depth"`
	Delay             duration `toml:"delay"`
	Connections       int      `toml:"connections"`
	Subscriptions     int      `toml:"subscriptions"`
	MessagesPerSecond int      `toml:"messages_per_second"`
	RequestsPerMinute int      `toml:"requests_per_minute"`
}

// Types of [users] and [accounts].
const (
	typeLocal = "local"
	typeSQL   = "sql"
	typeHTTP  = "http"
	typeLDAP  = "ldap"
	typeNone  = "none"
)

// checkUsers finds what can be told without the files and servers that are named.
func (c *config) checkUsers(doc *document) {
	u, a := &c.Users, &c.Accounts
	u.Type = cmp.Or(u.Type, typeLocal)
	if a.Type == "" {
		a.Type = typeNone
		if u.Type == typeLocal {
			a.Type = typeLocal
		}
	}
	for _, t := range []struct {
		key, value string
		good       []string
	}{
		{"users.type", u.Type, []string{typeLocal, typeSQL, typeHTTP, typeLDAP}},
		{"accounts.type", a.Type, []string{typeLocal, typeSQL, typeHTTP, typeNone}},
	} {
		if !slices.Contains(t.good, t.value) {
			doc.wrong(t.key, "%q is none of %s", t.value, strings.Join(t.good, ", "))
		}
	}
	if a.Type == typeLocal && u.Type != typeLocal && doc.clean("users.type") {
		doc.wrong("accounts.type", "local accounts are those of local users, and [users] has type = %q", u.Type)
	}
	for _, t := range []struct {
		key           string
		used, written bool
	}{
		{"users.sql", u.Type == typeSQL, u.SQL != sqlConfig{}}, {"users.http", u.Type == typeHTTP, u.HTTP != httpConfig{}},
		{"users.ldap", u.Type == typeLDAP, u.LDAP != ldapConfig{}},
		{"accounts.sql", a.Type == typeSQL, a.SQL != accountsSQLConfig{}}, {"accounts.http", a.Type == typeHTTP, a.HTTP != httpConfig{}},
	} {
		if table, name, _ := strings.Cut(t.key, "."); t.written && !t.used {
			doc.wrong(t.key, "is not used: [%s] has no type = %q", table, name)
		}
	}
	for key, d := range map[string]duration{"users.limit": u.Limit, "accounts.limit": a.Limit} {
		if d != 0 && (time.Duration(d) < 100*time.Millisecond || time.Duration(d) > time.Minute) {
			doc.wrong(key, "is not from 100ms to 1m")
		}
	}
	for key, n := range map[string]int{"users.in_flight": u.InFlight, "accounts.in_flight": a.InFlight, "users.ldap.connections": u.LDAP.Connections} {
		if n < 0 || n > 10_000 {
			doc.wrong(key, "is not from 1 to 10000; leave it out for the default")
		}
	}
	c.checkRights(doc)
}

func (c *config) checkRights(doc *document) {
	for i, r := range c.Users.Rights {
		key := fmt.Sprintf("users.right[%d]", i)
		if c.Users.Type != typeSQL && c.Users.Type != typeLDAP {
			doc.wrong(key, "is for users of type sql or ldap: where they are local or come over HTTP, their rights come with them")
			return
		}
		if r.Delay != 0 && !slices.Contains(c.Stream.Delays, r.Delay) {
			doc.wrong(key+".delay", "%v is none of stream.delays", time.Duration(r.Delay))
		}
		if r.Market == "" && (r.Trades || r.Quotes || r.Depth != 0 || r.Delay != 0) {
			doc.wrong(key, "has no market, such as \"*\" for all")
		}
		sample := broker.User{ID: "x", Username: "x"}
		sample.Scopes, sample.Limits = r.Scopes, r.rights().Limits
		if sample.Entitlements = r.rights().Entitlements; doc.clean(key) {
			if err := sample.Check(); err != nil {
				doc.wrong(key, "%v", err)
			}
		}
	}
}

func (r *rightConfig) rights() broker.Rights {
	rights := broker.Rights{Scopes: r.Scopes, Limits: broker.Limits{
		Connections: r.Connections, Subscriptions: r.Subscriptions,
		MessagesPerSecond: r.MessagesPerSecond, RequestsPerMinute: r.RequestsPerMinute,
	}}
	if r.Market != "" {
		rights.Entitlements = []broker.Entitlement{{
			Market: r.Market, Trades: r.Trades, Quotes: r.Quotes, Depth: r.Depth, Delay: int(time.Duration(r.Delay) / time.Second),
		}}
	}
	return rights
}

// groups are the rights of everybody, and those of each group.
func (u *usersConfig) groups() (everybody broker.Rights, groups map[string]broker.Rights) {
	of := map[string]broker.User{}
	for i := range u.Rights {
		sum := of[u.Rights[i].Group]
		sum.Grant(u.Rights[i].rights())
		of[u.Rights[i].Group] = sum
	}
	groups = map[string]broker.Rights{}
	for name, sum := range of {
		groups[name] = broker.Rights{Scopes: sum.Scopes, Entitlements: sum.Entitlements, Limits: sum.Limits}
	}
	everybody = groups[""]
	delete(groups, "")
	return everybody, groups
}

// userSource is where users and accounts come from, if that is not the built-in base.
type userSource struct {
	kind     string // type of [users]
	users    broker.Users
	accounts broker.Accounts // nil: the built-in ones, with users nil; none otherwise
	none     bool            // nobody has accounts
	checks   []func(context.Context) error
	closers  []io.Closer // in the order of closing
}

// close waits for calls that are on their way.
func (s *userSource) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// sources makes what [users] and [accounts] name. It reads files and connects to nothing.
func (c *config) sources(doc *document, s *settings) {
	from := &s.source
	from.kind, from.none = c.Users.Type, c.Accounts.Type == typeNone
	if !doc.clean("users") || !doc.clean("accounts") {
		return
	}
	before := func(name string, limit duration, inFlight int) *guard.Guard {
		return guard.New(guard.Config{Name: name, Limit: time.Duration(limit), InFlight: inFlight, Logger: s.log})
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

func (c *config) userSource(doc *document, from *userSource, g *guard.Guard) {
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

// maxSecret is more than any password or connection string has.
const maxSecret = 16 << 10

// secret reads what a configuration names and does not say: the text of a file that not everybody may read, without the
// line end, or an environment variable.
func (d *document) secret(key, name, file, env string) string {
	switch {
	case file == "" && env == "":
		d.wrong(key, "%s_file is missing: the file with it, of mode 0600; or %s_env, an environment variable", name, name)
		return ""
	case file != "" && env != "":
		d.wrong(key, "%s_file and %s_env are one too many", name, name)
		return ""
	case env != "":
		text := os.Getenv(env)
		if text == "" {
			d.wrong(key+"."+name+"_env", "the environment has no %s", env)
		}
		return text
	}
	key += "." + name + "_file"
	file = d.relative(file)
	info, err := os.Stat(file)
	switch {
	case err != nil:
		d.wrong(key, "%v", err)
		return ""
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		d.wrong(key, "%s is no file of at most %d bytes", file, maxSecret)
		return ""
	case info.Mode().Perm()&0o007 != 0:
		d.wrong(key, "%s can be read by everybody: chmod 600 %s", file, file)
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		d.wrong(key, "%v", err)
		return ""
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		d.wrong(key, "%s is empty", file)
	}
	return secret
}

// sourcePatience is how long a source is waited for at the start.
const sourcePatience = 5 * time.Second

// use has the gateway ask the source. One that is wrong is an error; one that is down is not, for the stream needs none.
func (s *userSource) use(ctx context.Context, g *gateway.Config) error {
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	for _, check := range s.checks {
		err := check(ctx)
		switch {
		case errors.Is(err, broker.ErrUnavailable):
			g.Logger.Warn("user base not reached, nobody can log in until it is", "error", err)
		case err != nil:
			return fail(exitUsage, fmt.Errorf("check the user base: %w", err), "")
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
