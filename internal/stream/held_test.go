package stream

import (
	"runtime"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// wide returns the items of the trades, statuses and bars of all instruments.
func wide() (items []Item) {
	for _, c := range []wire.Channel{wire.Trades, wire.Status, wire.BarsOf(0), wire.BarsOf(1), wire.BarsOf(2), wire.BarsOf(3), wire.BarsOf(4), wire.BarsOf(5)} {
		items = append(items, Item{Channel: c, ID: id("*|M|*")})
	}
	return items
}

// TestReplaysAndStatesAreCounted checks that Lag counts roughly the memory that clients hold. The
// clients request everything and read little of it.
func TestReplaysAndStatesAreCounted(t *testing.T) {
	const instruments, clients = 4000, 8
	h := journaled(t, Config{Markets: []market.Market{{ID: "M"}}, Memory: 1 << 30})
	sh := h.NewShard(func(bool) {})
	handles := defineMany(t, h, instruments, nil)
	for k := range 3 {
		for _, hd := range handles {
			publish(t, h, trade(hd, k), market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(99, int64(k+1))}, Asks: []market.Level{level(101, 1)}})
		}
	}
	h.mu.Lock()
	h.sendBars(time.Now().Add(48 * time.Hour).UnixNano())
	h.mu.Unlock()
	turn(sh)
	measure := func(name string, ask func(s *Subscriber)) (kept int64) {
		first := open(sh) // the first subscriber causes what all share to be made
		ask(first)
		defer first.Close()
		before, held := heap(), int64(0)
		var subs []*Subscriber
		for range clients {
			s := open(sh)
			ask(s)
			s.Gather(nil, 4<<10, wire.JSON, false)
			held += int64(s.Lag().Held)
			subs = append(subs, s)
		}
		kept = heap() - before
		t.Logf("%s: %d KiB each, %d KiB counted", name, kept/clients>>10, held/clients>>10)
		const little = clients * 64 << 10
		if kept > little && (held < kept*6/10 || held > kept*2) || kept <= little && held > little {
			t.Errorf("%s: %d clients hold %d bytes, and %d are counted", name, clients, kept, held)
		}
		for _, s := range subs {
			s.Close()
		}
		runtime.KeepAlive(subs)
		return kept
	}
	measure("resume", func(s *Subscriber) {
		out := s.Subscribe(wide(), Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: h.Epoch() + ":1"}})
		if out.Fault != nil {
			t.Fatal(out.Fault)
		}
		s.AfterReplay(ReplayEnd{})
	})
	if kept := measure("states", func(s *Subscriber) {
		for _, c := range []wire.Channel{wire.Quotes, wire.Status, wire.Summary, wire.OrderBook} {
			s.Subscribe([]Item{{Channel: c, ID: id("*|M|*")}, {Channel: c, ID: id("*|*|*")}}, Options{})
		}
	}); kept > clients*64<<10 {
		t.Errorf("%d clients that wait for states hold %d bytes", clients, kept)
	}
}

// TestNoticesAreForgotten checks a gap of every instrument that reaches a client by two channels.
// Each gap is sent once. The notes about sent gaps are counted, and dropped when both channels have
// passed the gap, the books are known again and no replica needs them.
func TestNoticesAreForgotten(t *testing.T) {
	const instruments = 3 * lockPiece
	h := delayedHub(t, Config{Delays: []time.Duration{time.Hour}, TradesKept: 1})
	h.await([]Item{{Tier: Tier{Delay: 3600}}}, nil)
	sh := h.NewShard(func(bool) {})
	handles := defineMany(t, h, instruments, nil)
	c := newClient(t, sh)
	c.sub.Subscribe([]Item{{Channel: wire.OrderBook, ID: id("*|M|*")}, {Channel: wire.Trades, ID: id("*|M|*")}}, Options{})
	gone := newClient(t, sh)
	gone.sub.Subscribe([]Item{{Channel: wire.OrderBook, ID: id("*|M|*")}, {Channel: wire.Trades, ID: id("*|M|*")}}, Options{})
	makeDue := func() { h.ageUnlocked(2 * time.Hour) } // the replica catches up
	makeDue()
	turn(sh)
	c.read(1<<20, false)
	gone.read(1<<20, false)
	for range 2 {
		measured(h, sh)
	}
	own := h.memory.own.Load()
	check := func(when string, remembered bool) {
		t.Helper()
		for range 2 {
			measured(h, sh)
		}
		n, bytes := len(c.sub.set.noticed), h.memory.own.Load()-own
		if remembered != (n >= instruments) || !remembered && n > 0 || bytes != int64(n)*noticedBytes {
			t.Errorf("%s: %d notices are remembered, and %d bytes counted", when, n, bytes)
		}
	}
	for round := range 2 {
		for _, hd := range handles {
			publish(t, h, market.Event{Kind: market.KindGap, Handle: hd, Reason: "lost"})
		}
		turn(sh)
		gaps := 0
		for _, m := range c.read(1<<20, false) {
			if m.Type == "H" && m.E == "gap" {
				gaps++
			}
		}
		if gaps != instruments {
			t.Errorf("%d gaps were sent of %d", gaps, instruments)
		}
		if round == 0 {
			gone.read(1<<20, false)
			gone.sub.Close()
		}
		if round == 0 {
			makeDue()
		}
		check("with books that are not known", true)
		for i, hd := range handles {
			publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{level(99, int64(i+1))}, Asks: []market.Level{level(101, 1)}})
		}
		turn(sh)
		c.read(1<<20, false)
		if round == 0 {
			makeDue()
			check("with all read", false)
			continue
		}
		check("as long as a replica has not come to them", true)
		makeDue()
		check("with all in the replica", false)
	}
}
