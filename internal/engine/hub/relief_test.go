package hub_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestReliefOrder checks the order of the measures against a full memory. Quotes of a slow client
// collapse first, and no new tier is made. Then the hub keeps fewer rows, and connections are
// closed last. Trades, fast clients and clients that keep all messages lose nothing.
func TestReliefOrder(t *testing.T) {
	const count = 20_000
	h := hub.New(hub.Config{Memory: 3 << 20})
	hd := streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.QuotesFromFeed = true })
	sh := subscription.NewShard(h, func(bool) {})
	follow := func(c wire.Channel, tier hub.Tier) *streamtest.Client {
		x := streamtest.NewClient(t, sh)
		x.Sub.Subscribe([]hub.Item{{c, streamtest.ID("A|M|CI"), tier}}, subscription.Options{NoSnapshot: true})
		return x
	}
	fast, slow, strict, trades := follow(wire.Quotes, hub.Tier{}), follow(wire.Quotes, hub.Tier{}), follow(wire.Quotes, hub.Tier{}), follow(wire.Trades, hub.Tier{})
	strict.Sub.KeepAll(true)
	for k := range count {
		streamtest.Publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(int64(1+k%7), 1)}})
		if k%8 == 0 {
			streamtest.Publish(t, h, streamtest.Trade(hd, k))
		}
		if k%64 == 0 {
			streamtest.Turn(sh)
			fast.Read(1<<16, false)
		}
	}
	streamtest.Turn(sh)
	fast.Read(1<<16, false)
	rows := h.Shared().Rows
	for level := hub.RelieveReaders; level <= hub.RelieveSessions; level++ {
		measured(h, sh)
		if got := h.Memory().Level; got != level || fast.Sub.Excess() != (level == hub.RelieveSessions) {
			t.Fatalf("level %d instead of %d, excess %v", got, level, fast.Sub.Excess())
		}
		if fewer := h.Shared().MaxRows <= rows; fewer != (level >= hub.RelieveRecent) {
			t.Errorf("level %d: %d rows of %d may stay", level, h.Shared().MaxRows, rows)
		}
	}
	refuse := func(x hub.Item, want int) {
		t.Helper()
		if out := fast.Sub.Subscribe([]hub.Item{x}, subscription.Options{}); len(out.Rejected) != want || want == 1 && out.Rejected[0].Reason != wire.SubscriptionLimit {
			t.Errorf("%+v: %+v", x, out.Rejected)
		}
	}
	refuse(hub.Item{wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{Depth: 25}}, 1)
	refuse(hub.Item{wire.OrderBook, streamtest.ID("*|M|CI"), hub.Tier{Depth: 5, Conflate: 100}}, 1)
	refuse(hub.Item{wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5}}, 0)
	refuse(hub.Item{Channel: wire.BarsOf(market.Minute), ID: streamtest.ID("A|M|CI")}, 0)
	quotes := func(c *streamtest.Client) (n int, state bool) {
		for _, m := range c.Raw {
			if m.Type == "Q" {
				n++
				state = state || m.R
			}
		}
		return n, state
	}
	for _, c := range []*streamtest.Client{slow, strict, trades} {
		c.Read(1<<16, false)
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
	if n := len(trades.Trades["A|M|CI"]); n != (count+7)/8 {
		t.Errorf("%d trades came", n)
	}
	fast.Read(1<<16, false)
	for range 200 {
		streamtest.Publish(t, h, streamtest.Trade(hd, 1))
		measured(h, sh)
	}
	if h.Memory().Level != 0 || h.Shared().MaxRows != h.RecentBytes()/recent.RowBytes {
		t.Errorf("level %d, %d rows may stay", h.Memory().Level, h.Shared().MaxRows)
	}
}

// TestLettingGoLosesNothing checks that a client that resumes, subscribes and unsubscribes at
// random receives every trade once, even if its waiting data is released.
func TestLettingGoLosesNothing(t *testing.T) {
	for seed := range streamtest.Soak(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { letGoAtRandom(t, uint64(seed)) })
	}
}

func letGoAtRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 13))
	w := streamtest.LongHouse(t, 3, 2000)
	defer func() { w.Leave(true) }()
	c := streamtest.NewClient(t, w.Shard)
	r := &wire.Resume{Epoch: w.Hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []hub.Item
	for _, name := range w.Names {
		last := w.Hub.Lookup(streamtest.ID(name)).Trades.Last
		n := rng.Uint64N(last)
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
		r.Seen[wire.Trades][name], c.Last[name] = n, n
	}
	c.Sub.Subscribe(items, subscription.Options{Resume: r})
	for k := range 300 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			for range rng.IntN(60) {
				streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[rng.IntN(len(w.Handles))], k))
			}
		case 3:
			streamtest.Turn(w.Shard)
		case 4:
			for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1+rng.IntN(4000), wire.JSON, false)) {
				c.Take(&m)
			}
		case 5:
			w.Hub.Relieve(rng.Int32N(2))
			w.Hub.AskReports()
			streamtest.Turn(w.Shard)
		case 6:
			streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|*")
		case 7:
			c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}})
			for _, m := range streamtest.Frames(t, c.Sub.TakeCarry(nil)) {
				c.Take(&m)
			}
		}
	}
	w.Hub.Relieve(0)
	streamtest.Turn(w.Shard)
	w.Replayed(c)
	c.Read(1<<16, false)
	for _, name := range w.Names {
		if last := w.Hub.Lookup(streamtest.ID(name)).Trades.Last; c.Last[name] != last {
			t.Errorf("%s came up to %d of %d", name, c.Last[name], last)
		}
	}
}

// TestSubscribeUnderRelief checks that two shards can subscribe at once while the memory is full
// and new topics are refused.
func TestSubscribeUnderRelief(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	h.Relieve(hub.RelieveReaders)
	var all sync.WaitGroup
	for range 2 {
		sh := subscription.NewShard(h, func(bool) {})
		all.Go(func() {
			for range 1000 {
				s := streamtest.Open(sh)
				s.Subscribe([]hub.Item{{wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{Depth: 25}}, {wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{Depth: hub.PlainDepth}}}, subscription.Options{})
				s.Close()
			}
		})
	}
	all.Wait()
}
