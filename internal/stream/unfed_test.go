package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestBeforeAFeedDefines checks a restart before a feed has defined any instrument. The hub lists
// what the journal has, and serves resumes, patterns, requests and the status of markets as a
// whole. Later events of the feed continue the numbers.
func TestBeforeAFeedDefines(t *testing.T) {
	w := &house{t: t, folder: t.TempDir(), kept: 1, names: []string{"A|M|CI", "B|M|CI", "*|M|*"}}
	w.begin()
	for i := range 2000 {
		publish(t, w.hub, trade(w.handles[0], i), trade(w.handles[1], i))
	}
	publish(t, w.hub, market.Event{Kind: market.KindSnapshot, Handle: w.handles[0], Bids: []market.Level{level(99, 1)}, Asks: []market.Level{level(101, 1)}},
		market.Event{Kind: market.KindStatus, Handle: w.handles[0], Phase: market.Halt, Reason: "volatility"},
		market.Event{Kind: market.KindStatus, Handle: w.handles[2], Phase: market.Auction})
	w.hub.Commit()
	_, position := w.hub.Position()
	publish(t, w.hub, trade(w.handles[0], 2000))
	for restart := range 3 { // the second time nothing was defined in between; the third time after a kill
		w.leave(restart != 2)
		w.names = nil
		w.begin()
		def, known := w.hub.Instrument(id("A|M|CI"))
		state, received := w.hub.MarketStatus("M")
		list, _ := w.hub.Instruments()
		if !known || def.Phase != market.Halt || def.PriceDecimals != 2 || len(list) != 2 || list[0].Phase != market.Halt || !received || state.Phase != market.Auction {
			t.Fatalf("knows %+v %v, %d instruments, market %+v %v", def, known, len(list), state, received)
		}
		if _, err := w.hub.AppendBook(nil, id("A|M|CI"), Tier{Depth: 5}); !errors.Is(err, ErrStale) {
			t.Errorf("book of A: %v", err)
		}
		if b, _, _ := w.hub.Snapshot(nil, []Wanted{{ID: id("A|M|CI"), Trades: true, Quotes: true}}); len(b) == 0 {
			t.Error("no snapshot of A")
		}
		c, p := newClient(t, w.shard), newClient(t, w.shard)
		out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}, {Channel: wire.Status, ID: id("A|M|CI")}, {Channel: wire.OrderBook, ID: id("A|M|CI"), Tier: Tier{Depth: 5}}},
			Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"A|M|CI": 10}}}})
		byPosition := p.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: position}})
		if len(out.Rejected)+len(byPosition.Rejected) > 0 || out.Resumed[wire.Trades]["A|M|CI"] != 2001 || p.sub.Count(wire.Trades) != 2 {
			t.Fatalf("%+v\n%+v", out, byPosition)
		}
		c.last["A|M|CI"] = 10
		w.replayed(c)
		w.replayed(p)
		if c.last["A|M|CI"] != 2001 || !slices.Equal(p.trades["A|M|CI"], []uint64{2001}) || len(p.trades["B|M|CI"]) > 0 {
			t.Errorf("resumed up to %d, by position %v", c.last["A|M|CI"], p.trades)
		}
	}
	c := newClient(t, w.shard)
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}, {Channel: wire.Status, ID: id("A|M|CI")}, {Channel: wire.OrderBook, ID: id("A|M|CI"), Tier: Tier{Depth: 5}}}, Options{})
	c.read(1<<20, false)
	define(t, w.hub, "C|M|CI", nil)
	b := define(t, w.hub, "B|M|CI", nil)
	a := define(t, w.hub, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty, in.Phase, in.Name = false, market.Open, "new" })
	again := define(t, w.hub, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty, in.Phase, in.Name = false, market.Open, "new" })
	publish(t, w.hub, trade(a, 1), trade(b, 1), market.Event{Kind: market.KindSnapshot, Handle: a, Bids: []market.Level{level(98, 1)}, Asks: []market.Level{level(101, 1)}})
	w.hub.Commit()
	turn(w.shard)
	statuses := 0
	for _, m := range c.read(1<<20, false) {
		if m.Type == "H" && m.I == "A|M|CI" && m.E == "open" && m.N == 3 {
			statuses++
		}
	}
	def, _ := w.hub.Instrument(id("A|M|CI"))
	if a != again || def.Name != "new" || statuses != 1 || c.last["A|M|CI"] != 2002 || c.last["B|M|CI"] != 2001 {
		t.Errorf("defined again as %d and %d, %+v; %d statuses, trades %v", a, again, def, statuses, c.last)
	}
	if _, err := w.hub.AppendBook(nil, id("A|M|CI"), Tier{Depth: 5}); err != nil {
		t.Errorf("book of A: %v", err)
	}
	w.leave(true)
}

