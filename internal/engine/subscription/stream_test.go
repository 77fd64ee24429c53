package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func TestTradeReachesItsReadersOnce(t *testing.T) {
	h := hub.New(hub.Config{})
	a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Publish(t, h, streamtest.Trade(a, 1))
	streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
	c.Read(1<<20, false)
	if len(c.Trades) != 0 {
		t.Fatal("a last trade was sent on subscribe")
	}
	streamtest.Publish(t, h, streamtest.Trade(a, 2), streamtest.Trade(b, 1), streamtest.Trade(a, 3))
	called := streamtest.Turn(sh)
	c.Read(1<<20, false)
	if called != 1 || !slices.Equal(c.Trades["A|M|CI"], []uint64{2, 3}) || len(c.Trades) != 1 {
		t.Fatalf("called %d, got %v", called, c.Trades)
	}
}

// TestAwaitTurn checks that AwaitTurn waits until the shard with readers has run a turn.
func TestAwaitTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{})
		a := streamtest.Define(t, h, "A|M|CI", nil)
		sh, idle := subscription.NewShard(h, func(bool) {}), subscription.NewShard(h, func(bool) {})
		streamtest.Subscribe(t, streamtest.NewClient(t, sh).Sub, wire.Trades, "A|M|CI")
		streamtest.Publish(t, h, streamtest.Trade(a, 1))
		went := false
		go func() {
			if err := h.AwaitTurn(t.Context(), 0); err != nil {
				t.Error(err)
			}
			went = true
		}()
		streamtest.Turn(idle)
		synctest.Wait()
		if went {
			t.Error("did not wait")
		}
		streamtest.Turn(sh)
		synctest.Wait()
		if !went {
			t.Error("waits still")
		}
		streamtest.Publish(t, h, streamtest.Trade(a, 2))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.AwaitTurn(ctx, 1); err != nil {
			t.Errorf("one behind: %v", err)
		}
		if err := h.AwaitTurn(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestPerTurn checks turns that publish a few messages at a time, over many segments of the ring.
// One subscriber begins in the middle. Each message comes once, and no message that waits lies
// before a position that is sent.
func TestPerTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		h := hub.New(hub.Config{PerTurn: most})
		a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
		woken := false
		sh := subscription.NewShard(h, func(bool) { woken = true })
		c := streamtest.NewClient(t, sh)
		streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI", "B|M|CI")
		n, turns, received := 0, 0, 0
		var after []uint64 // position of the stream after each message
		var second *streamtest.Client
		late := 0
		for round := range 200 {
			for range round % 11 {
				n++
				streamtest.Publish(t, h, streamtest.Trade(a, n))
				after = append(after, newest(sh))
				if n%5 == 0 {
					streamtest.Publish(t, h, streamtest.Trade(b, n))
					after = append(after, newest(sh))
				}
			}
			if second == nil && n > 300 {
				second = streamtest.NewClient(t, sh)
				streamtest.Subscribe(t, second.Sub, wire.Trades, "A|M|CI")
				late = n
			}
			for woken { // only once in every second round, so that messages wait
				woken = false
				streamtest.Turn(sh)
				turns++
				got := len(c.Read(1<<20, false))
				if got > 2*most {
					t.Fatalf("%d messages in one turn", got)
				}
				received += got
				_, place := c.Sub.Position()
				_, pos, err := position.Parse(place)
				if safe, _ := slices.BinarySearch(after, pos.For(0)+1); err != nil || safe > received {
					t.Fatalf("position %s is that after %d messages, and %d have come", place, safe, received)
				}
				if round%2 == 0 {
					break
				}
			}
		}
		for woken {
			woken = false
			streamtest.Turn(sh)
			received += len(c.Read(1<<20, false))
		}
		if second.Read(1<<20, false); received != n+n/5 || turns < n/most {
			t.Errorf("%d of %d messages in %d turns", received, n+n/5, turns)
		}
		if got := len(second.Trades["A|M|CI"]); got != n-late {
			t.Errorf("%d trades of %d from a subscription on", got, n-late)
		}
	})
}

