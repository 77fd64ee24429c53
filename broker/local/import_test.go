package local

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/password"
)

// someHash is bcrypt of "U*U", from the test vectors of crypt_blowfish.
const someHash = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

func stored(t *testing.T, b *Base, username string) string {
	t.Helper()
	u, err := b.read(t.Context(), "u.username", username)
	if err != nil {
		t.Fatal(err)
	}
	return u.password
}

// TestRehash logs in with hashes of another system and of a lower cost: each is replaced at the
// first login, with an audit event, and the user's version stays.
func TestRehash(t *testing.T) { everywhere(t, rehash) }

func TestRehashE2E(t *testing.T) { onPostgres(t, rehash) }

func rehash(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	if _, err := b.Import(t.Context(), []Imported{{Username: "ana", Hash: someHash}, {Username: "dario", Hash: someHash, Disabled: true}}, false); err != nil {
		t.Fatal(err)
	}
	diary()
	login := func(b *Base, username, password string, want error) {
		t.Helper()
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: username, Password: password}); !errors.Is(err, want) {
			t.Fatalf("%s with %q: %v", username, password, err)
		}
	}
	login(b, "ana", "U*U*", broker.ErrInvalidCredentials)
	login(b, "dario", "U*U", broker.ErrInvalidCredentials)
	if stored(t, b, "ana") != someHash || stored(t, b, "dario") != someHash || len(diary()) != 0 {
		t.Error("a login that failed replaced a hash")
	}
	login(b, "ana", "U*U", nil)
	first := stored(t, b, "ana")
	if got := diary(); !strings.HasPrefix(first, "$argon2id$") || !slices.Equal(got, []string{"user_changed user password hash renewed, was bcrypt"}) {
		t.Errorf("stored %s, log %q", first, got)
	}
	login(b, "ana", "U*U", nil)
	login(b, "ana", "U*U*", broker.ErrInvalidCredentials)
	if stored(t, b, "ana") != first || len(diary()) != 0 {
		t.Error("a hash of today was replaced")
	}
	dearer, err := Open(t.Context(), Config{Writer: db, Postgres: isPostgres(db), Cost: password.Cost{Memory: 128, Time: 2}, Peppers: [][]byte{[]byte("pepper")}})
	if err != nil {
		t.Fatal(err)
	}
	login(dearer, "ana", "U*U", nil)
	if now := stored(t, b, "ana"); !strings.HasPrefix(now, "$argon2id$v=19$m=128,t=2,p=1,keyid=") {
		t.Errorf("stored %s", now)
	}
	login(dearer, "ana", "U*U", nil)
	if u, err := b.Entry(t.Context(), "ana"); err != nil || u.Version != 1 {
		t.Errorf("version %d, %v", u.Version, err)
	}
}

// TestRehashYields checks that a password set during a login is not overwritten by the new hash.
func TestRehashYields(t *testing.T) {
	b := openBase(t, places[1].open(t))
	if _, err := b.Import(t.Context(), []Imported{{Username: "ana", Hash: someHash}}, false); err != nil {
		t.Fatal(err)
	}
	read, err := b.read(t.Context(), "u.username", "ana")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetPassword(t.Context(), "ana", "another password"); err != nil {
		t.Fatal(err)
	}
	set := stored(t, b, "ana")
	b.rehash(t.Context(), &read, broker.Login{Username: "ana", Password: "U*U"})
	if stored(t, b, "ana") != set {
		t.Error("the old password is back")
	}
}

// TestLoginWhereNothingCanBeWritten checks that a login succeeds although its hash cannot be
// replaced.
func TestLoginWhereNothingCanBeWritten(t *testing.T) {
	db := places[1].open(t)
	b := openBase(t, db)
	if _, err := b.Import(t.Context(), []Imported{{Username: "ana", Hash: someHash}}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `PRAGMA query_only = 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "U*U"}); err != nil {
		t.Error(err)
	}
	if stored(t, b, "ana") != someHash {
		t.Error("something was written")
	}
}

func TestImport(t *testing.T) { everywhere(t, importUsers) }

func TestImportE2E(t *testing.T) { onPostgres(t, importUsers) }

func importUsers(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	add(t, b, "maria", "right password")
	if err := b.AddGroup(t.Context(), "equity", Rights{Scopes: []string{broker.ScopeRead}}); err != nil {
		t.Fatal(err)
	}
	diary()
	batch := []Imported{
		{Username: "ana", Hash: someHash, Groups: []string{"equity"}},
		{Username: "maria", Hash: someHash},
		{Username: "", Hash: someHash},
		{Username: "eva", Hash: "hunter2hunter2"},
		{Username: "ivo", Hash: someHash, Groups: []string{"equity", "bonds"}},
		{Username: "ana", Hash: someHash},
		{Username: "uma", Hash: someHash, Disabled: true, Rights: Rights{Scopes: []string{"two words"}}},
		{Username: "otto", Hash: someHash, Disabled: true},
	}
	want := []error{nil, ErrExists, errAny, password.ErrHash, ErrNoGroup, ErrExists, errAny, nil}
	for _, dry := range []bool{true, false} {
		problems, err := b.Import(t.Context(), batch, dry)
		if err != nil || len(problems) != len(batch) {
			t.Fatal(len(problems), err)
		}
		for i, p := range problems {
			if want[i] == errAny && p != nil {
				continue
			}
			if !errors.Is(p, want[i]) || (p == nil) != (want[i] == nil) {
				t.Errorf("dry %v, %q: %v, want %v", dry, batch[i].Username, p, want[i])
			}
			if p != nil && strings.Contains(p.Error(), "hunter2") {
				t.Errorf("the problem shows what was in the place of a hash: %v", p)
			}
		}
		all, err := b.List(t.Context())
		if n := map[bool]int{true: 1, false: 3}[dry]; err != nil || len(all) != n {
			t.Errorf("dry %v: %d users, %v", dry, len(all), err)
		}
		if got := len(diary()); got != map[bool]int{true: 0, false: 3}[dry] {
			t.Errorf("dry %v: %d lines of the log", dry, got)
		}
	}
	if _, err := b.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "U*U"}); err != nil {
		t.Error(err)
	}
	e, err := b.Entry(t.Context(), "ana")
	if err != nil || len(e.Groups) != 1 || !slices.Equal(e.Scopes, []string{broker.ScopeRead}) {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := b.Entry(t.Context(), "otto"); err != nil || !e.Disabled {
		t.Errorf("%+v, %v", e, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Import(ctx, batch, false); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("canceled: %v", err)
	}
}

var errAny = errors.New("whatever is wrong")

// TestLogout checks that logins end and nothing else changes.
func TestLogout(t *testing.T) {
	b, diary := openAudited(t, places[1].open(t))
	u := add(t, b, "ana", "right password")
	diary()
	if err := b.Logout(t.Context(), "ana"); err != nil {
		t.Fatal(err)
	}
	after, err := b.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "right password"})
	if err != nil || after.Version != u.Version+1 {
		t.Errorf("%+v, %v", after, err)
	}
	if got := diary(); !slices.Equal(got, []string{"user_ended user all sessions"}) {
		t.Errorf("log %q", got)
	}
	if err := b.Logout(t.Context(), "nobody"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}
