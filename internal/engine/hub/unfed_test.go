package hub_test

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// TestBeforeAFeedDefines checks a restart before a feed has defined any instrument. The hub lists
// what the journal has, and serves resumes, patterns, requests and the status of markets as a
// whole. Later events of the feed continue the numbers.
func TestBeforeAFeedDefines(t *testing.T) {
	w := &streamtest.House{T: t, Folder: t.TempDir(), Kept: 1, Names: []string{"A|M|CI", "B|M|CI", "*|M|*"}}
	w.Begin()
	for i := range 2000 {
		streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[0], i), streamtest.Trade(w.Handles[1], i))
	}
	streamtest.Publish(t, w.Hub, market.Event{Kind: market.KindSnapshot, Handle: w.Handles[0], Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}},
		market.Event{Kind: market.KindStatus, Handle: w.Handles[0], Phase: market.Halt, Reason: "volatility"},
		market.Event{Kind: market.KindStatus, Handle: w.Handles[2], Phase: market.Auction})
	w.Hub.Commit()
	_, position := w.Hub.Position()
	streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[0], 2000))
	for restart := range 3 { // the second time nothing was defined in between; the third time after a kill
		w.Leave(restart != 2)
		w.Names = nil
		w.Begin()
		def, known := w.Hub.Instrument(streamtest.ID("A|M|CI"))
		state, received := w.Hub.MarketStatus("M")
		list, _ := w.Hub.Instruments()
		if !known || def.Phase != market.Halt || def.PriceDecimals != 2 || len(list) != 2 || list[0].Phase != market.Halt || !received || state.Phase != market.Auction {
			t.Fatalf("knows %+v %v, %d instruments, market %+v %v", def, known, len(list), state, received)
		}
		if _, err := w.Hub.AppendBook(nil, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5}); !errors.Is(err, hub.ErrStale) {
			t.Errorf("book of A: %v", err)
		}
		if b, _, _ := w.Hub.Snapshot(nil, []hub.Wanted{{ID: streamtest.ID("A|M|CI"), Trades: true, Quotes: true}}); len(b) == 0 {
			t.Error("no snapshot of A")
		}
		c, p := streamtest.NewClient(t, w.Shard), streamtest.NewClient(t, w.Shard)
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}, {Channel: wire.Status, ID: streamtest.ID("A|M|CI")}, {Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5}}},
			subscription.Options{Resume: &wire.Resume{Epoch: w.Hub.Epoch(), Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"A|M|CI": 10}}}})
		byPosition := p.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: w.Hub.Epoch(), Position: position}})
		if len(out.Rejected)+len(byPosition.Rejected) > 0 || out.Resumed[wire.Trades]["A|M|CI"] != 2001 || p.Sub.Count(wire.Trades) != 2 {
			t.Fatalf("%+v\n%+v", out, byPosition)
		}
		c.Last["A|M|CI"] = 10
		w.Replayed(c)
		w.Replayed(p)
		if c.Last["A|M|CI"] != 2001 || !slices.Equal(p.Trades["A|M|CI"], []uint64{2001}) || len(p.Trades["B|M|CI"]) > 0 {
			t.Errorf("resumed up to %d, by position %v", c.Last["A|M|CI"], p.Trades)
		}
	}
	c := streamtest.NewClient(t, w.Shard)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}, {Channel: wire.Status, ID: streamtest.ID("A|M|CI")}, {Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5}}}, subscription.Options{})
	c.Read(1<<20, false)
	streamtest.Define(t, w.Hub, "C|M|CI", nil)
	b := streamtest.Define(t, w.Hub, "B|M|CI", nil)
	a := streamtest.Define(t, w.Hub, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty, in.Phase, in.Name = false, market.Open, "new" })
	again := streamtest.Define(t, w.Hub, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty, in.Phase, in.Name = false, market.Open, "new" })
	streamtest.Publish(t, w.Hub, streamtest.Trade(a, 1), streamtest.Trade(b, 1), market.Event{Kind: market.KindSnapshot, Handle: a, Bids: []market.Level{streamtest.Level(98, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}})
	w.Hub.Commit()
	streamtest.Turn(w.Shard)
	statuses := 0
	for _, m := range c.Read(1<<20, false) {
		if m.Type == "H" && m.I == "A|M|CI" && m.E == "open" && m.N == 3 {
			statuses++
		}
	}
	def, _ := w.Hub.Instrument(streamtest.ID("A|M|CI"))
	if a != again || def.Name != "new" || statuses != 1 || c.Last["A|M|CI"] != 2002 || c.Last["B|M|CI"] != 2001 {
		t.Errorf("defined again as %d and %d, %+v; %d statuses, trades %v", a, again, def, statuses, c.Last)
	}
	if _, err := w.Hub.AppendBook(nil, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5}); err != nil {
		t.Errorf("book of A: %v", err)
	}
	w.Leave(true)
}

