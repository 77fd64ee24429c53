package subscription_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestChangeLargeGap checks a subscription that becomes live when more trades are missing than
// memory keeps. The trades come from the journal.
func TestChangeLargeGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{15 * time.Minute}, TradesKept: 1})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		sub := streamtest.Open(sh)
		read := func() []streamtest.Message { return streamtest.Frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)) }
		item := func(delay int) hub.Item {
			return hub.Item{Channel: wire.Trades, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: delay}}
		}
		for _, late := range []string{"exact", "pattern"} {
			x := item(900)
			if late == "pattern" {
				x.ID = streamtest.ID("*|M|*")
			}
			if out := sub.Subscribe([]hub.Item{x}, subscription.Options{}); len(out.Rejected) > 0 {
				t.Fatal(out)
			}
			streamtest.Publish(t, h, streamtest.Trade(hd, 1))
			time.Sleep(15*time.Minute + time.Second)
			h.Commit()
			streamtest.Turn(sh)
			got := read()
			if len(got) != 1 {
				t.Fatalf("%s: %+v", late, got)
			}
			sent := got[0].N
			for i := range 4 * recent.ChunkRows {
				streamtest.Publish(t, h, streamtest.Trade(hd, i))
			}
			x.Tier.Delay = 0
			lost := sub.Change(nil, []hub.Item{x})
			if len(lost[wire.Trades]) > 0 {
				t.Errorf("%s: lost %+v", late, lost)
			}
			streamtest.Publish(t, h, streamtest.Trade(hd, 7))
			for next, last := sent+1, sent+4*recent.ChunkRows+1; next <= last; {
				synctest.Wait()
				streamtest.Turn(sh)
				got := read()
				if len(got) == 0 {
					t.Fatalf("%s: trades up to %d of %d", late, next-1, last)
				}
				for _, m := range got {
					if m.N != next {
						t.Fatalf("%s: %d follows %d", late, m.N, next-1)
					}
					next++
				}
			}
			sub.Unsubscribe([]hub.Item{x})
			time.Sleep(time.Hour)
			h.Commit()
			streamtest.Turn(sh)
		}
	})
}

// TestChangeOfAPattern checks two identifiers that overlap when one of them gets a delay. The other
// continues live and alone, and no trade is sent twice.
func TestChangeOfAPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		all, one := hub.Item{Channel: wire.Trades, ID: streamtest.ID("*|*|*"), Tier: hub.Tier{}}, hub.Item{Channel: wire.Trades, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{}}
		c.Sub.Subscribe([]hub.Item{all, one}, subscription.Options{})
		want := func(what string, n ...uint64) {
			t.Helper()
			h.Commit()
			streamtest.Turn(sh)
			got := c.Read(1<<20, false)
			if len(got) != len(n) {
				t.Fatalf("%s: got %+v, want %d", what, got, n)
			}
			for i := range n {
				if got[i].N != n[i] {
					t.Errorf("%s: got %+v, want %d", what, got[i], n[i])
				}
			}
		}
		both := func(i int) { streamtest.Publish(t, h, streamtest.Trade(a, i), streamtest.Trade(b, i)) }
		both(1)
		want("live", 1, 1)
		both(2) // the trades of both wait while the pattern gets a delay
		h.Commit()
		streamtest.Turn(sh)
		all.Tier.Delay = 60
		c.Sub.Change(nil, []hub.Item{all})
		want("of A at once", 2)
		both(3)
		want("of A live", 3)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		want("of B late", 2, 3)
		c.Sub.Change([]hub.Item{one}, nil)
		both(4)
		want("of both late")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		want("a minute later", 4, 4)
	})
}

// TestChangeInTheMiddleOfAReplay checks a subscription that gets a delay before its resume was
// read. The rest comes with the delay, and the end of the resume is sent once.
func TestChangeInTheMiddleOfAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		hd := streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty = true })
		sh := subscription.NewShard(h, func(bool) {})
		sub := streamtest.Open(sh)
		read := func(max int) []streamtest.Message {
			return streamtest.Frames(t, sub.Gather(nil, max, wire.JSON, false))
		}
		time.Sleep(2 * time.Minute)
		for i := range 1000 {
			streamtest.Publish(t, h, streamtest.Trade(hd, i))
		}
		h.Commit()
		x := hub.Item{Channel: wire.Trades, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{}}
		resume := &wire.Resume{Epoch: h.Epoch()}
		resume.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 0}
		out := sub.Subscribe([]hub.Item{x}, subscription.Options{Resume: resume})
		sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
		got := read(1000)
		if out.Resumed[wire.Trades]["A|M|CI"] != 1000 || len(got) == 0 || len(got) > 100 {
			t.Fatalf("%d rows, %+v", len(got), out)
		}
		x.Tier.Delay = 60
		sub.Change(nil, []hub.Item{x})
		ends := 0
		next := got[len(got)-1].N + 1
		for range 3 {
			for _, m := range read(1 << 20) {
				switch {
				case m.Type == "CaughtUp":
					ends++
				case m.N != next:
					t.Fatalf("%d follows %d", m.N, next-1)
				default:
					next++
				}
			}
			if next > got[len(got)-1].N+1 && next < 1001 {
				t.Fatalf("early up to %d", next-1)
			}
			time.Sleep(40 * time.Second)
			h.Commit()
			streamtest.Turn(sh)
		}
		if next != 1001 || ends != 1 {
			t.Errorf("up to %d, told %d ends", next-1, ends)
		}
	})
}

