package hub_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
)

// TestStoppedReach requires that a wait for rows ends with the next commit when its client has
// gone, so that later commits do not look at it.
func TestStoppedReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Following: true})
		synctest.Wait()
		if err := streamtest.FollowDefinition(h, 1, market.Instrument{ID: streamtest.ID("A|M|CI"), PriceDecimals: 2}); err != nil {
			t.Fatal(err)
		}
		port, asked := h.NewPort(func(bool) {}), 0
		ahead := func() bool { asked++; return true }
		stopped := hub.AwaitRows(port, ahead, func() { t.Error("a client that has gone is woken") })
		found := make(chan time.Time, 1)
		if hub.AwaitRows(port, func() bool { return true }, func() { found <- time.Now() }) == nil || stopped == nil {
			t.Fatal("nothing waits")
		}
		stopped.Stop()
		began := time.Now()
		follow := func(n uint64) {
			row := journal.Row{Kind: journal.Trade, Instrument: 1, Position: n, N: n, Time: 1, At: 1, Latency: -1, Price: market.Scale, Size: market.Scale}
			if err := streamtest.Follow(h, []journal.Row{row}); err != nil {
				t.Fatal(err)
			}
			h.Commit()
			synctest.Wait()
		}
		follow(1)
		before := asked
		for n := range uint64(100) {
			follow(n + 2)
		}
		if asked != before {
			t.Errorf("the rows of a client that has gone were looked for %d times", asked-before)
		}
		if at := <-found; at.Sub(began) != 5*time.Second {
			t.Errorf("the other client waited for %v", at.Sub(began))
		}
	})
}
