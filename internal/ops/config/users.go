package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// usersConfig is the table [users]: where users are, and their rights if the source has none.
type usersConfig struct {
	Type   string        `toml:"type"`
	Limit  duration      `toml:"limit"`
	SQL    sqlConfig     `toml:"sql"`
	HTTP   httpConfig    `toml:"http"`
	LDAP   ldapConfig    `toml:"ldap"`
	Rights []rightConfig `toml:"right"`
}

// accountsConfig is the table [accounts].
type accountsConfig struct {
	Type  string            `toml:"type"`
	Limit duration          `toml:"limit"`
	SQL   accountsSQLConfig `toml:"sql"`
	HTTP  httpConfig        `toml:"http"`
}

type sqlConfig struct {
	Driver     string    `toml:"driver"`
	File       string    `toml:"file"`
	URLFile    string    `toml:"url_file"`
	URLEnv     string    `toml:"url_env"`
	URLCommand *[]string `toml:"url_command"`
	Login      string    `toml:"login"`
	User       string    `toml:"user"`
}

type accountsSQLConfig struct {
	Driver     string    `toml:"driver"`
	File       string    `toml:"file"`
	URLFile    string    `toml:"url_file"`
	URLEnv     string    `toml:"url_env"`
	URLCommand *[]string `toml:"url_command"`
	Query      string    `toml:"query"`
}

type httpConfig struct {
	URL           string    `toml:"url"`
	SecretFile    string    `toml:"secret_file"`
	SecretEnv     string    `toml:"secret_env"`
	SecretCommand *[]string `toml:"secret_command"`
	Certificate   string    `toml:"certificate"`
	Key           string    `toml:"key"`
	CA            string    `toml:"ca"`
}

type ldapConfig struct {
	URL             string    `toml:"url"`
	StartTLS        bool      `toml:"starttls"`
	Insecure        bool      `toml:"insecure"`
	CA              string    `toml:"ca"`
	BindDN          string    `toml:"bind_dn"`
	PasswordFile    string    `toml:"bind_password_file"`
	PasswordEnv     string    `toml:"bind_password_env"`
	PasswordCommand *[]string `toml:"bind_password_command"`
	Base            string    `toml:"base"`
	Filter          string    `toml:"filter"`
	Username        string    `toml:"username"`
	ID              string    `toml:"id"`
	Version         string    `toml:"version"`
	Disabled        string    `toml:"disabled"`
	Expires         string    `toml:"expires"`
	Networks        string    `toml:"networks"`
	GroupAttribute  string    `toml:"group_attribute"`
	GroupBase       string    `toml:"group_base"`
	GroupFilter     string    `toml:"group_filter"`
	Connections     int       `toml:"connections"`
}

// rightConfig is the rights of a group, or of all users.
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
	Networks          []string `toml:"networks"`
}

// Types of [users] and [accounts].
const (
	typeLocal = "local"
	typeSQL   = "sql"
	typeHTTP  = "http"
	typeLDAP  = "ldap"
	typeNone  = "none"
)

// checkUsers finds mistakes that need no files or servers.
func (c *mainFile) checkUsers(doc *document) {
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
			doc.notOneOf(t.key, t.value, t.good)
		}
	}
	if a.Type == typeLocal && u.Type != typeLocal && doc.clean("users.type") {
		doc.wrong("accounts.type", "local accounts need local users, but [users] has type = %q", u.Type)
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
			doc.wrong(key, "must be from 100ms to 1m")
		}
	}
	if n := u.LDAP.Connections; n < 0 || n > 10_000 {
		doc.wrong("users.ldap.connections", "must be from 1 to 10000; leave it out for the default")
	}
	c.checkRights(doc)
}

func (c *mainFile) checkRights(doc *document) {
	for i, r := range c.Users.Rights {
		key := fmt.Sprintf("users.right[%d]", i)
		if c.Users.Type != typeSQL && c.Users.Type != typeLDAP {
			doc.wrong(key, "is for users of type sql or ldap; local and HTTP users have their own rights")
			return
		}
		if r.Delay != 0 && !slices.Contains(c.Stream.Delays, r.Delay) {
			doc.wrong(key+".delay", "%v is not in stream.delays", time.Duration(r.Delay))
		}
		if r.Market == "" && (r.Trades || r.Quotes || r.Depth != 0 || r.Delay != 0) {
			doc.wrong(key, "market is missing, such as \"*\" for all")
		}
		if _, err := broker.ParseNetworks(r.Networks); err != nil {
			doc.wrong(key+".networks", "%v", err)
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
	rights.Networks, _ = broker.ParseNetworks(r.Networks) // checked before
	if r.Market != "" {
		rights.Entitlements = []broker.Entitlement{{
			Market: r.Market, Trades: r.Trades, Quotes: r.Quotes, Depth: r.Depth, Delay: int(time.Duration(r.Delay) / time.Second),
		}}
	}
	return rights
}

// groups returns the rights of all users, and those of each group.
func (u *usersConfig) groups() (everybody broker.Rights, groups map[string]broker.Rights) {
	of := map[string]broker.User{}
	for i := range u.Rights {
		sum := of[u.Rights[i].Group]
		sum.Grant(u.Rights[i].rights())
		of[u.Rights[i].Group] = sum
	}
	groups = map[string]broker.Rights{}
	for name, sum := range of {
		groups[name] = broker.Rights{Scopes: sum.Scopes, Entitlements: sum.Entitlements, Limits: sum.Limits, Networks: sum.Networks}
	}
	everybody = groups[""]
	delete(groups, "")
	return everybody, groups
}