// TestOverlapAfterAPatternLeft checks that an exact identifier sends its instrument alone after the
// pattern that covered it was unsubscribed. Another pattern with another conflation does not send
// it too.
func TestOverlapAfterAPatternLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{})
		go h.Run(t.Context())
		hd := streamtest.Define(t, h, "A|M|CI", streamtest.OwnQuotes)
		sh := subscription.NewShard(h, func(bool) {})
		sub := streamtest.Open(sh)
		fed, feeder := hub.Item{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{}}, hub.Item{Channel: wire.Quotes, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{}}
		slow := hub.Item{Channel: wire.Quotes, ID: streamtest.ID("A|*|*"), Tier: hub.Tier{Conflate: 100}}
		for _, x := range []hub.Item{feeder, fed, slow} {
			sub.Subscribe([]hub.Item{x}, subscription.Options{NoSnapshot: true})
		}
		sub.Unsubscribe([]hub.Item{feeder})
		streamtest.Turn(sh)
		sub.Gather(nil, 1<<20, wire.JSON, false)
		streamtest.Publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(9, 1)}, Asks: []market.Level{streamtest.Level(10, 1)}})
		time.Sleep(time.Second)
		h.Commit()
		streamtest.Turn(sh)
		if got := streamtest.Frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)); len(got) != 1 {
			t.Errorf("one quote came as %+v", got)
		}
	})
}

// TestNothingOfAMoveBeforeTheAnswer checks a replacement of a set by one of its identifiers at a
// shorter delay. Messages that waited anyway come ahead of the answer. Messages that are due only
// by the shorter delay come behind it.
func TestNothingOfAMoveBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{5 * time.Second, 20 * time.Second}})
		a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{Delay: 5}}, {Channel: wire.Trades, ID: streamtest.ID("B|M|CI"), Tier: hub.Tier{Delay: 20}}}, subscription.Options{})
		streamtest.Publish(t, h, streamtest.Trade(a, 1), streamtest.Trade(b, 1))
		h.Commit()
		time.Sleep(8 * time.Second) // the shard runs no turn
		synctest.Wait()
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("B|M|CI"), Tier: hub.Tier{Delay: 5}}}, subscription.Options{Replace: true})
		if len(out.Moved) != 1 || out.Work.Removed != 1 {
			t.Fatalf("%+v", out)
		}
		ahead := streamtest.Frames(t, c.Sub.TakeCarry(nil))
		if len(ahead) != 1 || ahead[0].I != "A|M|CI" {
			t.Errorf("ahead of the answer came %+v", ahead)
		}
		streamtest.Turn(sh)
		if behind := c.Read(1<<20, false); len(behind) != 1 || behind[0].I != "B|M|CI" {
			t.Errorf("behind the answer came %+v", behind)
		}
	})
}

// TestChangeWhileBothWait checks the removal of one of two identifiers of an instrument while
// trades wait for both. Memory has dropped most of the trades. The other identifier sends each
// trade once.
func TestChangeWhileBothWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{TradesKept: 1})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		sub := streamtest.Open(sh)
		one := hub.Item{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}
		sub.Subscribe([]hub.Item{one}, subscription.Options{})
		const before, after = 100, 4 * recent.ChunkRows
		for i := range before {
			streamtest.Publish(t, h, streamtest.Trade(hd, i))
		}
		h.Commit()
		streamtest.Turn(sh)
		sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{})
		for i := range after {
			streamtest.Publish(t, h, streamtest.Trade(hd, i))
			if i == after-2 {
				h.Commit() // rows that are not committed stay in memory
			}
		}
		h.Commit()
		streamtest.Turn(sh)
		if lost := sub.Change([]hub.Item{one}, nil); len(lost[wire.Trades]) > 0 {
			t.Errorf("lost %+v", lost)
		}
		next := uint64(1)
		for range 20 { // pieces of the journal
			synctest.Wait()
			streamtest.Turn(sh)
			for _, m := range streamtest.Frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)) {
				if m.N != next {
					t.Fatalf("%d follows %d", m.N, next-1)
				}
				next++
			}
		}
		if next != before+after+1 {
			t.Errorf("trades up to %d of %d", next-1, before+after)
		}
	})
}
