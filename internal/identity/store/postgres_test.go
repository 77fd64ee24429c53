package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster holds the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// openPostgres opens the store on an empty database.
func openPostgres(t testing.TB) *store.Postgres { return connect(t, cluster.Database(t)) }

// connect opens the store with a long limit of operations, because the machine may be slow.
func connect(t testing.TB, dsn string) *store.Postgres {
	t.Helper()
	s, err := store.OpenPostgres(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLimit(time.Minute)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestPostgresOpenAtOnceE2E checks that gateways may start concurrently on a new database.
func TestPostgresOpenAtOnceE2E(t *testing.T) {
	dsn := cluster.Database(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := store.OpenPostgres(t.Context(), dsn)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestPostgresOpenErrorsE2E checks the errors that operators may see. None contains the password.
func TestPostgresOpenErrorsE2E(t *testing.T) {
	newer := cluster.Database(t)
	if _, err := connect(t, newer).Writer().ExecContext(t.Context(), "INSERT INTO store_version (version_id, is_applied) VALUES (99, true)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dsn, want string }{
		{"no URL", "hunter2 postgres", "database URL: invalid"},
		{"a bad port", "postgres://rueda:hunter2@127.0.0.1:hunter2/rueda", "database URL: invalid"},
		{"a bad escape", "postgres://rueda:hunter2%zz@127.0.0.1/rueda", "database URL: invalid"},
		{"no certificate", "postgres://rueda:hunter2@127.0.0.1/rueda?sslmode=verify-full&sslrootcert=/nowhere.pem", "/nowhere.pem"},
		{"in the open by default", "postgres://rueda:hunter2@db.broker.example/rueda", "to db.broker.example may be unencrypted: set sslmode=verify-full"},
		{"in the open", "host=192.0.2.7 user=rueda password=hunter2 sslmode=disable", "to 192.0.2.7 may be unencrypted"},
		{"in the open to the second", "host=127.0.0.1,db2.broker.example user=rueda password=hunter2 sslmode=allow", "to db2.broker.example may be unencrypted"},
		{"nobody there", "postgres://rueda:hunter2@127.0.0.1:1/rueda", "database rueda on 127.0.0.1:1"},
		{"no database", strings.Replace(newer, "/test", "/none", 1), "the database does not exist"},
		{"newer schema", strings.Replace(newer, "rueda@", "rueda:hunter2@", 1), "schema version 99 is newer than version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := store.OpenPostgres(t.Context(), c.dsn)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(fmt.Sprintf("%+v", err), "hunter2") {
				t.Errorf("error %v; want one with %q and without the password", err, c.want)
			}
		})
	}
}

// TestPostgresNear checks that local connections need no TLS, and remote ones do.
func TestPostgresNear(t *testing.T) {
	for _, dsn := range []string{
		"postgres://rueda:x@db.broker.example/rueda?sslmode=verify-full", "postgres://rueda:x@db.broker.example/rueda?sslmode=require",
		"postgres://rueda:x@127.0.0.1/rueda", "postgres://rueda:x@[::1]:5432/rueda?sslmode=disable", "postgres://rueda:x@localhost/rueda",
		"host=/var/run/postgresql user=rueda dbname=rueda",
	} {
		if err := store.CheckPostgres(dsn); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// otherOps is the number of concurrent operations of TestPostgresNeighboursE2E.
const otherOps = 60

// TestPostgresNeighboursE2E checks that an operation rejected by the database fails alone, although
// it shares a transaction.
func TestPostgresNeighboursE2E(t *testing.T) {
	s := openPostgres(t)
	create(t, s, "there", "u1")
	var wg sync.WaitGroup
	for i := range otherOps {
		wg.Go(func() {
			f, first := family(fmt.Sprint("f", i), "u1")
			switch i % 3 {
			case 1:
				f.ID, first.Family = "there", "there" // a constraint
			case 2:
				f.UserID = "u\x00" // invalid data
			}
			if err := s.CreateFamily(t.Context(), f, first); (err == nil) != (i%3 == 0) {
				t.Errorf("login %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if head, err := verify(t, s, audit.Chain{}); err != nil || head.Seq != 1+otherOps/3 {
		t.Errorf("%d rows of the audit log, %v; want one for each login", head.Seq, err)
	}
}

// TestPostgresOneChainE2E checks that several gateways write one audit log and refresh the same
// families without gaps or deadlocks.
func TestPostgresOneChainE2E(t *testing.T) {
	dsn := cluster.Database(t)
	nodes := []*store.Postgres{connect(t, dsn), connect(t, dsn), connect(t, dsn)}
	const families, each = 20, 30
	for i := range families {
		create(t, nodes[0], fmt.Sprint("f", i, "-"), fmt.Sprint("u", i%4))
	}
	var wg sync.WaitGroup
	for i, s := range nodes {
		for f := range families {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprint("f", (f+n*(i+1))%families, "-")
					if got, err := s.Rotate(t.Context(), rotation(id, 0, time.Hour, false)); err != nil || got == auth.Refused {
						t.Errorf("%v, %v", got, err)
					}
				}
				if err := s.Append(t.Context(), at(0), at(1)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	wg.Go(func() {
		for u := range 4 {
			if _, err := nodes[1].RevokeUser(t.Context(), fmt.Sprint("u", u), auth.RevokedUser, time.Time{}, at(time.Hour)); err != nil {
				t.Error(err)
			}
		}
	})
	for f := range families {
		wg.Go(func() {
			if _, err := nodes[2].Rotate(t.Context(), rotation(fmt.Sprint("f", f, "-"), 0, 2*time.Hour, false)); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := nodes[0].Expire(t.Context(), epoch, epoch); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if head, err := verify(t, nodes[1], audit.Chain{}); err != nil || head.Seq < families+3*families*(each+2)+4 {
		t.Errorf("%d rows, %v", head.Seq, err)
	}
}

// TestPostgresTextE2E checks that client names which PostgreSQL cannot store do not break the
// chain.
func TestPostgresTextE2E(t *testing.T) {
	s := openPostgres(t)
	f, first := family("a", "u1")
	f.Client = "nul \x00 and \xff"
	if err := s.CreateFamily(t.Context(), f, first); err != nil {
		t.Fatal(err)
	}
	r := rotation("a", 0, time.Hour, false)
	r.Client = "\xc3\x28"
	rotate(t, s, r, auth.Granted)
	e := at(0)
	e.Detail = "\x00"
	if err := s.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, s, audit.Chain{}); err != nil {
		t.Error(err)
	}
	if _, f := lookup(t, s, "a0"); f.Client != "\uFFFD(" {
		t.Errorf("client %q", f.Client)
	}
}

// TestThreat13ForgedNoticeE2E sends notices about families that are not revoked, as every role that
// may connect can: they have no effect.
func TestThreat13ForgedNoticeE2E(t *testing.T) {
	dsn := cluster.Database(t)
	here, there := connect(t, dsn), connect(t, dsn)
	reported := make(chan auth.Revocation, 100)
	watch(t, there, reported)
	create(t, here, "victim", "u1")
	create(t, here, "ended", "u2")
	for _, text := range []string{"victim 1\n", "nobody 1\nvictim 2\n", "victim", "\n", " 1"} {
		if _, err := here.Writer().ExecContext(t.Context(), `SELECT pg_notify('rueda_revoked', $1)`, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := here.RevokeFamily(t.Context(), "ended", auth.RevokedLogout, audit.Event{Time: time.Now(), Kind: audit.Logout, Actor: "client"}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, reported); got.Family != "ended" {
		t.Errorf("a forged notice ended %+v", got)
	}
	if len(reported) > 0 {
		t.Errorf("after it: %+v", <-reported)
	}
}

// TestPostgresWatchE2E checks that revocations of any kind reach other gateways.
func TestPostgresWatchE2E(t *testing.T) {
	dsn := cluster.Database(t)
	here, there := connect(t, dsn), connect(t, dsn)
	reported := make(chan auth.Revocation, 16)
	watch(t, there, reported)
	now := time.Now()
	event := audit.Event{Time: now, Kind: audit.Logout, Actor: "client"}
	for i, id := range []string{"logout", "user", "reuse"} {
		create(t, here, id, "u"+id)
		var err error
		switch i {
		case 0:
			err = here.RevokeFamily(t.Context(), id, auth.RevokedLogout, event)
		case 1:
			_, err = here.RevokeUser(t.Context(), "u"+id, auth.RevokedUser, time.Time{}, event)
		case 2:
			rotate(t, here, rotation(id, 0, 0, true), auth.Granted)
			rotate(t, here, rotation(id, 1, 0, true), auth.Granted)
			rotate(t, here, rotation(id, 0, grace+1, true), auth.Reused)
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got := wait(t, reported)
		if want := event.Time; got.Family != id || i < 2 && !got.At.Equal(want) {
			t.Errorf("reported %+v, want %s at %v", got, id, want)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s was reported after %v", id, took)
		}
	}
}

// watch runs Watch until the test ends, and waits until it listens.
func watch(t *testing.T, s *store.Postgres, reported chan<- auth.Revocation) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Watch(ctx, func(list []auth.Revocation) {
			for _, r := range list {
				reported <- r
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	until(t, func() bool {
		var n int
		err := s.Writer().QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`).Scan(&n)
		return err == nil && n > 0
	})
}

// until waits for a condition.
func until(t testing.TB, is func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	for !is() {
		select {
		case <-end:
			t.Fatal("it never became so")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func wait[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing was reported")
	}
	return v
}

// TestPostgresAwayE2E checks that operations fail in time while the database is down, and that no
// revocation is missed after it is back.
func TestPostgresAwayE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	dsn := server.CreateDatabase(t, "rueda")
	s := connect(t, dsn)
	s.SetLimit(2 * time.Second)
	create(t, s, "a", "u1")
	reported := make(chan auth.Revocation, 16)
	watch(t, s, reported)
	server.Kill()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			began := time.Now()
			_, err := s.Rotate(t.Context(), rotation("a", 0, 0, false))
			if i%2 == 0 {
				_, _, err = s.Lookup(t.Context(), hash("a0"))
			}
			if err == nil || errors.Is(err, auth.ErrNotFound) {
				t.Errorf("without a database: %v", err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %v to fail", took)
			}
		})
	}
	wg.Wait()
	server.Restart(t, "fsync=off")
	// Another gateway revokes before Watch listens again; that must not be missed.
	if err := connect(t, dsn).RevokeFamily(t.Context(), "a", auth.RevokedLogout, audit.Event{Time: time.Now(), Kind: audit.Logout}); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, reported); r.Family != "a" {
		t.Errorf("reported %+v", r)
	}
	if _, f := lookup(t, s, "a0"); f.Revoked.IsZero() {
		t.Error("not revoked")
	}
	if _, err := verify(t, s, audit.Chain{}); err != nil {
		t.Error(err)
	}
}

// TestPostgresOutageShowsE2E checks that the end of the database shows in the failures of a gateway
// that nobody uses.
func TestPostgresOutageShowsE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	s := connect(t, server.CreateDatabase(t, "rueda"))
	s.SetLimit(2 * time.Second)
	watch(t, s, make(chan auth.Revocation, 16))
	if _, failures := s.Transactions(); failures != 0 {
		t.Fatalf("%d failures before", failures)
	}
	server.Kill()
	until(t, func() bool {
		_, failures := s.Transactions()
		return failures > 0
	})
}

// TestPostgresSettingsE2E checks that commits are durable whatever the server's default.
func TestPostgresSettingsE2E(t *testing.T) {
	dsn := cluster.Database(t)
	first := connect(t, dsn)
	if _, err := first.Writer().ExecContext(t.Context(), "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$"); err != nil {
		t.Fatal(err)
	}
	s := connect(t, dsn) // its connections have the new default
	var set string
	if err := s.Writer().QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&set); err != nil || set != "on" {
		t.Errorf("synchronous_commit is %s, %v", set, err)
	}
}

func TestPostgresKeysE2E(t *testing.T) {
	dsn := cluster.Database(t)
	a, b := connect(t, dsn).Keys(), connect(t, dsn).Keys()
	ctx := t.Context()
	if _, _, err := a.Load(ctx); !errors.Is(err, keyset.ErrNoDocument) {
		t.Errorf("load of none: %v", err)
	}
	if err := a.Save(ctx, []byte(`{"version":1}`), ""); err == nil || !strings.Contains(err.Error(), "encrypted") {
		t.Errorf("keys in the clear: %v", err)
	}
	changed := make(chan struct{}, 100)
	watching, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Watch(watching, func() { changed <- struct{}{} }); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	wait(t, changed) // it polls at the beginning
	if err := a.Save(ctx, []byte(`{"sealed":"1"}`), ""); err != nil {
		t.Fatal(err)
	}
	wait(t, changed)
	_, version, err := b.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Save(ctx, []byte(`{"sealed":"2"}`), ""); !errors.Is(err, keyset.ErrConflict) {
		t.Errorf("a second first: %v", err)
	}
	if err := b.Save(ctx, []byte(`{"sealed":"2"}`), version); err != nil {
		t.Error(err)
	}
	for _, old := range []string{version, "x"} {
		if err := a.Save(ctx, []byte(`{"sealed":"3"}`), old); !errors.Is(err, keyset.ErrConflict) {
			t.Errorf("over another: %v", err)
		}
	}
	if document, _, err := a.Load(ctx); err != nil || !slices.Equal(document, []byte(`{"sealed":"2"}`)) {
		t.Errorf("%s, %v", document, err)
	}
}

// TestUnverifiedHost finds connections over a network that do not verify the server's certificate.
func TestUnverifiedHost(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u@db.example/x?sslmode=require":           "db.example",
		"host=db1.example,db2.example user=u sslmode=require": "db1.example",
		"host=127.0.0.1,db2.example user=u sslmode=require":   "db2.example",
		"postgres://u@db.example/x?sslmode=verify-full":       "",
		"postgres://u@db.example/x?sslmode=verify-ca":         "",
		"postgres://u@127.0.0.1/x?sslmode=require":            "",
		"postgres://u@localhost/x?sslmode=disable":            "",
		"no connection string":                                "",
	} {
		if got := store.UnverifiedHost(dsn); got != want {
			t.Errorf("%s: %q, want %q", dsn, got, want)
		}
	}
}
