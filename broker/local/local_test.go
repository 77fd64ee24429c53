package local

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
)

// places are the databases a Base may be in.
var places = []struct {
	name string
	open func(t testing.TB) *sql.DB
}{
	{"file", func(t testing.TB) *sql.DB { return openDB(t, filepath.Join(t.TempDir(), "users.db")) }},
	{"memory", func(t testing.TB) *sql.DB { return openDB(t, ":memory:") }},
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
	b, err := Open(t.Context(), Config{Writer: db})
	if err != nil {
		t.Fatal(err)
	}
	return b
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
				b := openBase(t, p.open(t))
				if p.name == "file" { // the real hash once is enough
					b.kdf = fastKDF
				}
				return seeded(t, b)
			})
		})
	}
}

func seeded(t *testing.T, b *Base) brokertest.Base {
	const password = "correct horse battery"
	seed := brokertest.Base{Users: b, Accounts: b, SetPassword: b.SetPassword, Disable: b.Disable}
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

// TestEveryCheckHashes is the defence against telling users by time: whatever is
// wrong, one hash of the same cost was computed.
func TestEveryCheckHashes(t *testing.T) {
	b := openBase(t, places[1].open(t))
	add(t, b, "maria", "right password")
	add(t, b, "dario", "right password")
	add(t, b, "poisoned", "right password")
	if err := b.Disable(t.Context(), "dario"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.writer.ExecContext(t.Context(), `UPDATE users SET password = replace(password, 'm=19456', 'm=4194304') WHERE username = 'poisoned'`); err != nil {
		t.Fatal(err)
	}
	var costs []string
	argon := b.kdf
	b.kdf = func(password, salt []byte, time, memory uint32, threads uint8, keyLen uint32) []byte {
		h := passwordHash{memory: memory, time: time, threads: threads}
		costs = append(costs, strings.Split(h.String(), "$")[3])
		return argon(password, salt, time, memory, threads, keyLen)
	}
	for _, c := range []struct {
		what, username, password string
		want                     error
	}{
		{"right", "maria", "right password", nil},
		{"wrong password", "maria", "wrong password", broker.ErrInvalidCredentials},
		{"unknown user", "nobody", "right password", broker.ErrInvalidCredentials},
		{"disabled user", "dario", "right password", broker.ErrInvalidCredentials},
		{"a row that asks for 4 GiB", "poisoned", "right password", broker.ErrInvalidCredentials},
	} {
		costs = nil
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: c.username, Password: c.password}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v", c.what, err)
		}
		if len(costs) != 1 || costs[0] != "m=19456,t=2,p=1" {
			t.Errorf("%s: hashes computed: %v", c.what, costs)
		}
	}
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2, 3, 2*time.Second)
		var refused, timedOut, canceled atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			if err := s.acquire(ctx); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wait := func(ctx context.Context, count *atomic.Int32) {
			wg.Go(func() {
				if err := s.acquire(ctx); errors.Is(err, broker.ErrUnavailable) {
					count.Add(1)
				} else if err == nil {
					s.release()
				}
			})
		}
		wait(ctx, &canceled)
		wait(t.Context(), &timedOut)
		wait(t.Context(), &timedOut)
		synctest.Wait()
		for range 10 {
			wait(t.Context(), &refused)
		}
		synctest.Wait()
		if refused.Load() != 10 {
			t.Errorf("%d of 10 were refused while the queue was full", refused.Load())
		}
		cancel()
		synctest.Wait()
		if canceled.Load() != 1 {
			t.Error("one that gave up still waits")
		}
		time.Sleep(2 * time.Second)
		wg.Wait()
		if timedOut.Load() != 2 {
			t.Errorf("%d of 2 were refused after their wait", timedOut.Load())
		}
		s.release()
		if err := s.acquire(t.Context()); err != nil {
			t.Errorf("a slot that was given back is gone: %v", err)
		}
	})
}

