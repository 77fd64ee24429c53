package streamtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// DelayedHub returns a hub that serves delayed data from a journal of its own. Its Run is not
// called.
func DelayedHub(t testing.TB, cfg hub.Config) *hub.Hub {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	cfg.Journal = j
	h := hub.New(cfg)
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// RunningHub returns a hub like DelayedHub and calls its Run.
func RunningHub(t testing.TB, cfg hub.Config) *hub.Hub {
	t.Helper()
	h := DelayedHub(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return h
}

// DefineMany defines n instruments.
func DefineMany(t testing.TB, h *hub.Hub, n int, edit func(*market.Instrument)) (list []market.Handle) {
	t.Helper()
	for i := range n {
		list = append(list, Define(t, h, fmt.Sprintf("S%d|M|CI", i), edit))
	}
	return list
}

// Soak returns the full count of a long test if RUEDA_SOAK is set, and else a twentieth of it.
func Soak(n int) int {
	if os.Getenv("RUEDA_SOAK") != "" {
		return n
	}
	return max(1, n/20)
}

// FollowDefinition passes the definition of an instrument of another hub, with its number there.
func FollowDefinition(h *hub.Hub, number uint32, def market.Instrument) error {
	return h.Follow(func(f *hub.Follower) error { return f.Define(number, def) })
}

// Follow passes rows of another hub.
func Follow(h *hub.Hub, rows []journal.Row) error {
	return h.Follow(func(f *hub.Follower) error {
		for i := range rows {
			if err := f.Row(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
