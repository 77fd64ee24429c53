package hub_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// earlyWorld is a hub with random delays that is restarted now and then, and its readers.
type earlyWorld struct {
	t       *testing.T
	rng     *rand.Rand
	folder  string
	delays  []time.Duration
	hub     *hub.Hub
	shard   *subscription.Shard
	end     func()
	handles []market.Handle
	made    map[string]time.Time // time of publication, by instrument and N
	clients []*earlyClient
	event   int64 // time of the next event of the virtual market
	read    int
}

type earlyClient struct {
	delay int
	c     *streamtest.Client
	last  map[string]uint64
	place string
}

var earlyNames = []string{"A|M|CI", "B|M|CI", "A|V|CI"}

func (w *earlyWorld) begin() {
	w.t.Helper()
	j, err := journal.Open(w.t.Context(), journal.Config{Folder: w.folder, BootID: "same", Segment: 1 << 15})
	if err != nil {
		w.t.Fatal(err)
	}
	w.hub = hub.New(hub.Config{Journal: j, Delays: w.delays, TradesKept: 1 + w.rng.IntN(1000)})
	if err := w.hub.Restore(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = w.hub.Run(ctx) })
	w.end = func() {
		cancel()
		run.Wait()
		if err := j.Close(); err != nil {
			w.t.Error(err)
		}
	}
	w.shard = subscription.NewShard(w.hub, func(bool) {})
	w.handles = nil
	for _, name := range earlyNames {
		w.handles = append(w.handles, streamtest.Define(w.t, w.hub, name, func(in *market.Instrument) { in.VirtualClock = name == "A|V|CI" }))
	}
	for _, c := range w.clients {
		c.c = streamtest.NewClient(w.t, w.shard)
		o := subscription.Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: c.place}}
		if out := c.c.Sub.Subscribe([]hub.Item{{wire.Trades, streamtest.ID("*|*|*"), hub.Tier{Delay: c.delay}}}, o); len(out.Rejected) > 0 || len(out.Lost[wire.Trades]) > 0 {
			w.t.Fatalf("%+v", out)
		}
		c.c.Sub.AfterReplay(subscription.ReplayEnd{})
	}
}

func (w *earlyWorld) publish() {
	k := w.rng.IntN(len(w.handles))
	e := streamtest.Trade(w.handles[k], w.rng.IntN(1000))
	e.Time = time.Now().UnixNano()
	if earlyNames[k] == "A|V|CI" {
		w.event += w.rng.Int64N(3600e9)
		e.Time = w.event
	}
	w.hub.Mu().Lock()
	n := w.hub.At(w.handles[k]).Trades.Last + 1
	w.hub.Mu().Unlock()
	w.made[fmt.Sprint(earlyNames[k], n)] = time.Now()
	streamtest.Publish(w.t, w.hub, e)
}

// take reads all messages and checks that none of them is early.
func (w *earlyWorld) take() {
	w.t.Helper()
	for range 3 {
		synctest.Wait()
		streamtest.Turn(w.shard)
		for _, c := range w.clients {
			for c.c.Sub.Pending() {
				list := streamtest.Frames(w.t, c.c.Sub.Gather(nil, 1<<20, wire.JSON, false))
				if len(list) == 0 {
					break
				}
				for _, m := range list {
					w.read++
					at := w.made[fmt.Sprint(m.I, m.N)]
					if age := time.Since(at); at.IsZero() || age < time.Duration(c.delay)*time.Second {
						w.t.Fatalf("delay %d s: %s %d came after %v", c.delay, m.I, m.N, age)
					}
					if m.N != c.last[m.I]+1 {
						w.t.Fatalf("delay %d s: %s %d after %d", c.delay, m.I, m.N, c.last[m.I])
					}
					c.last[m.I] = m.N
				}
			}
			w.hub.Mu().Lock()
			newest := w.hub.Newest()
			w.hub.Mu().Unlock()
			if _, place := c.c.Sub.Position(); place != "" && !c.c.Sub.Pending() && !c.c.Sub.Replaying() {
				c.place = place
				if _, p, err := position.Parse(place); err != nil || place != position.At(p.For(0)).Text(w.hub.Epoch()) || p.For(0) > newest {
					w.t.Fatalf("position %s of %d", place, newest)
				}
			}
		}
	}
}

