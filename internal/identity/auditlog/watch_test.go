package auditlog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// heldAnchor stores a head in memory.
type heldAnchor struct {
	mu     sync.Mutex
	head   audit.Head
	writes int
}

func (a *heldAnchor) Anchored() (audit.Head, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head, nil
}

func (a *heldAnchor) Anchor(_ context.Context, from, head audit.Head) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == from {
		a.head = head
		a.writes++
	}
	return nil
}

func (a *heldAnchor) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

func (a *heldAnchor) Reanchor(_ context.Context, head audit.Head) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head = head
	a.writes++
	return nil
}

// TestThreat34LogCut removes or changes rows of the audit log in SQL, under a running gateway and
// while it does not run. The gateway reports it once, and verify fails from then on. Pruning is not
// reported.
func TestThreat34LogCut(t *testing.T) {
	cuts := map[string]string{
		"the end":          `DELETE FROM audit WHERE seq > 5`,
		"all":              `DELETE FROM audit`,
		"one row replaced": `UPDATE audit SET hash = zeroblob(32) WHERE seq = (SELECT max(seq) FROM audit)`,
		"nothing":          ``,
	}
	for what, cut := range cuts {
		for _, running := range []bool{true, false} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newWatched(t)
					var said lockedBuilder
					logger := slog.New(slog.NewTextHandler(&said, nil))
					start := func() (stop func()) {
						stop = s.start(logger)
						time.Sleep(2 * time.Minute)
						return stop
					}
					s.logins(10)
					stop := start()
					if _, err := s.PruneAudit(t.Context(), time.Now().Add(-90*time.Second)); err != nil {
						t.Fatal(err)
					}
					s.logins(10)
					time.Sleep(2 * time.Minute)
					if !running {
						stop()
					}
					if cut != "" {
						if _, err := s.Writer().ExecContext(t.Context(), cut); err != nil {
							t.Fatal(err)
						}
					}
					s.logins(1) // covers the cut
					if !running {
						stop = start()
					}
					time.Sleep(3 * time.Hour)
					s.logins(1)
					stop()
					broken := strings.Count(said.String(), "audit log was cut or changed")
					rows, err := s.AuditLast(t.Context(), 10, "", audit.ChainBroken)
					if err != nil || len(rows) != broken || (broken == 1) != (cut != "") {
						t.Errorf("running %v: reported %d times, %d rows, %v\n%s", running, broken, len(rows), err, said.String())
					}
					noted, _ := s.anchor.Anchored()
					report, err := Verify(t.Context(), s, audit.Head{}, func(int64) {})
					if err == nil {
						err = Contains(t.Context(), s, report.Head, noted)
					}
					if errors.Is(err, audit.ErrBroken) != (cut != "") || cut == "" && err != nil {
						t.Errorf("running %v: verify: %v", running, err)
					}
				})
			})
		}
	}
}

// watched is a log in memory and the anchor of its head.
type watched struct {
	*testing.T
	*store.SQLite
	anchor heldAnchor
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	s, err := store.OpenInMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.UseChain(audit.NewChain([]byte("key")))
	return &watched{T: t, SQLite: s}
}

// logins appends n rows.
func (w *watched) logins(n int) {
	for range n {
		if err := w.Append(w.Context(), audit.Event{Time: time.Now(), Kind: audit.Login}); err != nil {
			w.Error(err)
		}
	}
}

// start watches the log until stop is called.
func (w *watched) start(logger *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		Watch(ctx, w.SQLite, &w.anchor, logger)
		close(done)
	}()
	return func() { cancel(); <-done }
}

// TestCutOfNewestRows removes rows that were written a moment ago. Whatever is written then, verify
// fails from the next minute on, also after a restart, until an operator accepts the log as it is.
func TestCutOfNewestRows(t *testing.T) {
	for what, later := range map[string]int{"nothing follows": 0, "fewer rows follow": 2, "as many follow": 5, "more rows follow": 9} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, quiet := newWatched(t), slog.New(slog.DiscardHandler)
				verify := func() error {
					anchored, _ := s.anchor.Anchored()
					report, err := Verify(t.Context(), s, audit.Head{}, func(int64) {})
					if err == nil {
						err = Contains(t.Context(), s, report.Head, anchored)
					}
					return err
				}
				stop := s.start(quiet)
				s.logins(10)
				time.Sleep(10 * time.Minute)
				s.logins(5)
				time.Sleep(time.Second)
				if _, err := s.Writer().ExecContext(t.Context(), `DELETE FROM audit WHERE seq > 10`); err != nil {
					t.Fatal(err)
				}
				s.logins(later)
				for range 5 {
					time.Sleep(time.Minute)
					if err := verify(); !errors.Is(err, audit.ErrBroken) {
						t.Fatalf("verify: %v", err)
					}
					s.logins(1)
				}
				stop()
				stop = s.start(quiet)
				time.Sleep(3 * time.Hour)
				if err := verify(); !errors.Is(err, audit.ErrBroken) {
					t.Fatalf("verify after a restart: %v", err)
				}
				head, err := Newest(t.Context(), s)
				if err := errors.Join(err, s.anchor.Reanchor(t.Context(), head)); err != nil {
					t.Fatal(err)
				}
				s.logins(1)
				time.Sleep(2 * time.Minute)
				if err := verify(); err != nil {
					t.Errorf("verify after the log was accepted: %v", err)
				}
				stop()
			})
		})
	}
}

// TestAnchorWrites checks that gateways on one database store the head at most once a minute, and
// only if there is a new row.
func TestAnchorWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() { Watch(ctx, s.SQLite, &s.anchor, slog.New(slog.DiscardHandler)) })
			time.Sleep(20 * time.Second)
		}
		write := func(minutes int, rows bool) (writes int) {
			from := s.anchor.count()
			for range minutes {
				for range 60 {
					if rows {
						s.logins(1)
					}
					time.Sleep(time.Second)
				}
			}
			return s.anchor.count() - from
		}
		if n := write(30, true); n < 25 || n > 31 {
			t.Errorf("%d writes in 30 minutes", n)
		}
		time.Sleep(2 * time.Minute)
		if n := write(30, false); n != 0 {
			t.Errorf("%d writes without a row", n)
		}
		head, err := Newest(t.Context(), s)
		if anchored, _ := s.anchor.Anchored(); err != nil || anchored != head {
			t.Errorf("anchored %v, the log ends with %v: %v", anchored, head, err)
		}
		cancel()
		done.Wait()
	})
}

// lockedBuilder is a strings.Builder for several goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
