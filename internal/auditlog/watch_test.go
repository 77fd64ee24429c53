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

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/store"
)

// heldAnchor stores a head in memory.
type heldAnchor struct {
	mu   sync.Mutex
	head audit.Head
}

func (a *heldAnchor) Anchored() (audit.Head, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head, nil
}

func (a *heldAnchor) Anchor(_ context.Context, head audit.Head) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head = head
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
					s, err := store.OpenInMemory(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					s.UseChain(audit.NewChain([]byte("key")))
					var said lockedBuilder
					logger := slog.New(slog.NewTextHandler(&said, nil))
					anchor := &heldAnchor{}
					login := func() {
						if err := s.Append(t.Context(), audit.Event{Time: time.Now(), Kind: audit.Login}); err != nil {
							t.Error(err)
						}
					}
					start := func() (stop func()) {
						ctx, cancel := context.WithCancel(t.Context())
						done := make(chan struct{})
						go func() {
							Watch(ctx, s, anchor, logger)
							close(done)
						}()
						time.Sleep(2 * time.Minute)
						return func() { cancel(); <-done }
					}
					for range 10 {
						login()
					}
					stop := start()
					if _, err := s.PruneAudit(t.Context(), time.Now().Add(-90*time.Second)); err != nil {
						t.Fatal(err)
					}
					for range 10 {
						login()
					}
					time.Sleep(2 * time.Minute)
					if !running {
						stop()
					}
					if cut != "" {
						if _, err := s.Writer().ExecContext(t.Context(), cut); err != nil {
							t.Fatal(err)
						}
					}
					login() // covers the cut
					if !running {
						stop = start()
					}
					time.Sleep(3 * time.Hour)
					login()
					stop()
					broken := strings.Count(said.String(), "audit log was cut or changed")
					rows, err := s.AuditLast(t.Context(), 10, "", audit.ChainBroken)
					if err != nil || len(rows) != broken || (broken == 1) != (cut != "") {
						t.Errorf("running %v: reported %d times, %d rows, %v\n%s", running, broken, len(rows), err, said.String())
					}
					noted, _ := anchor.Anchored()
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
