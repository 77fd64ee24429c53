package subscription_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// aheadTest is a client that resumes with rows that a following hub does not have yet.
type aheadTest struct {
	t     *testing.T
	hub   *hub.Hub
	sub   *subscription.Subscriber
	found chan struct{}
	items []hub.Item
	o     subscription.Options
}

func newAheadTest(t *testing.T, resume func(epoch string) *wire.Resume) *aheadTest {
	h := streamtest.RunningHub(t, hub.Config{Following: true, Delays: []time.Duration{15 * time.Minute}})
	synctest.Wait() // until its Run has begun
	def := market.Instrument{ID: streamtest.ID("A|M|CI"), PriceDecimals: 2}
	if err := streamtest.FollowDefinition(h, 1, def); err != nil {
		t.Fatal(err)
	}
	x := &aheadTest{t: t, hub: h, sub: streamtest.Open(subscription.NewShard(h, func(bool) {})), found: make(chan struct{}, 1)}
	x.items = []hub.Item{{Channel: wire.Trades, ID: def.ID}}
	x.o = subscription.Options{Resume: resume(h.Epoch()), Found: func() { x.found <- struct{}{} }}
	x.follow(1, 3)
	return x
}

// follow gives the hub the rows of trades.
func (x *aheadTest) follow(from, to uint64) {
	x.t.Helper()
	var rows []journal.Row
	for n := from; n <= to; n++ {
		rows = append(rows, journal.Row{Kind: journal.Trade, Instrument: 1, Position: n, N: n, Time: int64(n), At: int64(n), Latency: -1,
			Price: market.Scale, Size: market.Scale, ID: fmt.Sprint(n)})
	}
	if err := streamtest.Follow(x.hub, rows); err != nil {
		x.t.Fatal(err)
	}
	x.hub.Commit()
}

// subscribe subscribes, and returns how long it waited for the rows.
func (x *aheadTest) subscribe() (out subscription.Outcome, waited time.Duration) {
	began := time.Now()
	for out = x.sub.Subscribe(x.items, x.o); out.Search != nil; out = x.sub.Subscribe(x.items, x.o) {
		<-x.found
		x.o.Search = out.Search
	}
	return out, time.Since(began)
}

// TestResumeAhead requires that a hub which follows waits for rows that a client has from another
// node, by N and by position.
func TestResumeAhead(t *testing.T) {
	t.Parallel()
	byN := func(epoch string) *wire.Resume {
		r := &wire.Resume{Epoch: epoch}
		r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 5}
		return r
	}
	byPosition := func(epoch string) *wire.Resume {
		return &wire.Resume{Epoch: epoch, Position: epoch + ":5"}
	}
	for name, resume := range map[string]func(string) *wire.Resume{"by N": byN, "by position": byPosition} {
		t.Run(name+", the rows come", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newAheadTest(t, resume)
				time.AfterFunc(time.Second, func() { x.follow(4, 4) })
				time.AfterFunc(2*time.Second, func() { x.follow(5, 6) })
				out, waited := x.subscribe()
				if waited != 2*time.Second || len(out.Lost[wire.Trades]) > 0 || out.Search != nil {
					t.Errorf("waited for %v: %+v", waited, out)
				}
				if got := streamtest.Frames(t, x.sub.Gather(nil, 1<<20, wire.JSON, false)); len(got) != 1 || got[0].N != 6 {
					t.Errorf("%+v instead of row 6", got)
				}
			})
		})
		for _, current := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the rows do not come, current %v", name, current), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					x := newAheadTest(t, resume)
					x.hub.SetCurrent(current)
					out, waited := x.subscribe()
					lost := out.Lost[wire.Trades]["A|M|CI"].Reason == "ahead"
					cutOff := out.Fault != nil && out.Fault.Reason == wire.Overloaded
					if waited != 5*time.Second || lost != current || cutOff == current {
						t.Errorf("waited for %v: %+v", waited, out)
					}
				})
			})
		}
	}
	t.Run("a replica is loaded first", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			x := newAheadTest(t, byN)
			x.items = append(x.items, hub.Item{Channel: wire.OrderBook, ID: market.InstrumentID{Symbol: "B", Market: "D", Term: "CI"}, Tier: hub.Tier{Delay: 900}})
			time.AfterFunc(time.Second, func() { x.follow(4, 6) })
			if out, waited := x.subscribe(); waited != time.Second || len(out.Lost[wire.Trades]) > 0 {
				t.Errorf("waited for %v: %+v", waited, out)
			}
		})
	})
	t.Run("nothing to wait for", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, r := range []*wire.Resume{{Epoch: "other", Position: "other:5"}, nil} {
				x := newAheadTest(t, func(string) *wire.Resume { return r })
				if out, waited := x.subscribe(); waited != 0 || out.Search != nil {
					t.Errorf("waited for %v: %+v", waited, out)
				}
			}
		})
	})
}