func TestFlood(t *testing.T) {
	b, err := Open(t.Context(), Config{Writer: places[1].open(t), Slots: 1, Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	add(t, b, "maria", "right password")
	var running, most, right, unavailable atomic.Int32
	b.kdf = fastKDF
	want := newHash(b.kdf, "right password")
	if _, err := b.writer.ExecContext(t.Context(), `UPDATE users SET password = ?`, want.String()); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	b.kdf = func(password, salt []byte, time, memory uint32, threads uint8, keyLen uint32) []byte {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-gate
		return fastKDF(password, salt, time, memory, threads, keyLen)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch _, err := b.Authenticate(t.Context(), broker.Login{Username: "maria", Password: "right password"}); {
			case err == nil:
				right.Add(1)
			case errors.Is(err, broker.ErrUnavailable):
				if unavailable.Add(1) == 45 { // all that had no place: let the others through
					close(gate)
				}
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || right.Load() != 5 || unavailable.Load() != 45 {
		t.Errorf("%d at once, %d logged in, %d refused; want 1, 5, 45", most.Load(), right.Load(), unavailable.Load())
	}
}

// fastKDF lets a test check many passwords.
func fastKDF(password, salt []byte, _, _ uint32, _ uint8, keyLen uint32) []byte {
	sum := sha256.Sum256(append(salt[:len(salt):len(salt)], password...))
	return sum[:keyLen]
}

func TestParseHash(t *testing.T) {
	const salt, sum = "c2FsdHNhbHRzYWx0", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	good := "$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + sum
	if h, err := parseHash(good); err != nil || h.String() != good {
		t.Errorf("%v, %v", h, err)
	}
	for _, bad := range []string{
		"", "demo", "$", strings.Repeat("$", 5),
		"$argon2i$v=19$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=65537,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=4294967295,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=4294967296,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=11,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=5$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=0,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=0$" + salt + "$" + sum,
		"$argon2id$v=19$m=-1,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1,x=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$",
		"$argon2id$v=19$m=19456,t=2,p=1$$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "=$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "\n$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + strings.Repeat("A", 200),
		"$2b$12$" + salt + sum,
	} {
		if h, err := parseHash(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, h)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	b := openBase(t, places[1].open(t))
	b.kdf = fastKDF
	add(t, b, "maria", "12345678")
	for _, c := range []struct {
		what, username, password string
	}{
		{"no username", "", "12345678"},
		{"long username", strings.Repeat("x", 129), "12345678"},
		{"control character", "ma\nria", "12345678"},
		{"username not UTF-8", "ma\xffria", "12345678"},
		{"no password", "otto", ""},
		{"short password", "otto", "1234567"},
		{"seven characters in more bytes", "otto", "ñandúes"},
		{"long password", "otto", strings.Repeat("x", 1025)},
		{"password not UTF-8", "otto", "12345678\xff"},
	} {
		if _, err := b.Add(t.Context(), NewUser{Username: c.username, Password: c.password}); err == nil {
			t.Errorf("%s: added", c.what)
		}
	}
	if _, err := b.Add(t.Context(), NewUser{Username: "maria", Password: "12345678"}); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	if _, err := b.Add(t.Context(), NewUser{Username: "demo", Password: "demo", WeakPassword: true}); err != nil {
		t.Errorf("the way round the policy is closed: %v", err)
	}
	if err := b.SetPassword(t.Context(), "maria", "short"); err == nil {
		t.Error("a short password was set")
	}
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Username != "demo" || list[1].Username != "maria" {
		t.Errorf("users %+v, %v", list, err)
	}
}

func TestManageUnknown(t *testing.T) {
	b := openBase(t, places[1].open(t))
	for what, err := range map[string]error{
		"SetPassword": b.SetPassword(t.Context(), "nobody", "12345678"),
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
	for range 2 { // the second time nothing is left to do
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

func TestNewerSchema(t *testing.T) {
	db := places[1].open(t)
	openBase(t, db)
	if _, err := db.ExecContext(t.Context(), "INSERT INTO users_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Writer: db}); err == nil || !strings.Contains(err.Error(), "newer than this program") {
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

// TestWatchInBubble checks the timing: 500 ms after a change by another process at
// most, and nothing for the process's own other writes to the file.
func TestWatchInBubble(t *testing.T) {
	for _, p := range places {
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
				b.kdf = fastKDF
				var calls atomic.Int32
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- b.Watch(ctx, func() { calls.Add(1) }) }()
				expect := func(what string, want int32) {
					t.Helper()
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					if got := calls.Swap(0); got != want {
						t.Errorf("%s: told %d times, want %d", what, got, want)
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
	base := openBase(b, places[1].open(b))
	add(b, base, "maria", "right password")
	for b.Loop() {
		if _, err := base.Authenticate(b.Context(), broker.Login{Username: "maria", Password: "right password"}); err != nil {
			b.Fatal(err)
		}
	}
}
