package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestChangeLargeGap checks a subscription that becomes live when more trades are missing than
// memory keeps. The trades come from the journal.
func TestChangeLargeGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{Delays: []time.Duration{15 * time.Minute}, TradesKept: 1})
		hd := define(t, h, "A|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		sub := open(sh)
		read := func() []message { return frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)) }
		item := func(delay int) Item { return Item{wire.Trades, id("A|M|CI"), Tier{Delay: delay}} }
		for _, late := range []string{"exact", "pattern"} {
			x := item(900)
			if late == "pattern" {
				x.ID = id("*|M|*")
			}
			if out := sub.Subscribe([]Item{x}, Options{}); len(out.Rejected) > 0 {
				t.Fatal(out)
			}
			publish(t, h, trade(hd, 1))
			time.Sleep(15*time.Minute + time.Second)
			h.Commit()
			turn(sh)
			got := read()
			if len(got) != 1 {
				t.Fatalf("%s: %+v", late, got)
			}
			sent := got[0].N
			for i := range 4 * recent.ChunkRows {
				publish(t, h, trade(hd, i))
			}
			x.Tier.Delay = 0
			lost := sub.Change(nil, []Item{x})
			if len(lost[wire.Trades]) > 0 {
				t.Errorf("%s: lost %+v", late, lost)
			}
			publish(t, h, trade(hd, 7))
			for next, last := sent+1, sent+4*recent.ChunkRows+1; next <= last; {
				synctest.Wait()
				turn(sh)
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
			sub.Unsubscribe([]Item{x})
			time.Sleep(time.Hour)
			h.Commit()
			turn(sh)
		}
	})
}

// TestChangeOfAPattern checks two identifiers that overlap when one of them gets a delay. The other
// continues live and alone, and no trade is sent twice.
func TestChangeOfAPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
		a, b := define(t, h, "A|M|CI", nil), define(t, h, "B|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		c := newClient(t, sh)
		all, one := Item{wire.Trades, id("*|*|*"), Tier{}}, Item{wire.Trades, id("A|M|CI"), Tier{}}
		c.sub.Subscribe([]Item{all, one}, Options{})
		want := func(what string, n ...uint64) {
			t.Helper()
			h.Commit()
			turn(sh)
			got := c.read(1<<20, false)
			if len(got) != len(n) {
				t.Fatalf("%s: got %+v, want %d", what, got, n)
			}
			for i := range n {
				if got[i].N != n[i] {
					t.Errorf("%s: got %+v, want %d", what, got[i], n[i])
				}
			}
		}
		both := func(i int) { publish(t, h, trade(a, i), trade(b, i)) }
		both(1)
		want("live", 1, 1)
		both(2) // the trades of both wait while the pattern gets a delay
		h.Commit()
		turn(sh)
		all.Tier.Delay = 60
		c.sub.Change(nil, []Item{all})
		want("of A at once", 2)
		both(3)
		want("of A live", 3)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		want("of B late", 2, 3)
		c.sub.Change([]Item{one}, nil)
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
		h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
		hd := define(t, h, "A|M|CI", func(in *market.Instrument) { in.StartsEmpty = true })
		sh := h.NewShard(func(bool) {})
		sub := open(sh)
		read := func(max int) []message { return frames(t, sub.Gather(nil, max, wire.JSON, false)) }
		time.Sleep(2 * time.Minute)
		for i := range 1000 {
			publish(t, h, trade(hd, i))
		}
		h.Commit()
		x := Item{wire.Trades, id("A|M|CI"), Tier{}}
		resume := &wire.Resume{Epoch: h.Epoch()}
		resume.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 0}
		out := sub.Subscribe([]Item{x}, Options{Resume: resume})
		sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
		got := read(1000)
		if out.Resumed[wire.Trades]["A|M|CI"] != 1000 || len(got) == 0 || len(got) > 100 {
			t.Fatalf("%d rows, %+v", len(got), out)
		}
		x.Tier.Delay = 60
		sub.Change(nil, []Item{x})
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
			turn(sh)
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
		h := New(Config{})
		go h.Run(t.Context())
		hd := define(t, h, "A|M|CI", ownQuotes)
		sh := h.NewShard(func(bool) {})
		sub := open(sh)
		fed, feeder := Item{wire.Quotes, id("A|M|CI"), Tier{}}, Item{wire.Quotes, id("*|M|*"), Tier{}}
		slow := Item{wire.Quotes, id("A|*|*"), Tier{Conflate: 100}}
		for _, x := range []Item{feeder, fed, slow} {
			sub.Subscribe([]Item{x}, Options{NoSnapshot: true})
		}
		sub.Unsubscribe([]Item{feeder})
		turn(sh)
		sub.Gather(nil, 1<<20, wire.JSON, false)
		publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{level(9, 1)}, Asks: []market.Level{level(10, 1)}})
		time.Sleep(time.Second)
		h.Commit()
		turn(sh)
		if got := frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)); len(got) != 1 {
			t.Errorf("one quote came as %+v", got)
		}
	})
}