// TestDelayedBeforeAFeedDefines checks delayed data of an instrument that no feed has defined since
// a restart. It comes with the same numbers when it is as old as the delay. What the feed defines
// later comes with the delay too.
func TestDelayedBeforeAFeedDefines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		begin := func() (*Hub, *journal.Journal, func()) {
			j, err := journal.Open(journal.Config{Folder: folder, BootID: "same"})
			if err != nil {
				t.Fatal(err)
			}
			h := New(Config{Journal: j, Delays: []time.Duration{time.Minute}})
			if err := h.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = h.Run(ctx) })
			return h, j, func() { cancel(); run.Wait() }
		}
		h, j, end := begin()
		hd := define(t, h, "A|M|CI", nil)
		time.Sleep(2 * time.Minute)
		publish(t, h, trade(hd, 1), trade(hd, 2), market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Halt})
		end()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		h, j, end = begin()
		sh := h.NewShard(func(bool) {})
		c := newClient(t, sh)
		c.sub.Subscribe([]Item{{wire.Trades, id("*|M|*"), Tier{Delay: 60}}, {wire.Status, id("A|M|CI"), Tier{Delay: 60}}}, Options{})
		got := func() (trades int, phases []string) {
			turn(sh)
			for _, m := range c.read(1<<20, false) {
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
		hd = define(t, h, "A|M|CI", func(in *market.Instrument) { in.Phase = market.Open })
		publish(t, h, trade(hd, 3))
		time.Sleep(30 * time.Second)
		if n, phases := got(); n != 0 || len(phases) > 0 {
			t.Errorf("early: %d trades, statuses %v", n, phases)
		}
		time.Sleep(40 * time.Second)
		if n, phases := got(); n != 1 || !slices.Equal(phases, []string{"open"}) || c.last["A|M|CI"] != 3 {
			t.Errorf("then %d trades up to %d, statuses %v", n, c.last["A|M|CI"], phases)
		}
		live := h.lookup(id("A|M|CI"))
		if late := live.under(60); late.Statuses.Last != live.Statuses.Last || late.Trades.Last != live.Trades.Last {
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
		begin := func() (*Hub, *journal.Journal) {
			j, err := journal.Open(journal.Config{Folder: folder, BootID: "same", Days: 2})
			if err != nil {
				t.Fatal(err)
			}
			h := New(Config{Journal: j})
			if err := h.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			return h, j
		}
		h, j := begin()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = j.Run(ctx) })
		gone, kept := define(t, h, "GONE|M|CI", nil), define(t, h, "KEPT|M|CI", nil)
		publish(t, h, trade(gone, 1), trade(gone, 2))
		for day := range 6 {
			publish(t, h, trade(kept, day))
			h.Commit()
			time.Sleep(24 * time.Hour)
		}
		publish(t, h, trade(kept, 7))
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
		publish(t, h, trade(define(t, h, "GONE|M|CI", nil), 3))
		if n := h.lookup(id("GONE|M|CI")).Trades.Last; n != 3 {
			t.Errorf("goes on with N %d", n)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