// TestNothingComesEarly checks that no trade is sent before its delay is over. Each trade comes
// once and in order, and all trades come in the end. The delays are random, one market has a
// virtual clock, and clients resume by their positions after restarts.
func TestNothingComesEarly(t *testing.T) { nothingComesEarly(t, 0, 2) }

// TestNothingComesEarlyLong does so with six more seeds: one with -short, 198 in the soak.
func TestNothingComesEarlyLong(t *testing.T) {
	end := uint64(8)
	switch {
	case testing.Short():
		end = 3
	case os.Getenv("RUEDA_SOAK") != "":
		end = 200
	}
	nothingComesEarly(t, 2, end)
}

func nothingComesEarly(t *testing.T, seed, end uint64) {
	for ; seed < end; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := &earlyWorld{t: t, rng: rand.New(rand.NewPCG(seed, 21)), folder: folder, made: map[string]time.Time{}, event: 1e18}
				for len(w.delays) < 2 {
					w.delays = append(w.delays, time.Duration(1+w.rng.IntN(100))*time.Second)
				}
				for _, d := range append([]time.Duration{0}, w.delays...) {
					w.clients = append(w.clients, &earlyClient{delay: int(d / time.Second), last: map[string]uint64{}})
				}
				w.begin()
				for range 300 {
					switch {
					case w.rng.IntN(40) == 0:
						w.take()
						w.end()
						time.Sleep(time.Duration(w.rng.Int64N(int64(30 * time.Second))))
						w.begin()
					case w.rng.IntN(3) == 0:
						time.Sleep(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
						w.take()
					default:
						w.publish()
					}
				}
				time.Sleep(5 * time.Minute)
				w.take()
				for _, c := range w.clients {
					for i, name := range earlyNames {
						if n := w.hub.At(w.handles[i]).Trades.Last; c.last[name] != n {
							t.Errorf("delay %d s: %s came up to %d of %d", c.delay, name, c.last[name], n)
						}
					}
					due := w.hub.Newest()
					if c.delay > 0 {
						due = w.hub.Due(c.delay)
					}
					if want := streamtest.PositionText(w.hub, due); c.place != want {
						t.Errorf("delay %d s: at position %s, want that of the live rows, %s", c.delay, c.place, want)
					}
				}
				w.end()
			})
		})
	}
}

// TestDelayCostsNothing checks that a delay without readers has no replica, neither before the
// first reader comes nor some time after the last one has left.
func TestDelayCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		copies := func() (n int) {
			synctest.Wait()
			h.Mu().Lock()
			defer h.Mu().Unlock()
			for _, in := range h.Numbered() {
				if in != nil {
					n += len(in.Later())
				}
			}
			if int64(n) != h.Memory().Followers {
				t.Errorf("%d instruments of replicas, %d counted", n, h.Memory().Followers)
			}
			return n
		}
		for range 100 {
			streamtest.Publish(t, h, streamtest.Trade(hd, 1))
			time.Sleep(time.Second)
		}
		if n := copies(); n > 0 {
			t.Errorf("%d instruments of a delay that nobody uses", n)
		}
		sh := subscription.NewShard(h, func(bool) {})
		for range 2 {
			c := streamtest.NewClient(t, sh)
			c.Sub.Subscribe([]hub.Item{{wire.Trades, streamtest.ID("A|M|CI"), hub.Tier{Delay: 60}}}, subscription.Options{})
			if n := copies(); n != 1 {
				t.Errorf("%d instruments of a delay in use", n)
			}
			c.Sub.Close()
			time.Sleep(2 * time.Minute)
			if n := copies(); n > 0 {
				t.Errorf("%d instruments of a delay that nobody uses any more", n)
			}
			h.Mu().Lock()
			in := h.At(hd)
			if rows := in.Rows(); h.Shared().Rows != rows {
				t.Errorf("%d rows are counted, want %d", h.Shared().Rows, rows)
			}
			h.Mu().Unlock()
		}
	})
}
