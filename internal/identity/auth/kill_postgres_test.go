package auth_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster has the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func openPostgres(ctx context.Context, dsn string) (durable, error) {
	return store.OpenPostgres(ctx, dsn)
}

// TestThreat32KillServerE2E kills the database server or one of its processes with SIGKILL while
// clients refresh until they get an answer. No answered refresh is lost. A refresh without an
// answer succeeds when it is repeated.
func TestThreat32KillServerE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	dsn := server.CreateDatabase(t, "rueda")
	db, err := store.OpenPostgres(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	keys, err := openFile(t, filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *auth.Config) { c.Store, c.Keys = db, keys })
	l := refreshing{w: w, quit: make(chan struct{}), moved: make(chan struct{}, 1)}
	for range chains {
		tokens := w.login("maria")
		l.running.Go(func() { l.chain(tokens.Refresh) })
	}
	defer l.stop()
	rounds := soak(1000 / chains)
	for i := range rounds {
		for n := l.answers.Load() + 1 + rand.Int64N(60); l.answers.Load() < n; {
			l.wait(t)
		}
		if i%2 == 0 {
			server.Kill()
			server.Restart(t, "fsync=off")
			continue
		}
		// The server then ends all connections, and recovers as after a crash.
		var pid int
		err := db.Writer().QueryRowContext(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND datname = 'rueda' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`).Scan(&pid)
		if err != nil {
			t.Logf("round %d: %v", i, err) // only the connection of the query itself existed
			continue
		}
		if backend, err := os.FindProcess(pid); err == nil {
			_ = backend.Kill() // it may have ended already
		}
	}
	for n := l.answers.Load() + 100; l.answers.Load() < n; {
		l.wait(t)
	}
	l.stop()
	head, err := audit.Chain{}.Verify(audit.Head{}, db.AuditRows(t.Context(), 0))
	if err != nil || head.Seq < l.answers.Load() {
		t.Errorf("the audit log ends with row %d: %v", head.Seq, err)
	}
	t.Logf("figure: PostgreSQL killed %d times under %d clients: %d refreshes answered, none lost; %d cut off, all answered when asked again",
		rounds, chains, l.answers.Load(), l.cut.Load())
}

// refreshing has clients that refresh continuously.
type refreshing struct {
	w            *world
	answers, cut atomic.Int64
	moved        chan struct{}
	quit         chan struct{}
	once         sync.Once
	running      sync.WaitGroup
}

func (l *refreshing) chain(token auth.Secret) {
	for {
		select {
		case <-l.quit:
			return
		default:
		}
		tokens, err := l.w.Refresh(l.w.t.Context(), token, origin)
		if err == nil {
			token = tokens.Refresh
			l.answers.Add(1)
			select {
			case l.moved <- struct{}{}:
			default:
			}
			continue
		}
		var refused *auth.Error
		if !errors.As(err, &refused) || refused.Reason != auth.Unavailable {
			l.w.t.Errorf("a token that was answered is refused: %v", err)
			return
		}
		l.cut.Add(1)
		select {
		case <-l.quit:
			return
		case <-time.After(5 * time.Millisecond): // a real client waits longer; a short wait makes the test stricter
		}
	}
}

func (l *refreshing) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.moved:
	case <-time.After(time.Minute):
		t.Fatal("nobody is answered")
	}
}

func (l *refreshing) stop() {
	l.once.Do(func() { close(l.quit) })
	l.running.Wait()
}