func TestBookTiersFollowTheBook(t *testing.T) {
	tiers := []hub.Tier{{Depth: 1, Conflate: 0, Delay: 0}, {Depth: 5, Conflate: 0, Delay: 0}, {Depth: 10, Conflate: 0, Delay: 0}, {Depth: 25, Conflate: 0, Delay: 0}, {Depth: 0, Conflate: 0, Delay: 0}, {Depth: 5, Conflate: 100, Delay: 0}, {Depth: 0, Conflate: 100, Delay: 0}, {Depth: 1, Conflate: 250, Delay: 0}}
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		rng := rand.New(rand.NewPCG(1, 2))
		clients := make([]*streamtest.Client, len(tiers))
		join := func(i int) {
			c := streamtest.NewClient(t, sh)
			c.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: tiers[i]}, {Channel: wire.Quotes, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Conflate: tiers[i].Conflate}}}, subscription.Options{})
			clients[i] = c
		}
		for i := range tiers {
			join(i)
		}
		ctx := t.Context()
		go h.Run(ctx)
		for range 4000 {
			e := market.Event{Kind: market.KindUpdate, Handle: hd}
			for range 1 + rng.IntN(4) {
				p, z := int64(rng.IntN(40)), int64(rng.IntN(3))
				if rng.IntN(2) == 0 {
					e.Bids = append(e.Bids, streamtest.Level(100-p, z))
				} else {
					e.Asks = append(e.Asks, streamtest.Level(101+p, z))
				}
			}
			if rng.IntN(400) == 0 {
				e = market.Event{Kind: market.KindGap, Handle: hd}
				streamtest.Publish(t, h, e)
				e = market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(102, 2)}}
			}
			streamtest.Publish(t, h, e)
			if rng.IntN(3) == 0 {
				streamtest.Turn(sh)
			}
			i := rng.IntN(len(clients))
			if rng.IntN(2) == 0 {
				clients[i].Read(1+rng.IntN(2000), rng.IntN(8) == 0)
			}
			if rng.IntN(50) == 0 {
				clients[i].Sub.Close()
				join(i)
			}
			if rng.IntN(5) == 0 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		time.Sleep(2 * time.Second)
		streamtest.Turn(sh)
		for i, c := range clients {
			c.Read(1<<20, false)
			full, err := h.AppendBook(nil, streamtest.ID("A|M|CI"), hub.Tier{Depth: tiers[i].Depth})
			if err != nil {
				t.Fatal(err)
			}
			var want streamtest.CopyBook
			m := streamtest.Frames(t, wire.AppendText(nil, full))[0]
			want.Take(t, &m)
			got := c.Books["A|M|CI"]
			if !slices.Equal(got.Bids.Append(nil, market.Buy, 0), want.Bids.Append(nil, market.Buy, 0)) ||
				!slices.Equal(got.Asks.Append(nil, market.Sell, 0), want.Asks.Append(nil, market.Sell, 0)) {
				t.Errorf("tier %+v ended with another book", tiers[i])
			}
		}
	})
}

// TestResumeLosesNothing checks a reader of 20 instruments that disconnects at random times and
// resumes by N or by position. It receives every trade once and in order, except for those reported
// as lost.
func TestResumeLosesNothing(t *testing.T) {
	h := hub.New(hub.Config{TradesKept: 600})
	sh := subscription.NewShard(h, func(bool) {})
	rng := rand.New(rand.NewPCG(3, 4))
	var handles []market.Handle
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("S%d|M|CI", i))
		handles = append(handles, streamtest.Define(t, h, names[i], nil))
	}
	seen := map[string]uint64{}
	var c *streamtest.Client
	var epoch, position string
	connect := func(resume *wire.Resume) {
		c = streamtest.NewClient(t, sh)
		items := make([]hub.Item, len(names))
		for i, n := range names {
			items[i] = hub.Item{Channel: wire.Trades, ID: streamtest.ID(n)}
		}
		out := c.Sub.Subscribe(items, subscription.Options{Resume: resume})
		if out.Fault != nil || len(out.Rejected) > 0 {
			t.Fatalf("%+v", out)
		}
		for n := range names {
			if l, lost := out.Lost[wire.Trades][names[n]]; lost {
				if resume.Seen[wire.Trades][names[n]] > 0 && l.From != seen[names[n]]+1 {
					t.Fatalf("lost from %d, had %d", l.From, seen[names[n]])
				}
				seen[names[n]] = l.To
			}
		}
		epoch, position = out.Epoch, out.Position
	}
	connect(nil)
	sent := make([]int, 20)
	for range 200 {
		for range rng.IntN(400) {
			i := rng.IntN(20)
			sent[i]++
			streamtest.Publish(t, h, streamtest.Trade(handles[i], sent[i]))
			if rng.IntN(4) == 0 {
				streamtest.Turn(sh)
				for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1+rng.IntN(3000), wire.JSON, false)) {
					if m.N != seen[m.I]+1 {
						t.Fatalf("%s: %d after %d", m.I, m.N, seen[m.I])
					}
					seen[m.I] = m.N
				}
				epoch, position = c.Sub.Position()
			}
		}
		c.Sub.Close()
		for range rng.IntN(300) {
			i := rng.IntN(20)
			sent[i]++
			streamtest.Publish(t, h, streamtest.Trade(handles[i], sent[i]))
		}
		r := &wire.Resume{Epoch: epoch, Position: position}
		r.Seen[wire.Trades] = map[string]uint64{}
		for _, n := range names {
			if seen[n] > 0 {
				r.Seen[wire.Trades][n] = seen[n]
			}
		}
		connect(r)
	}
	streamtest.Turn(sh)
	for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1<<30, wire.JSON, false)) {
		if m.N != seen[m.I]+1 {
			t.Fatalf("%s: %d after %d", m.I, m.N, seen[m.I])
		}
		seen[m.I] = m.N
	}
	for i, n := range names {
		if seen[n] != uint64(sent[i]) {
			t.Errorf("%s: ended at %d of %d", n, seen[n], sent[i])
		}
	}
}

