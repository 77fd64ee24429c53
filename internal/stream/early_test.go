package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// earlyWorld is a hub with random delays that is restarted now and then, and its readers.
type earlyWorld struct {
	t       *testing.T
	rng     *rand.Rand
	folder  string
	delays  []time.Duration
	hub     *Hub
	shard   *Shard
	end     func()
	handles []market.Handle
	made    map[string]time.Time // time of publication, by instrument and N
	clients []*earlyClient
	event   int64 // time of the next event of the virtual market
	read    int
}

type earlyClient struct {
	delay int
	c     *client
	last  map[string]uint64
	place string
}

var earlyNames = []string{"A|M|CI", "B|M|CI", "A|V|CI"}

func (w *earlyWorld) begin() {
	w.t.Helper()
	j, err := journal.Open(journal.Config{Folder: w.folder, BootID: "same", Segment: 1 << 15})
	if err != nil {
		w.t.Fatal(err)
	}
	w.hub = New(Config{Journal: j, Delays: w.delays, TradesKept: 1 + w.rng.IntN(1000)})
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
	w.shard = w.hub.NewShard(func(bool) {})
	w.handles = nil
	for _, name := range earlyNames {
		w.handles = append(w.handles, define(w.t, w.hub, name, func(in *market.Instrument) { in.VirtualClock = name == "A|V|CI" }))
	}
	for _, c := range w.clients {
		c.c = newClient(w.t, w.shard)
		o := Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: c.place}}
		if out := c.c.sub.Subscribe([]Item{{wire.Trades, id("*|*|*"), Tier{Delay: c.delay}}}, o); len(out.Rejected) > 0 || len(out.Lost[wire.Trades]) > 0 {
			w.t.Fatalf("%+v", out)
		}
		c.c.sub.AfterReplay(ReplayEnd{})
	}
}

func (w *earlyWorld) publish() {
	k := w.rng.IntN(len(w.handles))
	e := trade(w.handles[k], w.rng.IntN(1000))
	e.Time = time.Now().UnixNano()
	if earlyNames[k] == "A|V|CI" {
		w.event += w.rng.Int64N(3600e9)
		e.Time = w.event
	}
	w.hub.mu.Lock()
	n := w.hub.handles[w.handles[k]].Trades.Last + 1
	w.hub.mu.Unlock()
	w.made[fmt.Sprint(earlyNames[k], n)] = time.Now()
	publish(w.t, w.hub, e)
}

// take reads all messages and checks that none of them is early.
func (w *earlyWorld) take() {
	w.t.Helper()
	for range 3 {
		synctest.Wait()
		turn(w.shard)
		for _, c := range w.clients {
			for c.c.sub.Pending() {
				list := frames(w.t, c.c.sub.Gather(nil, 1<<20, wire.JSON, false))
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
			w.hub.mu.Lock()
			newest := w.hub.position
			w.hub.mu.Unlock()
			if _, place := c.c.sub.Position(); place != "" && !c.c.sub.Pending() && !c.c.sub.Replaying() {
				c.place = place
				if _, p, err := position.Parse(place); err != nil || place != position.At(p.For(0)).Text(w.hub.epoch) || p.For(0) > newest {
					w.t.Fatalf("position %s of %d", place, newest)
				}
			}
		}
	}
}

// TestNothingComesEarly checks that no trade is sent before its delay is over. Each trade comes
// once and in order, and all trades come in the end. The delays are random, one market has a
// virtual clock, and clients resume by their positions after restarts.
func TestNothingComesEarly(t *testing.T) {
	seeds := uint64(8)
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 200
	}
	for seed := range seeds {
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
						if n := w.hub.handles[w.handles[i]].Trades.Last; c.last[name] != n {
							t.Errorf("delay %d s: %s came up to %d of %d", c.delay, name, c.last[name], n)
						}
					}
					due := w.hub.position
					if c.delay > 0 {
						due = w.hub.Due(c.delay)
					}
					if want := positionText(w.hub, due); c.place != want {
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
		h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
		hd := define(t, h, "A|M|CI", nil)
		copies := func() (n int) {
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, in := range h.numbered {
				if in != nil {
					n += len(in.later)
				}
			}
			if int64(n) != h.memory.followers {
				t.Errorf("%d instruments of replicas, %d counted", n, h.memory.followers)
			}
			return n
		}
		for range 100 {
			publish(t, h, trade(hd, 1))
			time.Sleep(time.Second)
		}
		if n := copies(); n > 0 {
			t.Errorf("%d instruments of a delay that nobody uses", n)
		}
		sh := h.NewShard(func(bool) {})
		for range 2 {
			c := newClient(t, sh)
			c.sub.Subscribe([]Item{{wire.Trades, id("A|M|CI"), Tier{Delay: 60}}}, Options{})
			if n := copies(); n != 1 {
				t.Errorf("%d instruments of a delay in use", n)
			}
			c.sub.Close()
			time.Sleep(2 * time.Minute)
			if n := copies(); n > 0 {
				t.Errorf("%d instruments of a delay that nobody uses any more", n)
			}
			h.mu.Lock()
			in := h.handles[hd]
			if rows := in.Rows(); h.shared.Rows != rows {
				t.Errorf("%d rows are counted, want %d", h.shared.Rows, rows)
			}
			h.mu.Unlock()
		}
	})
}
