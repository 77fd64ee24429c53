package stream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/recent"
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
	folder, cfg := t.TempDir(), Config{RecentBytes: recent.RowBytes * 20_000, Delays: []time.Duration{time.Second}}
	r := restart(t, folder, cfg)
	const instruments, rows = 40, 2000
	var handles []market.Handle
	for i := range instruments {
		handles = append(handles, define(t, r.hub, fmt.Sprintf("A%d|M|CI", i), nil))
	}
	begin := time.Now().Add(-time.Hour).UnixNano()
	_, from := r.hub.Position()
	for i := range rows {
		for _, hd := range handles {
			e := trade(hd, i)
			e.Time = begin + int64(i)*1e9
			publish(t, r.hub, e)
		}
	}
	time.Sleep(1500 * time.Millisecond) // nothing is in flight
	r.leave()
	r = restart(t, folder, cfg)
	defer r.leave()
	r.hub.mu.Lock()
	if r.hub.shared.Rows > r.hub.shared.MaxRows {
		t.Errorf("%d rows are in memory, of %d", r.hub.shared.Rows, r.hub.shared.MaxRows)
	}
	r.hub.mu.Unlock()
	kept := int64(0)
	for i := range instruments {
		define(t, r.hub, fmt.Sprintf("A%d|M|CI", i), nil)
	}
	r.hub.mu.Lock()
	for _, in := range r.hub.groups.All() {
		if in.Trades.Stored < 100 || in.Trades.Last != rows || in.Trades.Dropped == 0 {
			t.Errorf("%s keeps %d rows, up to %d, dropped %d", in.id, in.Trades.Stored, in.Trades.Last, in.Trades.Dropped)
		}
		for _, x := range append([]*instrument{in}, in.later...) {
			kept += x.Rows()
			for i := range market.NumIntervals {
				if bars := x.Recent(wire.BarsOf(i)); bars.Last == 0 && bars.Dropped != 0 {
					t.Errorf("%s: of bars that there are none of, some are dropped", in.id)
				}
			}
		}
	}
	if kept != r.hub.shared.Rows || kept > r.hub.shared.MaxRows+r.hub.shared.MaxRows/10 { // bars may be added
		t.Errorf("%d rows are in memory, said to be %d, of %d", kept, r.hub.shared.Rows, r.hub.shared.MaxRows)
	}
	r.hub.mu.Unlock()
	c := newClient(t, r.shard)
	out := c.sub.Subscribe([]Item{{wire.Trades, id("A0|M|CI"), Tier{}}}, Options{Resume: &wire.Resume{Epoch: r.hub.Epoch(), Position: from}})
	if len(out.Lost[wire.Trades]) > 0 {
		t.Fatalf("%+v", out.Lost[wire.Trades])
	}
	for until := time.Now().Add(10 * time.Second); c.sub.Replaying() && time.Now().Before(until); time.Sleep(time.Millisecond) {
		turn(r.shard)
		c.read(1<<20, false)
	}
	if got := c.trades["A0|M|CI"]; len(got) != rows || got[0] != 1 {
		t.Errorf("%d rows came again", len(got))
	}
}

// TestNoStatusBeforeListing checks that a delayed client receives no status of an instrument before
// its replica has the listing.
func TestNoStatusBeforeListing(t *testing.T) {
	h := delayedHub(t, Config{Delays: []time.Duration{time.Hour}})
	h.await([]Item{{Tier: Tier{Delay: 3600}}}, nil)
	define(t, h, "A|M|CI", nil)
	if b, _, _ := h.Snapshot(nil, []Wanted{{ID: id("A|M|CI"), Trades: true, Quotes: true, Delay: 3600}}); string(b) != `{"instrument":"A|M|CI"}` {
		t.Errorf("%s", b)
	}
	c := newClient(t, h.NewShard(func(bool) {}))
	c.sub.Subscribe([]Item{{wire.Status, id("A|M|CI"), Tier{Delay: 3600}}}, Options{})
	if got := c.read(1<<20, false); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