// TestDelayedBeforeAFeedDefines checks delayed data of an instrument that no feed has defined since
// a restart. It comes with the same numbers when it is as old as the delay. What the feed defines
// later comes with the delay too.
func TestDelayedBeforeAFeedDefines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		begin := func() (*hub.Hub, *journal.Journal, func()) {
			j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"})
			if err != nil {
				t.Fatal(err)
			}
			h := hub.New(hub.Config{Journal: j, Delays: []time.Duration{time.Minute}})
			if err := h.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = h.Run(ctx) })
			return h, j, func() { cancel(); run.Wait() }
		}
		h, j, end := begin()
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		time.Sleep(2 * time.Minute)
		streamtest.Publish(t, h, streamtest.Trade(hd, 1), streamtest.Trade(hd, 2), market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Halt})
		end()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		h, j, end = begin()
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		c.Sub.Subscribe([]hub.Item{{wire.Trades, streamtest.ID("*|M|*"), hub.Tier{Delay: 60}}, {wire.Status, streamtest.ID("A|M|CI"), hub.Tier{Delay: 60}}}, subscription.Options{})
		got := func() (trades int, phases []string) {
			streamtest.Turn(sh)
			for _, m := range c.Read(1<<20, false) {
				if m.Type == "H" {
					phases = append(phases, m.E)
				} else {
					trades++
				}
			}
			return trades, phases
		}
		time.Sleep(30 * time.Second)
		if n, phases := got(); n != 0 || !slices.Equal(phases, []string{"open"}) {
			t.Errorf("40 s after the trades: %d trades, statuses %v", n, phases)
		}
		time.Sleep(40 * time.Second)
		if n, phases := got(); n != 2 || !slices.Equal(phases, []string{"halt"}) {
			t.Errorf("80 s after the trades: %d trades, statuses %v", n, phases)
		}
		hd = streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.Phase = market.Open })
		streamtest.Publish(t, h, streamtest.Trade(hd, 3))
		time.Sleep(30 * time.Second)
		if n, phases := got(); n != 0 || len(phases) > 0 {
			t.Errorf("early: %d trades, statuses %v", n, phases)
		}
		time.Sleep(40 * time.Second)
		if n, phases := got(); n != 1 || !slices.Equal(phases, []string{"open"}) || c.Last["A|M|CI"] != 3 {
			t.Errorf("then %d trades up to %d, statuses %v", n, c.Last["A|M|CI"], phases)
		}
		live := h.Lookup(streamtest.ID("A|M|CI"))
		if late := live.AtDelay(60); late.Statuses.Last != live.Statuses.Last || late.Trades.Last != live.Trades.Last {
			t.Errorf("numbers of the line differ: %d and %d, %d and %d", late.Statuses.Last, live.Statuses.Last, late.Trades.Last, live.Trades.Last)
		}
		end()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestExpiredInstruments checks that a restart does not list an instrument whose rows the journal
// has deleted. Its numbers continue when it is defined again. An instrument with rows is listed,
// with or without a feed.
func TestExpiredInstruments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		begin := func() (*hub.Hub, *journal.Journal) {
			j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same", Days: 2})
			if err != nil {
				t.Fatal(err)
			}
			h := hub.New(hub.Config{Journal: j})
			if err := h.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			return h, j
		}
		h, j := begin()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = j.Run(ctx) })
		gone, kept := streamtest.Define(t, h, "GONE|M|CI", nil), streamtest.Define(t, h, "KEPT|M|CI", nil)
		streamtest.Publish(t, h, streamtest.Trade(gone, 1), streamtest.Trade(gone, 2))
		for day := range 6 {
			streamtest.Publish(t, h, streamtest.Trade(kept, day))
			h.Commit()
			time.Sleep(24 * time.Hour)
		}
		streamtest.Publish(t, h, streamtest.Trade(kept, 7))
		h.Commit()
		time.Sleep(time.Hour)
		cancel()
		run.Wait()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		h, j = begin()
		list, _ := h.Instruments()
		if len(list) != 1 || list[0].ID.Symbol != "KEPT" {
			t.Errorf("lists %+v, of days %+v", list, j.Days())
		}
		streamtest.Publish(t, h, streamtest.Trade(streamtest.Define(t, h, "GONE|M|CI", nil), 3))
		if n := h.Lookup(streamtest.ID("GONE|M|CI")).Trades.Last; n != 3 {
			t.Errorf("goes on with N %d", n)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