// TestOverlappingIdentifiers checks exact identifiers and patterns that are added and removed at
// random. As long as one of them covers an instrument, each of its trades comes once.
func TestOverlappingIdentifiers(t *testing.T) {
	pool := []string{"*|M|CI", "*|M|*", "*|*|*", "A|*|*", "A|M|*", "A|M|CI", "B|M|CI", "A|M|24hs", "B|N|CI", "*|N|CI"}
	names := []string{"A|M|CI", "B|M|CI", "A|M|24hs", "A|N|CI", "B|N|CI"}
	for seed := range uint64(40) {
		h := hub.New(hub.Config{})
		sh := subscription.NewShard(h, func(bool) {})
		rng := rand.New(rand.NewPCG(seed, 1))
		var handles []market.Handle
		for _, n := range names {
			handles = append(handles, streamtest.Define(t, h, n, nil))
		}
		c := streamtest.NewClient(t, sh)
		set := map[string]bool{}
		want := map[string][]uint64{}
		sent := map[string]uint64{}
		covered := func(n string) bool {
			for p := range set {
				if streamtest.ID(p).Matches(streamtest.ID(n)) {
					return true
				}
			}
			return false
		}
		for range 600 {
			switch rng.IntN(5) {
			case 0:
				p := pool[rng.IntN(len(pool))]
				streamtest.Subscribe(t, c.Sub, wire.Trades, p)
				set[p] = true
			case 1:
				p := pool[rng.IntN(len(pool))]
				// The client reads first, since waiting messages without an identifier may be sent
				// or not.
				streamtest.Turn(sh)
				for c.Sub.Pending() {
					for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1<<20, wire.JSON, false)) {
						c.Trades[m.I] = append(c.Trades[m.I], m.N)
					}
				}
				c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(p)}})
				delete(set, p)
			default:
				i := rng.IntN(len(names))
				sent[names[i]]++
				streamtest.Publish(t, h, streamtest.Trade(handles[i], int(sent[names[i]])))
				if covered(names[i]) {
					want[names[i]] = append(want[names[i]], sent[names[i]])
				}
				if rng.IntN(3) == 0 {
					streamtest.Turn(sh)
					for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, rng.IntN(600), wire.JSON, false)) {
						c.Trades[m.I] = append(c.Trades[m.I], m.N)
					}
				}
			}
		}
		streamtest.Turn(sh)
		for c.Sub.Pending() {
			for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1<<20, wire.JSON, false)) {
				c.Trades[m.I] = append(c.Trades[m.I], m.N)
			}
		}
		for _, n := range names {
			if !slices.Equal(c.Trades[n], want[n]) {
				t.Fatalf("seed %d, %s: got %v, want %v", seed, n, c.Trades[n], want[n])
			}
		}
		c.Sub.Close()
		if sh.Views() != 0 {
			t.Fatalf("seed %d: %d views left", seed, sh.Views())
		}
	}
}

func TestPatternCoversWhatIsListedLater(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.Status, "*|M|CI")
	c.Read(1<<20, false)
	b := streamtest.Define(t, h, "B|M|CI", nil)
	streamtest.Publish(t, h, streamtest.Trade(b, 1))
	streamtest.Turn(sh)
	got := c.Read(1<<20, false)
	if len(got) != 2 || !slices.Equal(c.Trades["B|M|CI"], []uint64{1}) {
		t.Fatalf("%+v", got)
	}
}

