package local

import (
	"context"
	"database/sql"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/internal/base/audit"
	_ "modernc.org/sqlite"
)

// places returns the databases that need no other process.
var places = []struct {
	name string
	open func(t testing.TB) *sql.DB
}{
	{"file", func(t testing.TB) *sql.DB { return openDB(t, filepath.Join(t.TempDir(), "users.db")) }},
	{"memory", func(t testing.TB) *sql.DB { return openDB(t, ":memory:") }},
}

// onPostgres runs a test on an empty database of PostgreSQL.
func onPostgres(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	test(t, openPostgres(t).Writer())
}

// everywhere runs a test on each of the databases.
func everywhere(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { test(t, p.open(t)) })
	}
}

func openDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func openBase(t testing.TB, db *sql.DB) *Base {
	t.Helper()
	b, err := Open(t.Context(), Config{Writer: db, Postgres: isPostgres(db), Cost: cheap(), Secret: []byte("a secret of this test alone")})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cheap is the cost of hashes in tests with many.
func cheap() password.Cost { return password.Cost{Memory: 64, Time: 1} }

// openAudited opens a Base whose audit log is a table of the same database, so that it has exactly
// the committed events.
func openAudited(t testing.TB, db *sql.DB) (*Base, func() []string) {
	t.Helper()
	words, number := dialect{postgres: isPostgres(db)}, "INTEGER"
	if words.postgres {
		number = "SERIAL"
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS diary (seq `+number+` PRIMARY KEY, line TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), Config{
		Writer: db, Postgres: words.postgres, Cost: cheap(), Secret: []byte("a secret of this test alone"), Actor: "command line",
		Audit: func(ctx context.Context, tx *sql.Tx, e audit.Event) error {
			if e.Actor != "command line" || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
			who := "-"
			if e.User != "" {
				who = "user"
			}
			_, err := tx.ExecContext(ctx, words.rebind(`INSERT INTO diary (line) VALUES (?)`), string(e.Kind)+" "+who+" "+e.Detail)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	return b, func() []string { // since the last call
		t.Helper()
		lines := texts(t, db, words.rebind(`SELECT line FROM diary ORDER BY seq LIMIT 1000 OFFSET ?`), read)
		read += len(lines)
		return lines
	}
}

// texts returns the rows of a query with one column.
func texts(t testing.TB, db *sql.DB, query string, args ...any) (list []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func add(t testing.TB, b *Base, username, password string) broker.User {
	t.Helper()
	u, err := b.Add(t.Context(), NewUser{
		Username: username, Password: password,
		Scopes:       []string{broker.ScopeAccounts, broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
		Limits:       broker.Limits{Connections: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestConformance(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			brokertest.Run(t, func(t *testing.T) brokertest.Base {
				return seeded(t, openBase(t, p.open(t)))
			})
		})
	}
}

func TestConformanceE2E(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		return seeded(t, openBase(t, openPostgres(t).Writer()))
	})
}

func seeded(t *testing.T, b *Base) brokertest.Base {
	const password = "correct horse battery"
	factor := add(t, b, "fiona", "fiona "+password)
	second, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	seed := brokertest.Base{
		Users: b, Accounts: b, SetPassword: b.SetPassword, Disable: b.Disable,
		SetNetworks: func(ctx context.Context, username string, networks []netip.Prefix) error {
			_, err := b.EditRights(ctx, username, func(r *Rights) error { r.Networks = networks; return nil })
			return err
		},
		SetExpiry: func(ctx context.Context, username string, at time.Time) error {
			_, err := b.SetExpiry(ctx, username, at)
			return err
		},
		SecondFactor: brokertest.Login{ID: factor.ID, Username: "fiona", Password: "fiona " + password},
		OTP:          func() string { return codeAt(t, second.Secret, time.Now()) },
	}
	for username, login := range map[string]*brokertest.Login{"maria": &seed.Trader, "otto": &seed.Other, "dario": &seed.Disabled} {
		u := add(t, b, username, username+" "+password)
		*login = brokertest.Login{ID: u.ID, Username: username, Password: username + " " + password}
	}
	for _, number := range []string{"200", "100"} {
		if _, err := b.AddAccount(t.Context(), "maria", broker.Account{Number: number}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Disable(t.Context(), "dario"); err != nil {
		t.Fatal(err)
	}
	return seed
}

// TestThreat05IdenticalWork checks that failed logins cannot be distinguished by their time: each
// computes one hash of the same cost.
func TestThreat05IdenticalWork(t *testing.T) {
	b, err := Open(t.Context(), Config{Writer: places[1].open(t), Secret: []byte("a secret of this test alone")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"maria", "dario", "poisoned", "fiona"} {
		add(t, b, name, "right password")
	}
	if err := b.Disable(t.Context(), "dario"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.writer.ExecContext(t.Context(), `UPDATE users SET password = replace(password, 'm=19456', 'm=4194304') WHERE username = 'poisoned'`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, username, password, otp string
		want                          error
	}{
		{"right", "maria", "right password", "", nil},
		{"wrong password", "maria", "wrong password", "", broker.ErrInvalidCredentials},
		{"unknown user", "nobody", "right password", "", broker.ErrInvalidCredentials},
		{"a name that nobody can have", "no\x00body", "right password", "", broker.ErrInvalidCredentials},
		{"disabled user", "dario", "right password", "", broker.ErrInvalidCredentials},
		{"disabled user, wrong password", "dario", "wrong password", "", broker.ErrInvalidCredentials},
		{"a row that asks for 4 GiB", "poisoned", "right password", "", broker.ErrInvalidCredentials},
		{"wrong one-time password", "fiona", "right password", "123456", broker.ErrInvalidCredentials},
		{"wrong password with a one-time password", "fiona", "wrong password", "123456", broker.ErrInvalidCredentials},
		{"wrong password without", "fiona", "wrong password", "", broker.ErrInvalidCredentials},
	} {
		before := b.Passwords().Stats()
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: c.username, Password: c.password, OTP: c.otp}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v", c.what, err)
		}
		after := b.Passwords().Stats()
		if after.Hashed-before.Hashed != 1 || after.Work-before.Work != 2*19456<<10 {
			t.Errorf("%s: %d hashes, %d bytes worked through", c.what, after.Hashed-before.Hashed, after.Work-before.Work)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	b, err := Open(t.Context(), Config{Writer: places[1].open(t), Cost: cheap(), Words: []string{"ACME", "Bank"}})
	if err != nil {
		t.Fatal(err)
	}
	add(t, b, "maria", "ten charac")
	for _, c := range []struct {
		what, username, password string
	}{
		{"no username", "", "ten charac"},
		{"long username", strings.Repeat("x", 129), "ten charac"},
		{"control character", "ma\nria", "ten charac"},
		{"username not UTF-8", "ma\xffria", "ten charac"},
		{"no password", "otto", ""},
		{"short password", "otto", "nine char"},
		{"nine characters in more bytes", "otto", "dos ñandú"},
		{"common password", "otto", "contraseña"},
		{"common password, longer", "otto", "QwertyUiop2026!"},
		{"one of the 3,000", "otto", "Fuckyou1234"},
		{"a word and a year", "otto", "Summer2026!"},
		{"the name of the service", "otto", "Rueda12345!"},
		{"the name of the company", "otto", "2026-Acme-Bank-2026"},
		{"both", "otto", "acme bank rueda 1"},
		{"the username and a few letters", "ottokar", "ottokar-abc-1"},
		{"one character", "otto", "aaaaaaaaaaaaaaa"},
		{"the username", "otto von bahn", "Otto von Bahn1"},
		{"long password", "otto", strings.Repeat("x", 1025)},
		{"password not UTF-8", "otto", "ten charac\xff"},
	} {
		if _, err := b.Add(t.Context(), NewUser{Username: c.username, Password: c.password}); err == nil {
			t.Errorf("%s: added", c.what)
		}
	}
	if _, err := b.Add(t.Context(), NewUser{Username: "maria", Password: "ten charac"}); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	if _, err := b.Add(t.Context(), NewUser{Username: "demo", Password: "demo", WeakPassword: true}); err != nil {
		t.Errorf("the way round the policy is closed: %v", err)
	}
	for _, bad := range []string{"short", "password123!"} {
		if err := b.SetPassword(t.Context(), "maria", bad); err == nil {
			t.Errorf("%q was set", bad)
		}
	}
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Username != "demo" || list[1].Username != "maria" {
		t.Errorf("users %+v, %v", list, err)
	}
}

func TestManageUnknown(t *testing.T) {
	b := openBase(t, places[1].open(t))
	for what, err := range map[string]error{
		"SetPassword": b.SetPassword(t.Context(), "nobody", "ten charac"),
		"Disable":     b.Disable(t.Context(), "nobody"),
		"Enable":      b.Enable(t.Context(), "nobody"),
		"AddAccount":  second(b.AddAccount(t.Context(), "nobody", broker.Account{Number: "1"})),
	} {
		if !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestDisableAndEnable(t *testing.T) {
	b := openBase(t, places[1].open(t))
	u := add(t, b, "maria", "right password")
	version := func() int64 {
		list, err := b.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Version
	}
	for range 2 { // the second time nothing changes
		if err := b.Disable(t.Context(), "maria"); err != nil {
			t.Fatal(err)
		}
	}
	if got := version(); got != u.Version+1 {
		t.Errorf("version %d, was %d", got, u.Version)
	}
	if err := b.Enable(t.Context(), "maria"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authenticate(t.Context(), broker.Login{Username: "maria", Password: "right password"}); err != nil {
		t.Errorf("enabled again: %v", err)
	}
}

func TestAccountNumberIsTakenOnce(t *testing.T) {
	b := openBase(t, places[1].open(t))
	add(t, b, "maria", "right password")
	if _, err := b.AddAccount(t.Context(), "maria", broker.Account{Number: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AddAccount(t.Context(), "maria", broker.Account{Number: "1"}); !errors.Is(err, ErrExists) {
		t.Errorf("error %v", err)
	}
}

// TestFirstAccountIsTheDefault checks that a user's only account is the default without a flag.
func TestFirstAccountIsTheDefault(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		b := openBase(t, db)
		for _, name := range []string{"maria", "dario"} {
			u := add(t, b, name, "right password")
			for _, number := range []string{"2", "1", "3"} {
				a, err := b.AddAccount(t.Context(), name, broker.Account{Number: name + number})
				if err != nil || a.IsDefault != (number == "2") {
					t.Errorf("%+v, %v", a, err)
				}
			}
			list, err := b.ListAccounts(t.Context(), u.ID)
			if err != nil || len(list) != 3 || list[0].IsDefault || !list[1].IsDefault || list[2].IsDefault {
				t.Errorf("%+v, %v", list, err)
			}
		}
	})
}

func TestNewerSchema(t *testing.T) {
	db := places[1].open(t)
	openBase(t, db)
	if _, err := db.ExecContext(t.Context(), "INSERT INTO users_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Writer: db}); err == nil || !strings.Contains(err.Error(), "of this program: run a newer program") {
		t.Errorf("error %v", err)
	}
}

func TestDatabaseDown(t *testing.T) {
	db := places[0].open(t)
	b := openBase(t, db)
	u := add(t, b, "maria", "right password")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, login := b.Authenticate(t.Context(), broker.Login{Username: "maria", Password: "right password"})
	_, read := b.User(t.Context(), u.ID)
	_, accounts := b.ListAccounts(t.Context(), u.ID)
	for what, err := range map[string]error{"login": login, "read": read, "accounts": accounts, "disable": b.Disable(t.Context(), "maria")} {
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWatchInBubble checks the timing: changes by other processes are reported within 500 ms, and
// other writes of this process not at all.
func TestWatchInBubble(t *testing.T) {
	for _, p := range places {
		if p.name == "postgres" {
			continue // covered by TestWatchPostgresE2E: the clock of a bubble stands still during network I/O
		}
		t.Run(p.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "users.db")
			synctest.Test(t, func(t *testing.T) {
				var db, elsewhere *sql.DB
				if p.name == "file" {
					db, elsewhere = openDB(t, path), openDB(t, path)
				} else {
					db = p.open(t)
				}
				b := openBase(t, db)
				var calls atomic.Int32
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- b.Watch(ctx, func() { calls.Add(1) }) }()
				expect := func(what string, want int32) {
					t.Helper()
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					if got := calls.Swap(0); got != want {
						t.Errorf("%s: reported %d times, want %d", what, got, want)
					}
				}
				expect("nothing", 0)
				add(t, b, "maria", "right password")
				expect("added here", 1)
				if _, err := db.ExecContext(ctx, "CREATE TABLE another (x)"); err != nil {
					t.Fatal(err)
				}
				expect("another table here", 0)
				if elsewhere != nil {
					other := openBase(t, elsewhere)
					expect("opened elsewhere", 0)
					if err := other.Disable(ctx, "maria"); err != nil {
						t.Fatal(err)
					}
					expect("disabled elsewhere", 1)
					for _, write := range []string{`INSERT INTO another VALUES (1)`, `UPDATE users SET password = password || 'x'`} {
						if _, err := elsewhere.ExecContext(ctx, write); err != nil {
							t.Fatal(err)
						}
						expect(write, 0)
					}
					if err := other.AddGroup(ctx, "equity", Rights{Scopes: []string{broker.ScopeRead}}); err != nil {
						t.Fatal(err)
					}
					if _, err := other.Join(ctx, "maria", "equity"); err != nil {
						t.Fatal(err)
					}
					expect("joined a group elsewhere", 1)
					if _, err := other.RemoveGroup(ctx, "equity"); err != nil {
						t.Fatal(err)
					}
					expect("group removed elsewhere", 1)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	base, err := Open(b.Context(), Config{Writer: places[1].open(b)})
	if err != nil {
		b.Fatal(err)
	}
	add(b, base, "maria", "right password")
	for b.Loop() {
		if _, err := base.Authenticate(b.Context(), broker.Login{Username: "maria", Password: "right password"}); err != nil {
			b.Fatal(err)
		}
	}
}
