package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestRestartKeepsTheBudgetE2E checks a restart from more rows than memory may hold. All
// instruments keep some rows. A client that resumes from a position receives the others from the
// journal.
func TestRestartKeepsTheBudgetE2E(t *testing.T) {
	synctest.Test(t, keepsTheBudget)
}

func keepsTheBudget(t *testing.T) {
	folder, cfg := t.TempDir(), hub.Config{RecentBytes: recent.RowBytes * 20_000, Delays: []time.Duration{time.Second}}
	r := streamtest.Restart(t, folder, cfg)
	const instruments, rows = 40, 2000
	var handles []market.Handle
	for i := range instruments {
		handles = append(handles, streamtest.Define(t, r.Hub, fmt.Sprintf("A%d|M|CI", i), nil))
	}
	begin := time.Now().Add(-time.Hour).UnixNano()
	_, from := r.Hub.Position()
	for i := range rows {
		for _, hd := range handles {
			e := streamtest.Trade(hd, i)
			e.Time = begin + int64(i)*1e9
			streamtest.Publish(t, r.Hub, e)
		}
	}
	time.Sleep(1500 * time.Millisecond) // nothing is in flight
	r.Leave()
	r = streamtest.Restart(t, folder, cfg)
	defer r.Leave()
	r.Hub.Mu().Lock()
	if r.Hub.Shared().Rows > r.Hub.Shared().MaxRows {
		t.Errorf("%d rows are in memory, of %d", r.Hub.Shared().Rows, r.Hub.Shared().MaxRows)
	}
	r.Hub.Mu().Unlock()
	kept := int64(0)
	for i := range instruments {
		streamtest.Define(t, r.Hub, fmt.Sprintf("A%d|M|CI", i), nil)
	}
	r.Hub.Mu().Lock()
	for i, in := range r.Hub.Listed() {
		if in.Trades.Stored < 100 || in.Trades.Last != rows || in.Trades.Dropped == 0 {
			t.Errorf("%s keeps %d rows, up to %d, dropped %d", in.ID(), in.Trades.Stored, in.Trades.Last, in.Trades.Dropped)
		}
		for _, x := range slices.Concat(r.Hub.Listed()[i:i+1], in.Later()) {
			kept += x.Rows()
			for i := range market.NumIntervals {
				if bars := x.Recent(wire.BarsOf(i)); bars.Last == 0 && bars.Dropped != 0 {
					t.Errorf("%s: of bars that there are none of, some are dropped", in.ID())
				}
			}
		}
	}
	if kept != r.Hub.Shared().Rows || kept > r.Hub.Shared().MaxRows+r.Hub.Shared().MaxRows/10 { // bars may be added
		t.Errorf("%d rows are in memory, said to be %d, of %d", kept, r.Hub.Shared().Rows, r.Hub.Shared().MaxRows)
	}
	r.Hub.Mu().Unlock()
	c := streamtest.NewClient(t, r.Shard)
	out := c.Sub.Subscribe([]hub.Item{{wire.Trades, streamtest.ID("A0|M|CI"), hub.Tier{}}}, subscription.Options{Resume: &wire.Resume{Epoch: r.Hub.Epoch(), Position: from}})
	if len(out.Lost[wire.Trades]) > 0 {
		t.Fatalf("%+v", out.Lost[wire.Trades])
	}
	for until := time.Now().Add(10 * time.Second); c.Sub.Replaying() && time.Now().Before(until); time.Sleep(time.Millisecond) {
		streamtest.Turn(r.Shard)
		c.Read(1<<20, false)
	}
	if got := c.Trades["A0|M|CI"]; len(got) != rows || got[0] != 1 {
		t.Errorf("%d rows came again", len(got))
	}
}

// TestThreat23SnapshotWithoutData checks that a snapshot of delayed data that is not loaded has
// neither instruments nor the position of real time.
func TestThreat23SnapshotWithoutData(t *testing.T) {
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Hour}})
	a := streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Publish(t, h, streamtest.Trade(a, 1), streamtest.Trade(a, 2))
	b, epoch, position := h.Snapshot(nil, []hub.Wanted{{ID: streamtest.ID("A|M|CI"), Trades: true, Quotes: true, Delay: 3600}})
	if len(b) > 0 || position != epoch+":0" {
		t.Errorf("%s, position %s", b, position)
	}
}

// TestNoStatusBeforeListing checks that a delayed client receives no status and no book of an
// instrument before its replica has the listing.
func TestNoStatusBeforeListing(t *testing.T) {
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Hour}})
	h.NewPort(func(bool) {}).Await([]hub.Item{{Tier: hub.Tier{Delay: 3600}}}, nil)
	streamtest.Define(t, h, "A|M|CI", nil)
	if b, _, _ := h.Snapshot(nil, []hub.Wanted{{ID: streamtest.ID("A|M|CI"), Trades: true, Quotes: true, Delay: 3600}}); string(b) != `{"instrument":"A|M|CI"}` {
		t.Errorf("%s", b)
	}
	if b, err := h.AppendBook(nil, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5, Delay: 3600}); !errors.Is(err, hub.ErrStale) {
		t.Errorf("book: %q, %v", b, err)
	}
	c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
	c.Sub.Subscribe([]hub.Item{{wire.Status, streamtest.ID("A|M|CI"), hub.Tier{Delay: 3600}}}, subscription.Options{})
	if got := c.Read(1<<20, false); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