func TestStaleBookIsReported(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	hd := streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty = false })
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.OrderBook, "A|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.Quotes, "A|M|CI")
	got := c.Read(1<<20, false)
	if len(got) != 1 || got[0].E != "feed_down" || !got[0].R {
		t.Fatalf("%+v", got)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(1, 1)}},
		market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(1, 1)}, Asks: []market.Level{streamtest.Level(2, 1)}},
		market.Event{Kind: market.KindGap, Handle: hd, Reason: "lost_packets"},
		market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(1, 5)}},
		market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(1, 7)}})
	streamtest.Turn(sh)
	kinds := ""
	for _, m := range c.Read(1<<20, false) {
		kinds += m.Type
		if m.Type == "H" {
			kinds += ":" + m.E + " "
		}
	}
	// Each status comes once, although the rings of the book and the quotes both have it.
	if kinds != "OH:gap H:feed_down H:feed_up OQQ" {
		t.Fatalf("got %s", kinds)
	}
}

func TestMarketWideStatus(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Define(t, h, "A|N|CI", nil)
	m := streamtest.Define(t, h, "*|M|*", nil)
	status := func(p market.Phase) {
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: m, Phase: p})
	}
	trades, follower, other, all := streamtest.NewClient(t, sh), streamtest.NewClient(t, sh), streamtest.NewClient(t, sh), streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, trades.Sub, wire.Trades, "A|M|CI")
	streamtest.Subscribe(t, follower.Sub, wire.Status, "A|M|CI")
	streamtest.Subscribe(t, other.Sub, wire.Trades, "A|N|CI")
	streamtest.Subscribe(t, all.Sub, wire.Quotes, "*|*|*")
	status(market.Closed)
	status(market.FeedDown)
	streamtest.Turn(sh)
	phases := func(c *streamtest.Client) (s string) {
		c.Read(1<<20, false)
		for _, n := range c.Notes {
			s += n.E + " "
		}
		return s
	}
	if got := phases(trades); got != "feed_down " {
		t.Errorf("subscriber of trades got %q", got)
	}
	if got := phases(follower); got != "open closed feed_down " {
		t.Errorf("subscriber of status got %q", got)
	}
	if got := phases(other); got != "" {
		t.Errorf("subscriber of another market got %q", got)
	}
	if got := phases(all); got != "feed_down " {
		t.Errorf("subscriber of everything got %q", got)
	}
	late := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, late.Sub, wire.Trades, "A|M|CI")
	if got := phases(late); got != "feed_down " {
		t.Errorf("late subscriber got %q", got)
	}
}

func TestConflationKeepsTradesAndNewestState(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.Quotes, "A|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.OrderBook, "A|M|CI")
	c.Read(1<<20, false)
	for i := range 1000 {
		streamtest.Publish(t, h, streamtest.Trade(hd, i), market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(50, int64(1+i))}})
	}
	streamtest.Turn(sh)
	lag := c.Sub.Lag()
	if lag.Messages != 3000 || lag.KeptBytes == 0 || lag.OldestKept == 0 {
		t.Fatalf("%+v", lag)
	}
	got := c.Read(1<<10, true)
	if len(c.Trades["A|M|CI"]) != 1000 {
		t.Fatalf("%d trades", len(c.Trades["A|M|CI"]))
	}
	quotes, books := 0, 0
	for _, m := range got {
		switch m.Type {
		case "Q":
			quotes++
			if m.BZ != "1000" {
				t.Errorf("quote of size %s", m.BZ)
			}
		case "O":
			books++
		}
	}
	if quotes != 1 || books != 1 {
		t.Errorf("%d quotes and %d books", quotes, books)
	}
}

