package local

import (
	"context"
	"database/sql"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster holds the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func openPostgres(t testing.TB) *store.Postgres { return connect(t, cluster.Database(t)) }

func connect(t testing.TB, dsn string) *store.Postgres {
	t.Helper()
	s, err := store.OpenPostgres(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func isPostgres(db *sql.DB) bool {
	_, is := db.Driver().(*stdlib.Driver)
	return is
}

func openListening(t testing.TB, s *store.Postgres) *Base {
	t.Helper()
	b, err := Open(t.Context(), Config{Writer: s.Writer(), Postgres: true, Listen: s.Listen, Audit: s.AppendAudit, Cost: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWatchPostgresE2E checks that changes by any process are reported soon, and that other writes
// are not.
func TestWatchPostgresE2E(t *testing.T) {
	dsn := cluster.Database(t)
	here, there := connect(t, dsn), connect(t, dsn)
	b, other := openListening(t, here), openListening(t, there)
	add(t, b, "maria", "right password")
	var calls atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Watch(ctx, func() { calls.Add(1) }); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	until := func(what string, is func() bool) {
		t.Helper()
		end := time.After(time.Minute)
		for !is() {
			select {
			case <-end:
				t.Fatalf("%s: it never became so", what)
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	until("listening", func() bool {
		var n int
		err := here.Writer().QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`).Scan(&n)
		return err == nil && n > 0
	})
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"disabled here", func() error { return b.Disable(ctx, "maria") }},
		{"enabled elsewhere", func() error { return other.Enable(ctx, "maria") }},
		{"a new group elsewhere", func() error {
			return other.AddGroup(ctx, "equity", Rights{Scopes: []string{broker.ScopeRead}})
		}},
		{"joined elsewhere", func() error { _, err := other.Join(ctx, "maria", "equity"); return err }},
		{"by hand", func() error {
			_, err := there.Writer().ExecContext(ctx, `UPDATE users SET scopes = '[]'`)
			return err
		}},
		{"group removed elsewhere", func() error { _, err := other.RemoveGroup(ctx, "equity"); return err }},
	} {
		before := calls.Load()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		began := time.Now()
		until(c.what, func() bool { return calls.Load() > before })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s was reported after %v", c.what, took)
		}
	}
	before := calls.Load()
	if err := b.Disable(ctx, "nobody"); err == nil {
		t.Error("nobody was disabled")
	}
	if _, err := there.Writer().ExecContext(ctx, `SELECT pg_notify('rueda_users', '')`); err != nil { // like a poll of the database
		t.Fatal(err)
	}
	if _, err := there.Writer().ExecContext(ctx, `UPDATE users SET password = password || 'x'`); err != nil { // like a login that renews a hash
		t.Fatal(err)
	}
	add(t, other, "otto", "another password")
	until("a user elsewhere", func() bool { return calls.Load() > before })
	if n := calls.Load() - before; n != 1 {
		t.Errorf("one change was reported %d times", n)
	}
}

// TestRebind checks that placeholders are numbered and nothing else changes.
func TestRebind(t *testing.T) {
	const query = `SELECT '?', "a?" FROM t WHERE a = ? AND b = 'it''s ?' AND c IN (?, ?)`
	const want = `SELECT '?', "a?" FROM t WHERE a = $1 AND b = 'it''s ?' AND c IN ($2, $3)`
	if got := (dialect{postgres: true}).rebind(query); got != want {
		t.Errorf("%s", got)
	}
	if got := (dialect{}).rebind(query); got != query {
		t.Errorf("%s", got)
	}
}
