package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
)

// delayedHub returns a hub that serves delayed data from a journal of its own. Its Run is not
// called.
func delayedHub(t testing.TB, cfg Config) *Hub {
	t.Helper()
	j, err := journal.Open(journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	cfg.Journal = j
	h := New(cfg)
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// runningHub returns a hub like delayedHub and calls its Run.
func runningHub(t testing.TB, cfg Config) *Hub {
	t.Helper()
	h := delayedHub(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return h
}

// age makes all published rows older by a time. It then applies the rows that are due to the
// replicas of a hub without Run. The caller holds the hub's lock.
func (h *Hub) age(by time.Duration) {
	h.made = h.made.Add(-by)
	h.commit()
	clock := h.clock()
	for _, c := range h.replicas {
		due, _ := c.times.due(clock)
		if c.state != replicaReady {
			continue
		}
		var rows []journal.Row
		err := h.cfg.Journal.Scan(context.Background(), journal.ScanStart{Position: c.position}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
			if !c.isDue(r, due, clock) {
				return false
			}
			x := *r
			x.Bids, x.Asks, x.Conditions = clone(r.Bids), clone(r.Asks), clone(r.Conditions)
			rows = append(rows, x)
			return true
		})
		if err != nil {
			panic(err)
		}
		for i := range rows {
			c.applyDelayed(&rows[i], time.Now().UnixNano())
		}
	}
	h.wakeShards()
}

// ageUnlocked is age for a caller that does not hold the lock.
func (h *Hub) ageUnlocked(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.age(by)
}

// clone copies a list.
func clone[T any](list []T) []T { return append([]T(nil), list...) }