func TestRefusedEventsChangeNothing(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	bad := []market.Event{
		{Kind: market.KindTrade, Handle: 99},
		{Kind: market.KindTrade, Handle: hd, Price: 1, Size: 0},
		{Kind: market.KindTrade, Handle: hd, Price: 1, Size: -1},
		{Kind: market.KindTrade, Handle: hd, Price: 1234567890123456789, Size: 1},
		{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{{Price: 1, Size: -1}}},
		{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(1, 1), streamtest.Level(2, 1)}},
		{Kind: market.KindSnapshot, Handle: hd, Asks: []market.Level{streamtest.Level(1, 1), streamtest.Level(1, 1)}},
		{Kind: market.KindOrderDelete, Handle: hd, OrderID: 5},
		{Kind: market.KindStatus, Handle: hd},
		{Kind: 99, Handle: hd},
		{Kind: market.KindTrade, Handle: hd, Price: 1, Size: 1, TradeID: "\xff"},
		{Kind: market.KindTrade, Handle: hd, Price: 1, Size: 1, Time: -5},
	}
	_, before := h.Position()
	for i := range bad {
		if err := h.Publish(bad[i : i+1]); err == nil {
			t.Errorf("event %d was taken", i)
		}
	}
	if _, after := h.Position(); before != after {
		t.Errorf("position moved from %s to %s", before, after)
	}
}

// TestConcurrentUse checks that publishers, shards and queries can run at once. It is for the race
// detector.
func TestConcurrentUse(t *testing.T) {
	h := hub.New(hub.Config{TradesKept: 700})
	var handles []market.Handle
	for i := range 8 {
		handles = append(handles, streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), nil))
	}
	var publishers, shards sync.WaitGroup
	done := make(chan struct{})
	for p := range 2 {
		publishers.Go(func() {
			for i := range 3000 {
				hd := handles[p*4+i%4]
				streamtest.Publish(t, h, streamtest.Trade(hd, i), market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(int64(1+i%30), int64(i%3))}})
			}
		})
	}
	for k := range 2 {
		wake := make(chan struct{}, 1)
		sh := subscription.NewShard(h, func(bool) {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		shards.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 9))
			clients := map[*subscription.Subscriber]*streamtest.Client{}
			add := func() {
				c := streamtest.NewClient(t, sh)
				clients[c.Sub] = c
				streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|CI")
				c.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("S1|M|CI"), Tier: hub.Tier{Depth: 5}}, {Channel: wire.OrderBook, ID: streamtest.ID("S5|M|CI"), Tier: hub.Tier{}}}, subscription.Options{})
				c.Read(1<<20, false)
			}
			for range 10 {
				add()
			}
			for {
				select {
				case <-done:
					return
				case <-wake:
				}
				sh.Turn()
				for s := sh.Next(); s != nil; s = sh.Next() {
					clients[s].Read(1<<16, rng.IntN(4) == 0)
				}
				if rng.IntN(10) == 0 {
					for s := range clients {
						s.Close()
						delete(clients, s)
						break
					}
					add()
				}
				h.Snapshot(nil, []hub.Wanted{{ID: streamtest.ID("S1|M|CI"), Trades: true, Quotes: true}})
			}
		})
	}
	publishers.Wait()
	close(done)
	shards.Wait()
}

func TestCollapseLetsGo(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.OrderBook, "A|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.Quotes, "*|M|CI")
	streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
	c.Read(1<<20, false)
	for i := range 100 {
		streamtest.Publish(t, h, streamtest.Trade(hd, i), market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(50, int64(1+i))}})
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: hd}, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(50, 100)}})
	streamtest.Turn(sh)
	c.Sub.Collapse()
	// The gap waits in the ring of the trades too.
	if lag := c.Sub.Lag(); lag.Messages != 101 || lag.KeptBytes+c.Sub.Carry() != lag.Bytes {
		t.Fatalf("%+v", lag)
	}
	kinds := map[string]int{}
	for _, m := range c.Read(1<<20, false) {
		kinds[m.Type]++
	}
	if kinds["T"] != 100 || kinds["O"] != 1 || kinds["Q"] != 1 || kinds["H"] != 3 {
		t.Errorf("got %v", kinds)
	}
}

// TestPrintableTexts checks that texts on which a terminal could act are refused.
func TestPrintableTexts(t *testing.T) {
	h := hub.New(hub.Config{})
	in := streamtest.Define(t, h, "A|M|CI", nil)
	for _, bad := range []string{"\x1b[2J", "a\nb", "\u009b2J", "\u202e", "\x7f"} {
		for _, e := range []market.Event{
			{Kind: market.KindTrade, Handle: in, Price: 1, Size: market.Scale, TradeID: bad},
			{Kind: market.KindTrade, Handle: in, Price: 1, Size: market.Scale, TradeDetails: market.TradeDetails{Conditions: []string{bad}}},
			{Kind: market.KindStatus, Handle: in, Phase: market.Halt, Reason: bad},
		} {
			var refused *market.Refused
			if err := h.Publish([]market.Event{e}); !errors.As(err, &refused) {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
}