// TestPassingFromAReplay checks that a replay of a pattern continues with all other instruments
// when an exact identifier at another delay gets one of them.
func TestPassingFromAReplay(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{Delays: []time.Duration{time.Minute}})
	a, b := define(t, w.Hub, "A|M|CI", nil), define(t, w.Hub, "B|M|CI", nil)
	const rows = 1000
	for i := range rows {
		publish(t, w.Hub, trade(a, i), trade(b, i))
	}
	w.commitOnce()
	c := newClient(t, w.shard)
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|CI")}}, Options{Resume: &wire.Resume{Epoch: w.Epoch(), Position: positionText(w.Hub, 0)}})
	c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	turn(w.shard)
	for _, m := range frames(t, c.sub.Gather(nil, 1000, wire.JSON, false)) {
		c.take(&m)
	}
	c.sub.Subscribe([]Item{{wire.Trades, id("A|M|CI"), Tier{Delay: 60}}}, Options{})
	for range 10 {
		w.take(c)
	}
	if n := len(c.trades["B|M|CI"]); n != rows || c.sub.Replaying() {
		t.Errorf("%d trades of %d, replaying %v", n, rows, c.sub.Replaying())
	}
}

// TestNothingOfAMoveBeforeTheAnswer checks a replacement of a set by one of its identifiers at a
// shorter delay. Messages that waited anyway come ahead of the answer. Messages that are due only
// by the shorter delay come behind it.
func TestNothingOfAMoveBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{Delays: []time.Duration{5 * time.Second, 20 * time.Second}})
		a, b := define(t, h, "A|M|CI", nil), define(t, h, "B|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		c := newClient(t, sh)
		c.sub.Subscribe([]Item{{wire.Trades, id("*|M|*"), Tier{Delay: 5}}, {wire.Trades, id("B|M|CI"), Tier{Delay: 20}}}, Options{})
		publish(t, h, trade(a, 1), trade(b, 1))
		h.Commit()
		time.Sleep(8 * time.Second) // the shard runs no turn
		synctest.Wait()
		out := c.sub.Subscribe([]Item{{wire.Trades, id("B|M|CI"), Tier{Delay: 5}}}, Options{Replace: true})
		if len(out.Moved) != 1 || out.Gone != 1 {
			t.Fatalf("%+v", out)
		}
		ahead := frames(t, c.sub.TakeCarry(nil))
		if len(ahead) != 1 || ahead[0].I != "A|M|CI" {
			t.Errorf("ahead of the answer came %+v", ahead)
		}
		turn(sh)
		if behind := c.read(1<<20, false); len(behind) != 1 || behind[0].I != "B|M|CI" {
			t.Errorf("behind the answer came %+v", behind)
		}
	})
}

// TestChangeWhileBothWait checks the removal of one of two identifiers of an instrument while
// trades wait for both. Memory has dropped most of the trades. The other identifier sends each
// trade once.
func TestChangeWhileBothWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{TradesKept: 1})
		hd := define(t, h, "A|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		sub := open(sh)
		one := Item{Channel: wire.Trades, ID: id("A|M|CI")}
		sub.Subscribe([]Item{one}, Options{})
		const before, after = 100, 4 * recent.ChunkRows
		for i := range before {
			publish(t, h, trade(hd, i))
		}
		h.Commit()
		turn(sh)
		sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{})
		for i := range after {
			publish(t, h, trade(hd, i))
			if i == after-2 {
				h.Commit() // rows that are not committed stay in memory
			}
		}
		h.Commit()
		turn(sh)
		if lost := sub.Change([]Item{one}, nil); len(lost[wire.Trades]) > 0 {
			t.Errorf("lost %+v", lost)
		}
		next := uint64(1)
		for range 20 { // pieces of the journal
			synctest.Wait()
			turn(sh)
			for _, m := range frames(t, sub.Gather(nil, 1<<20, wire.JSON, false)) {
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
