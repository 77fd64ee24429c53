package hub_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// wide returns the items of the trades, statuses and bars of all instruments.
func wide() (items []hub.Item) {
	for _, c := range []wire.Channel{wire.Trades, wire.Status, wire.BarsOf(0), wire.BarsOf(1), wire.BarsOf(2), wire.BarsOf(3), wire.BarsOf(4), wire.BarsOf(5)} {
		items = append(items, hub.Item{Channel: c, ID: streamtest.ID("*|M|*")})
	}
	return items
}

// TestReplaysAndStatesAreCounted checks that Lag counts roughly the memory that clients hold. The
// clients request everything and read little of it.
func TestReplaysAndStatesAreCounted(t *testing.T) {
	const instruments, clients = 4000, 8
	h := journaled(t, hub.Config{Markets: []market.Market{{ID: "M"}}, Memory: 1 << 30})
	sh := subscription.NewShard(h, func(bool) {})
	handles := streamtest.DefineMany(t, h, instruments, nil)
	for k := range 3 {
		for _, hd := range handles {
			streamtest.Publish(t, h, streamtest.Trade(hd, k), market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(99, int64(k+1))}, Asks: []market.Level{streamtest.Level(101, 1)}})
		}
	}
	h.Mu().Lock()
	h.SendBars(time.Now().Add(48 * time.Hour).UnixNano())
	h.Mu().Unlock()
	streamtest.Turn(sh)
	measure := func(name string, ask func(s *subscription.Subscriber)) (kept int64) {
		first := streamtest.Open(sh) // the first subscriber causes what all share to be made
		ask(first)
		defer first.Close()
		before, held := heap(), int64(0)
		var subs []*subscription.Subscriber
		for range clients {
			s := streamtest.Open(sh)
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
	measure("resume", func(s *subscription.Subscriber) {
		out := s.Subscribe(wide(), subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: h.Epoch() + ":1"}})
		if out.Fault != nil {
			t.Fatal(out.Fault)
		}
		s.AfterReplay(subscription.ReplayEnd{})
	})
	if kept := measure("states", func(s *subscription.Subscriber) {
		for _, c := range []wire.Channel{wire.Quotes, wire.Status, wire.Summary, wire.OrderBook} {
			s.Subscribe([]hub.Item{{Channel: c, ID: streamtest.ID("*|M|*")}, {Channel: c, ID: streamtest.ID("*|*|*")}}, subscription.Options{})
		}
	}); kept > clients*64<<10 {
		t.Errorf("%d clients that wait for states hold %d bytes", clients, kept)
	}
}

// TestNoticesAreForgotten checks a gap of every instrument that reaches a client by two channels.
// Each gap is sent once. The notes about sent gaps are counted, and dropped when both channels have
// passed the gap, the books are known again and no replica needs them.
func TestNoticesAreForgotten(t *testing.T) {
	const instruments = 3 * hub.LockPiece
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Hour}, TradesKept: 1})
	h.NewPort(func(bool) {}).Await([]hub.Item{{Tier: hub.Tier{Delay: 3600}}}, nil)
	sh := subscription.NewShard(h, func(bool) {})
	handles := streamtest.DefineMany(t, h, instruments, nil)
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("*|M|*")}, {Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{})
	gone := streamtest.NewClient(t, sh)
	gone.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("*|M|*")}, {Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{})
	makeDue := func() { h.AgeUnlocked(2 * time.Hour) } // the replica catches up
	makeDue()
	streamtest.Turn(sh)
	c.Read(1<<20, false)
	gone.Read(1<<20, false)
	for range 2 {
		measured(h, sh)
	}
	own := h.Memory().Own
	check := func(when string, remembered bool) {
		t.Helper()
		for range 2 {
			measured(h, sh)
		}
		const each = 80 // bytes that are counted for a notice
		bytes := h.Memory().Own - own
		if remembered != (bytes >= instruments*each) || !remembered && bytes > 0 || bytes%each != 0 {
			t.Errorf("%s: %d bytes of notices are counted", when, bytes)
		}
	}
	for round := range 2 {
		for _, hd := range handles {
			streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: hd, Reason: "lost"})
		}
		streamtest.Turn(sh)
		gaps := 0
		for _, m := range c.Read(1<<20, false) {
			if m.Type == "H" && m.E == "gap" {
				gaps++
			}
		}
		if gaps != instruments {
			t.Errorf("%d gaps were sent of %d", gaps, instruments)
		}
		if round == 0 {
			gone.Read(1<<20, false)
			gone.Sub.Close()
		}
		if round == 0 {
			makeDue()
		}
		check("with books that are not known", true)
		for i, hd := range handles {
			streamtest.Publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(99, int64(i+1))}, Asks: []market.Level{streamtest.Level(101, 1)}})
		}
		streamtest.Turn(sh)
		c.Read(1<<20, false)
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
