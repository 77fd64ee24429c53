package sqlusers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/broker/sqlusers"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster holds the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestConformanceSQLite(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base { return sqlite(t).seed(t) })
}

// TestConformancePostgresE2E also uses a guard before the queries, as the gateway does.
func TestConformancePostgresE2E(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		b := postgres(t, cluster.Database(t))
		b.config.Guard = guard.New(guard.Config{})
		return b.seed(t)
	})
}

// TestThreat29Injection tries to log in as somebody else with SQL syntax.
func TestThreat29Injection(t *testing.T) { testInjection(t, sqlite(t)) }

func TestThreat29InjectionE2E(t *testing.T) { testInjection(t, postgres(t, cluster.Database(t))) }

func testInjection(t *testing.T, b *table) {
	u := open(t, b.config)
	for _, name := range []string{
		`' OR 1=1`, `' OR '1'='1`, `ana' --`, `ana'/*`, `'; DROP TABLE customers; --`, `ana'; UPDATE customers SET closed = TRUE; --`,
		`' UNION SELECT number, login, secret, 1, FALSE, '', NULL FROM customers --`, `\' OR 1=1 --`, `ana\00`, `\00`, "ana\x00", "\x00",
		`%`, `a%`, `an_`, `*)(uid=*`, `*`, ":username", "$1", "?", "", "\xff", "ana ", "Ana", strings.Repeat("a", 129),
	} {
		for _, password := range []string{"correct horse", `' OR 1=1`, "*", `\00`, ""} {
			user, err := u.Authenticate(t.Context(), broker.Login{Username: name, Password: password})
			if !errors.Is(err, broker.ErrInvalidCredentials) || user.ID != "" {
				t.Errorf("%q, %q: %+v, %v", name, password, user, err)
			}
		}
		if _, err := u.User(t.Context(), name); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("id %q: %v", name, err)
		}
		if list, err := u.ListAccounts(t.Context(), name); err != nil || len(list) != 0 {
			t.Errorf("accounts of %q: %v, %v", name, list, err)
		}
	}
	for _, id := range []string{"101 ", "0101", "101.0", "1e2", "101;", "99999999999999999999", "101 OR 1=1"} {
		if _, err := u.User(t.Context(), id); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if _, err := u.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "correct horse"}); err != nil {
		t.Error(err)
	}
}

// TestTable runs on one database, which these tests only read.
func TestTable(t *testing.T) { testTable(t, sqlite(t)) }

func TestTableE2E(t *testing.T) { testTable(t, postgres(t, cluster.Database(t))) }

func testTable(t *testing.T, b *table) {
	t.Run("rights", func(t *testing.T) { testRights(t, b) })
	t.Run("read only", func(t *testing.T) { testReadOnly(t, b) })
	t.Run("check", func(t *testing.T) { testCheck(t, b) })
	t.Run("rows that cannot be", func(t *testing.T) { testRowsThatCannotBe(t, b) })
	t.Run("foreign hash", func(t *testing.T) { testForeignHash(t, b) })
}

// TestSpellings checks that a query which treats spellings as equal accepts only the name itself
// and its letters in another case.
func TestSpellings(t *testing.T) { testSpellings(t, sqlite(t)) }

func TestSpellingsE2E(t *testing.T) { testSpellings(t, postgres(t, cluster.Database(t))) }

func testSpellings(t *testing.T, b *table) {
	for _, joined := range []string{"lower(trim(:username))", "lower(trim($1))"} {
		b.config.Login = strings.ReplaceAll(b.config.Login, strings.TrimSuffix(strings.TrimPrefix(joined, "lower(trim("), "))"), joined)
	}
	u := open(t, b.config)
	for name, right := range map[string]bool{"ana": true, "ANA": true, " ana": false, "ana  ": false, " Ana ": false} {
		user, err := u.Authenticate(t.Context(), broker.Login{Username: name, Password: "correct horse"})
		if right && err != nil || !right && (!errors.Is(err, broker.ErrInvalidCredentials) || user.ID != "") {
			t.Errorf("%q: %+v, %v", name, user, err)
		}
	}
}

