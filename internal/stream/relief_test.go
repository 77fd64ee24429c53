package stream

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestReliefOrder checks the order of the measures against a full memory. Quotes of a slow client
// collapse first, and no new tier is made. Then the hub keeps fewer rows, and connections are
// closed last. Trades, fast clients and clients that keep all messages lose nothing.
func TestReliefOrder(t *testing.T) {
	const count = 20_000
	h := New(Config{Memory: 3 << 20})
	hd := define(t, h, "A|M|CI", func(in *market.Instrument) { in.QuotesFromFeed = true })
	sh := h.NewShard(func(bool) {})
	follow := func(c wire.Channel, tier Tier) *client {
		x := newClient(t, sh)
		x.sub.Subscribe([]Item{{c, id("A|M|CI"), tier}}, Options{NoSnapshot: true})
		return x
	}
	fast, slow, strict, trades := follow(wire.Quotes, Tier{}), follow(wire.Quotes, Tier{}), follow(wire.Quotes, Tier{}), follow(wire.Trades, Tier{})
	strict.sub.KeepAll(true)
	for k := range count {
		publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{level(int64(1+k%7), 1)}})
		if k%8 == 0 {
			publish(t, h, trade(hd, k))
		}
		if k%64 == 0 {
			turn(sh)
			fast.read(1<<16, false)
		}
	}
	turn(sh)
	fast.read(1<<16, false)
	rows := h.shared.Rows
	for level := relieveReaders; level <= relieveSessions; level++ {
		measured(h, sh)
		if got := h.memory.level.Load(); got != level || fast.sub.Excess() != (level == relieveSessions) {
			t.Fatalf("level %d instead of %d, excess %v", got, level, fast.sub.Excess())
		}
		if fewer := h.shared.MaxRows <= rows; fewer != (level >= relieveRecent) {
			t.Errorf("level %d: %d rows of %d may stay", level, h.shared.MaxRows, rows)
		}
	}
	refuse := func(x Item, want int) {
		t.Helper()
		if out := fast.sub.Subscribe([]Item{x}, Options{}); len(out.Rejected) != want || want == 1 && out.Rejected[0].Reason != wire.SubscriptionLimit {
			t.Errorf("%+v: %+v", x, out.Rejected)
		}
	}
	refuse(Item{wire.OrderBook, id("A|M|CI"), Tier{Depth: 25}}, 1)
	refuse(Item{wire.OrderBook, id("*|M|CI"), Tier{Depth: 5, Conflate: 100}}, 1)
	refuse(Item{wire.OrderBook, id("A|M|CI"), Tier{Depth: 5}}, 0)
	refuse(Item{Channel: wire.BarsOf(market.Minute), ID: id("A|M|CI")}, 0)
	quotes := func(c *client) (n int, state bool) {
		for _, m := range c.raw {
			if m.Type == "Q" {
				n++
				state = state || m.R
			}
		}
		return n, state
	}
	for _, c := range []*client{slow, strict, trades} {
		c.read(1<<16, false)
	}
	if n, state := quotes(fast); n != count || state {
		t.Errorf("who keeps up got %d quotes of %d, state %v", n, count, state)
	}
	if n, state := quotes(slow); n > 2 || !state {
		t.Errorf("who is behind got %d quotes, state %v", n, state)
	}
	if n, state := quotes(strict); n != count || state {
		t.Errorf("who is behind and strict got %d quotes of %d, state %v", n, count, state)
	}
	if n := len(trades.trades["A|M|CI"]); n != (count+7)/8 {
		t.Errorf("%d trades came", n)
	}
	fast.read(1<<16, false)
	for range 200 {
		publish(t, h, trade(hd, 1))
		measured(h, sh)
	}
	if h.memory.level.Load() != 0 || h.shared.MaxRows != h.cfg.RecentBytes/recent.RowBytes {
		t.Errorf("level %d, %d rows may stay", h.memory.level.Load(), h.shared.MaxRows)
	}
}

// TestLettingGoLosesNothing checks that a client that resumes, subscribes and unsubscribes at
// random receives every trade once, even if its waiting data is released.
func TestLettingGoLosesNothing(t *testing.T) {
	for seed := range soak(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { letGoAtRandom(t, uint64(seed)) })
	}
}

func letGoAtRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 13))
	w := longHouse(t, 3, 2000)
	defer func() { w.leave(true) }()
	c := newClient(t, w.shard)
	r := &wire.Resume{Epoch: w.hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []Item
	for _, name := range w.names {
		last := w.hub.lookup(id(name)).Trades.Last
		n := rng.Uint64N(last)
		items = append(items, Item{Channel: wire.Trades, ID: id(name)})
		r.Seen[wire.Trades][name], c.last[name] = n, n
	}
	c.sub.Subscribe(items, Options{Resume: r})
	for k := range 300 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			for range rng.IntN(60) {
				publish(t, w.hub, trade(w.handles[rng.IntN(len(w.handles))], k))
			}
		case 3:
			turn(w.shard)
		case 4:
			for _, m := range frames(t, c.sub.Gather(nil, 1+rng.IntN(4000), wire.JSON, false)) {
				c.take(&m)
			}
		case 5:
			w.hub.memory.level.Store(rng.Int32N(2))
			w.shard.measure.Store(true)
			turn(w.shard)
		case 6:
			subscribe(t, c.sub, wire.Trades, "*|M|*")
		case 7:
			c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}})
			for _, m := range frames(t, c.sub.TakeCarry(nil)) {
				c.take(&m)
			}
		}
	}
	w.hub.memory.level.Store(0)
	turn(w.shard)
	w.replayed(c)
	c.read(1<<16, false)
	for _, name := range w.names {
		if last := w.hub.lookup(id(name)).Trades.Last; c.last[name] != last {
			t.Errorf("%s came up to %d of %d", name, c.last[name], last)
		}
	}
}

// soak returns the full count of a long test if RUEDA_SOAK is set, and else a twentieth of it.
func soak(n int) int {
	if os.Getenv("RUEDA_SOAK") != "" {
		return n
	}
	return max(1, n/20)
}

// TestSubscribeUnderRelief checks that two shards can subscribe at once while the memory is full
// and new topics are refused.
func TestSubscribeUnderRelief(t *testing.T) {
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	h.memory.level.Store(relieveReaders)
	var all sync.WaitGroup
	for range 2 {
		sh := h.NewShard(func(bool) {})
		all.Go(func() {
			for range 1000 {
				s := open(sh)
				s.Subscribe([]Item{{wire.OrderBook, id("A|M|CI"), Tier{Depth: 25}}, {wire.OrderBook, id("A|M|CI"), Tier{Depth: plainDepth}}}, Options{})
				s.Close()
			}
		})
	}
	all.Wait()
}