// TestLoginIsNoOutageE2E checks that PostgreSQL's errors about the data of a login are not outages.
func TestLoginIsNoOutageE2E(t *testing.T) {
	b := postgres(t, cluster.Database(t))
	for what, condition := range map[string]string{
		"an escape at the end": `login LIKE $1`,                             // 22025
		"text that is no JSON": `login = $1::jsonb ->> 'name'`,              // 22P02
		"a NUL in JSON":        `login = $1::jsonb ->> 'name'`,              // 22P05
		"no number":            `number = $1::numeric::bigint`,              // 22003
		"a division":           `number = 1 / length(replace($1, 'x', ''))`, // 22012
	} {
		name := map[string]string{"an escape at the end": `ana\`, "a NUL in JSON": `{"name":"\u0000"}`, "no number": "1e99", "a division": "xx"}[what]
		if name == "" {
			name = "ana"
		}
		c := b.config
		from, _, _ := strings.Cut(c.Login, "WHERE")
		c.Login = from + "WHERE " + condition
		if _, err := open(t, c).Authenticate(t.Context(), broker.Login{Username: name, Password: "x"}); !errors.Is(err, broker.ErrInvalidCredentials) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// testRights reads the rights of a row and its groups.
func testRights(t *testing.T, b *table) {
	u := open(t, b.config)
	ana, err := u.User(t.Context(), "101")
	ana.Version = 0
	want := broker.User{
		ID: "101", Username: "ana", Scopes: []string{broker.ScopeRead}, Limits: broker.Limits{Connections: 2},
		Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true, Depth: 5}, {Market: "*", Trades: true}},
	}
	if err != nil || !reflect.DeepEqual(ana, want) {
		t.Errorf("%+v, %v\nwant %+v", ana, err, want)
	}
	list, err := u.ListAccounts(t.Context(), "101")
	if err != nil || len(list) != 2 || list[0].ID != "p-1" || !reflect.DeepEqual(list[0].Currencies[:1], []string{"ARS"}) ||
		!list[0].IsDefault || list[0].CreatedAt.IsZero() || list[0].Roles != nil || list[0].Name != "" {
		t.Errorf("accounts %+v, %v", list, err)
	}
	groups, err := u.Groups(t.Context(), "101")
	if want := []broker.Membership{{Group: "traders", Granted: true}, {Group: "abroad"}}; err != nil || !reflect.DeepEqual(groups, want) {
		t.Errorf("groups %+v, %v", groups, err)
	}
	if groups, err := u.Groups(t.Context(), "102"); err != nil || groups != nil {
		t.Errorf("groups of nobody's: %+v, %v", groups, err)
	}
}

// testReadOnly tries all ways to write in a query.
func testReadOnly(t *testing.T, b *table) {
	queries := []string{`UPDATE customers SET closed = TRUE WHERE login = {p} RETURNING number AS id, login AS username, secret AS password_hash, 1 AS version`}
	if b.config.Driver == sqlusers.Postgres {
		queries = append(queries, `WITH gone AS (DELETE FROM portfolios) SELECT number AS id, login AS username, secret AS password_hash, 1 AS version FROM customers WHERE login = {p}`)
	}
	for _, q := range queries {
		cfg := b.config
		cfg.Login = strings.ReplaceAll(q, "{p}", map[string]string{sqlusers.SQLite: ":username", sqlusers.Postgres: "$1"}[cfg.Driver])
		u := open(t, cfg)
		if _, err := u.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "correct horse"}); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v", cfg.Login, err)
		}
	}
	var closed, portfolios int
	if err := b.writer.QueryRow(`SELECT count(*) FROM customers WHERE closed`).Scan(&closed); err != nil {
		t.Fatal(err)
	}
	if err := b.writer.QueryRow(`SELECT count(*) FROM portfolios`).Scan(&portfolios); err != nil {
		t.Fatal(err)
	}
	if closed != 1 || portfolios != 2 {
		t.Errorf("%d customers are closed, %d portfolios are left", closed, portfolios)
	}
}

// testCheck checks which query is reported as wrong, and why.
func testCheck(t *testing.T, b *table) {
	p := map[string]string{sqlusers.SQLite: ":username", sqlusers.Postgres: "$1"}[b.config.Driver]
	for _, tc := range []struct{ query, want string }{
		{`SELEKT ` + p, "query login"},
		{`SELECT nothing FROM customers WHERE login = ` + p, "nothing"},
		{`SELECT 1 AS id FROM nowhere WHERE login = ` + p, "nowhere"},
		{`SELECT number AS id, login AS username, secret AS password_hash FROM customers WHERE login = ` + p, "0 AS version"},
		{`SELECT number AS id, login AS username, 0 AS version FROM customers WHERE login = ` + p, "column password_hash is missing"},
		{`SELECT number AS id, login AS user_name, secret AS password_hash, 0 AS version FROM customers WHERE login = ` + p, `column "user_name" has no meaning`},
		{`SELECT number AS id, number AS id, login AS username, secret AS password_hash, 0 AS version FROM customers WHERE login = ` + p, "column id is there twice"},
	} {
		cfg := b.config
		cfg.Login = tc.query
		err := open(t, cfg).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "query login") || errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v, want %q", tc.query, err, tc.want)
		}
	}
	other := map[string]string{"$1": ":username", ":username": "$1"}[p]
	for end, want := range map[string]string{"'ana'": "does not contain its parameter " + p, other: "'s parameter is " + p + "; " + other + " is "} {
		cfg := b.config
		cfg.Login = `SELECT number AS id, login AS username, secret AS password_hash, 0 AS version FROM customers WHERE login = ` + end
		cfg.Accounts = `SELECT 1`
		_, err := sqlusers.Open(cfg)
		if err == nil || !strings.Contains(err.Error(), "query login: ") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "query accounts: ") {
			t.Errorf("%s: %v", end, err)
		}
	}
	if b.config.Driver == sqlusers.SQLite {
		cfg := b.config
		cfg.Source = filepath.Join(t.TempDir(), "none.db")
		if err := open(t, cfg).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "read the database") || strings.Contains(err.Error(), "query") {
			t.Errorf("without a file: %v", err)
		}
	}
}

// testForeignHash has hashes that cannot be checked: a wrong password for the client, a log line
// for the operator.
func testForeignHash(t *testing.T, b *table) {
	var log bytes.Buffer
	cfg := b.config
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Login = strings.Replace(cfg.Login, "secret AS password_hash", "'{MD5}canary' AS password_hash", 1)
	u := open(t, cfg)
	for _, name := range []string{"ana", "ana", "carl", "nobody"} { // nothing is logged for carl, who is disabled
		user, err := u.Authenticate(t.Context(), broker.Login{Username: name, Password: "correct horse"})
		if !errors.Is(err, broker.ErrInvalidCredentials) || errors.Is(err, password.ErrHash) != (name == "ana") || user.Username != "" {
			t.Errorf("%s: %+v, %v", name, user, err)
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "user=101") || strings.Contains(got, "canary") {
		t.Errorf("the log says:\n%s", got)
	}
}

// testRowsThatCannotBe has rows that are not users: logins fail, and the error names the column.
func testRowsThatCannotBe(t *testing.T, b *table) {
	p := map[string]string{sqlusers.SQLite: ":", sqlusers.Postgres: "$1"}[b.config.Driver]
	where := func(parameter string) string { return p + map[string]string{":": parameter, "$1": ""}[p] }
	for _, tc := range []struct{ columns, want string }{
		{`'x' AS version`, "column version"},
		{`1 AS version, 'perhaps' AS disabled`, "column disabled"},
		{`1 AS version, NULL AS disabled`, "column disabled is NULL"},
		{`1 AS version, NULLIF(login, login) <> 'active' AS disabled`, "column disabled is NULL"},
		{`1 AS version, '[1]' AS scopes`, "column scopes"},
		{`1 AS version, 'a"b' AS scopes`, "scope"},
		{`1 AS version, '{}' AS entitlements`, "column entitlements"},
		{`1 AS version, '[{"mraket":"*"}]' AS entitlements`, "column entitlements"},
		{`1 AS version, '[] []' AS entitlements`, "column entitlements"},
		{`1 AS version, '{"connections":-1}' AS limits`, "limit"},
		{`1 AS version, '192.0.2.0/24, 10.0.0.0/8' AS networks`, "column networks"},
		{`1 AS version, '["192.0.2.1/24"]' AS networks`, "column networks"},
		{`1 AS version, 'never' AS expires_at`, "column expires_at"},
	} {
		cfg := b.config
		cfg.Login = `SELECT number AS id, login AS username, secret AS password_hash, ` + tc.columns + ` FROM customers WHERE login = ` + where("username")
		cfg.User = `SELECT number AS id, login AS username, ` + tc.columns + ` FROM customers WHERE number = ` + where("id")
		u := open(t, cfg)
		_, err := u.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "correct horse"})
		if !errors.Is(err, broker.ErrInvalidCredentials) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: login %v", tc.columns, err)
		}
		if _, err := u.User(t.Context(), "101"); !errors.Is(err, broker.ErrBadUser) || errors.Is(err, broker.ErrInvalidCredentials) ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: user %v", tc.columns, err)
		}
	}
	cfg := b.config
	cfg.Login = `SELECT number AS id, login AS username, secret AS password_hash, 1 AS version FROM customers WHERE login <> ` + where("username")
	_, err := open(t, cfg).Authenticate(t.Context(), broker.Login{Username: "ana", Password: "correct horse"})
	if !errors.Is(err, broker.ErrInvalidCredentials) || !strings.Contains(err.Error(), "several rows") {
		t.Errorf("several rows: %v", err)
	}
}

// TestDatabaseDownE2E kills PostgreSQL and starts it again: an outage, never a wrong password.
func TestDatabaseDownE2E(t *testing.T) {
	s := pgtest.Start(t)
	b := postgres(t, s.CreateDatabase(t, "rueda"))
	u := open(t, b.config)
	right := broker.Login{Username: "ana", Password: "correct horse"}
	if _, err := u.Authenticate(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	for _, l := range []broker.Login{right, {Username: "ana", Password: "wrong"}, {Username: "nobody", Password: "wrong"}} {
		if _, err := u.Authenticate(t.Context(), l); !errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrInvalidCredentials) {
			t.Errorf("without a database: %v", err)
		}
	}
	if _, err := u.User(t.Context(), "101"); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("without a database: %v", err)
	}
	if err := u.Check(t.Context()); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("check without a database: %v", err)
	}
	s.Restart(t)
	for late := time.Now().Add(time.Minute); ; {
		_, err := u.Authenticate(t.Context(), right)
		if err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after the restart: %v", err)
		}
	}
}

// TestSameWork checks that an unknown user, a wrong password, a disabled user and a row with an
// invalid hash cost the same.
func TestSameWork(t *testing.T) {
	b := sqlite(t)
	u := open(t, b.config)
	b.exec(t, `INSERT INTO customers (number, login, secret) VALUES (104, 'dora', 'no hash')`)
	work := map[uint64][]string{}
	for _, l := range []broker.Login{
		{Username: "ana", Password: "wrong"}, {Username: "nobody", Password: "wrong"}, {Username: "dora", Password: "no hash"},
		{Username: "carl", Password: "out of order"}, {Username: "carl", Password: "wrong"}, {Username: "\xff", Password: "wrong"},
	} {
		before := b.config.Passwords.Stats()
		if _, err := u.Authenticate(t.Context(), l); !errors.Is(err, broker.ErrInvalidCredentials) {
			t.Errorf("%q: %v", l.Username, err)
		}
		after := b.config.Passwords.Stats()
		if after.Hashed != before.Hashed+1 {
			t.Errorf("%q: %d hashes", l.Username, after.Hashed-before.Hashed)
		}
		work[after.Work-before.Work] = append(work[after.Work-before.Work], l.Username)
	}
	if len(work) != 1 {
		t.Errorf("the work differs: %v", work)
	}
}

// TestWaitingLoginsSayNothing fills the password slots: the breaker before the queries does not
// change.
func TestWaitingLoginsSayNothing(t *testing.T) {
	b := sqlite(t)
	g := guard.New(guard.Config{Failures: 1})
	b.config.Guard = g
	u := open(t, b.config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if _, err := u.Authenticate(ctx, broker.Login{Username: "ana", Password: "x"}); !errors.Is(err, broker.ErrUnavailable) {
			t.Error(err)
		}
	}
	if g.State() != guard.Closed {
		t.Error(g.State())
	}
}

func TestConfig(t *testing.T) {
	const query = "SELECT 1 AS id WHERE $1"
	for _, tc := range []struct {
		cfg  sqlusers.Config
		want string
	}{
		{sqlusers.Config{Driver: "mysql", Source: "x", Accounts: query}, `"mysql"`},
		{sqlusers.Config{Driver: sqlusers.SQLite, Accounts: query}, "source is missing"},
		{sqlusers.Config{Driver: sqlusers.SQLite, Source: "x"}, "no query"},
		{sqlusers.Config{Driver: sqlusers.SQLite, Source: "x", Login: query}, "go together"},
		{sqlusers.Config{Driver: sqlusers.SQLite, Source: "x", Accounts: query}, ":user_id"},
		{sqlusers.Config{Driver: sqlusers.Postgres, Source: "postgres://a:canary@b:port/", Accounts: query}, "connection string"},
		{sqlusers.Config{Driver: sqlusers.Postgres, Source: "postgres://a:canary@db.example/x", Accounts: query}, "sslmode"},
		{sqlusers.Config{Driver: sqlusers.Postgres, Source: "host=db.example password=canary sslmode=disable", Accounts: query}, "sslmode"},
	} {
		_, err := sqlusers.Open(tc.cfg)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: %v, want %q", tc.cfg.Driver, err, tc.want)
		}
	}
	missing := open(t, sqlusers.Config{Driver: sqlusers.SQLite, Source: filepath.Join(t.TempDir(), "none.db"), Accounts: "SELECT :user_id"})
	if err := missing.Check(t.Context()); err == nil || errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a file that is not there: %v", err)
	}
}
