package subscription_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// halts publishes statuses of an instrument.
func halts(t *testing.T, h *hub.Hub, hd market.Handle, phases ...market.Phase) {
	t.Helper()
	for _, p := range phases {
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: p})
	}
}

// TestStatusesOfAnotherOwner checks an instrument that passes in several ways to a pattern that has
// not sent its snapshots. No status of the instrument is left out. A status of a new instrument
// comes after its snapshot.
func TestStatusesOfAnotherOwner(t *testing.T) {
	pattern := []hub.Item{{Channel: wire.Status, ID: streamtest.ID("*|M|*")}}
	exact := []hub.Item{{Channel: wire.Status, ID: streamtest.ID("A|M|CI")}}
	for name, takeOver := range map[string]func(*subscription.Subscriber, func()){
		"replace": func(s *subscription.Subscriber, publish func()) {
			s.Subscribe(pattern, subscription.Options{Replace: true})
			publish()
		},
		"unsubscribe": func(s *subscription.Subscriber, publish func()) {
			s.Subscribe(pattern, subscription.Options{})
			publish()
			s.Unsubscribe(exact)
		},
		"unsubscribe first": func(s *subscription.Subscriber, publish func()) {
			s.Subscribe(pattern, subscription.Options{})
			s.Unsubscribe(exact)
			publish()
		},
	} {
		for _, instruments := range []int{1, 3 * subscription.StateBatch} {
			h := hub.New(hub.Config{})
			a := streamtest.Define(t, h, "A|M|CI", nil)
			others := many(t, h, instruments)
			sh := subscription.NewShard(h, func(bool) {})
			c := streamtest.NewClient(t, sh)
			streamtest.Subscribe(t, c.Sub, wire.Status, "A|M|CI")
			c.Read(1<<20, false)
			halts(t, h, a, market.Halt) // 2
			streamtest.Turn(sh)
			c.Read(1<<20, false)
			last := others[len(others)-1]
			takeOver(c.Sub, func() {
				halts(t, h, a, market.Auction, market.Halt, market.Open) // 3 to 5
				halts(t, h, last, market.Halt, market.Open)
			})
			streamtest.Turn(sh)
			live, states := c.TakeStatuses("A|M|CI")
			if !slices.Equal(live, []uint64{3, 4, 5}) || len(states) > 1 {
				t.Errorf("%s, %d instruments: got %d, states %d", name, instruments, live, states)
			}
			seen := false
			for _, m := range c.Raw {
				if m.I == idOf(h, last).String() && m.Type == "H" {
					seen = seen || m.R
					if !seen {
						t.Errorf("%s, %d instruments: status %d came before the state", name, instruments, m.N)
					}
				}
			}
			if !seen {
				t.Errorf("%s: no state of what is new", name)
			}
		}
	}
}

// TestStateOfAnotherOwner checks that an identifier which is unsubscribed before its snapshot was
// sent transfers the snapshot to the identifiers that cover the instrument.
func TestStateOfAnotherOwner(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	for _, stays := range []string{"A|M|CI", "A|*|*"} {
		c := streamtest.NewClient(t, sh)
		streamtest.Subscribe(t, c.Sub, wire.Status, "*|M|*")
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID(stays)}}, subscription.Options{})
		c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("*|M|*")}})
		streamtest.Turn(sh)
		if _, states := c.TakeStatuses("A|M|CI"); !slices.Equal(states, []uint64{1}) {
			t.Errorf("%s: states %d", stays, states)
		}
		c.Sub.Close()
	}
}

// many defines n instruments.
func many(t *testing.T, h *hub.Hub, n int) (list []market.Handle) {
	t.Helper()
	for i := range n {
		list = append(list, streamtest.Define(t, h, "S"+string(rune('A'+i/26))+string(rune('A'+i%26))+"|M|CI", nil))
	}
	return list
}

// TestSubscribeAtAnotherDelay checks a second subscribe of an identifier at another delay. Each
// trade comes once and in order. Without a delay, the missing trades come at once. With a delay,
// trades pause until they are due.
func TestSubscribeAtAnotherDelay(t *testing.T) {
	for _, name := range []string{"A|M|CI", "*|M|*"} {
		synctest.Test(t, func(t *testing.T) {
			h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
			hd := streamtest.Define(t, h, "A|M|CI", nil)
			sh := subscription.NewShard(h, func(bool) {})
			c := streamtest.NewClient(t, sh)
			item := func(delay int) []hub.Item {
				return []hub.Item{{Channel: wire.Trades, ID: streamtest.ID(name), Tier: hub.Tier{Delay: delay}}}
			}
			time.Sleep(2 * time.Minute)
			c.Sub.Subscribe(item(60), subscription.Options{})
			n := 0
			trades := func(k int) {
				for range k {
					n++
					streamtest.Publish(t, h, streamtest.Trade(hd, n))
				}
			}
			want := func(what string, last uint64) {
				t.Helper()
				h.Commit()
				streamtest.Turn(sh)
				c.Read(1<<20, false) // checks that each trade follows the one before
				if c.Last["A|M|CI"] != last {
					t.Errorf("%s: has trades up to %d, want %d", what, c.Last["A|M|CI"], last)
				}
			}
			moved := func(delay int) {
				t.Helper()
				h.Commit()
				out := c.Sub.Subscribe(item(delay), subscription.Options{})
				if !slices.Equal(out.Moved, item(delay)) || len(out.Lost[wire.Trades]) > 0 {
					t.Errorf("%+v", out)
				}
			}
			trades(5)
			want("on their way", 0)
			c.Last["A|M|CI"] = 0 // from the first trade on
			moved(0)
			want("risen", 5)
			trades(3)
			h.Commit()
			streamtest.Turn(sh) // the trades wait
			moved(60)
			want("what waited comes late", 5)
			trades(2)
			want("silent", 5)
			time.Sleep(61 * time.Second)
			want("late", 10)
			moved(0)
			trades(1)
			want("live", 11)
			if out := c.Sub.Subscribe(item(0), subscription.Options{}); len(out.Moved) > 0 {
				t.Errorf("nothing moved: %+v", out)
			}
		})
	}
}

// TestExactOverADelayedPattern checks an instrument that passes from a pattern to an exact
// identifier at another delay. Each trade comes once, also while the pattern replays and while it
// waits for rows of the journal.
func TestExactOverADelayedPattern(t *testing.T) {
	for _, d := range []struct{ pattern, exact int }{{60, 0}, {0, 60}} {
		for _, replays := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
				a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
				sh := subscription.NewShard(h, func(bool) {})
				c := streamtest.NewClient(t, sh)
				time.Sleep(2 * time.Minute)
				_, start := h.Position()
				both := func(k int) {
					for i := range k {
						streamtest.Publish(t, h, streamtest.Trade(a, i), streamtest.Trade(b, i))
					}
				}
				both(50)
				time.Sleep(2 * time.Minute)
				h.Commit()
				streamtest.Turn(sh)
				o := subscription.Options{}
				if replays {
					o.Resume = &wire.Resume{Epoch: h.Epoch(), Position: start}
				}
				c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{Delay: d.pattern}}}, o)
				if replays {
					c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: nil})
					for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 2000, wire.JSON, false)) {
						c.Take(&m)
					}
				} else {
					c.Last["A|M|CI"], c.Last["B|M|CI"] = 50, 50
				}
				both(5)
				h.Commit()
				streamtest.Turn(sh)
				out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: d.exact}}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(),
					Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"A|M|CI": 7}}}})
				if len(out.Lost[wire.Trades]) > 0 || len(out.Moved) > 0 {
					t.Errorf("%+v", out)
				}
				both(5)
				h.Commit()
				streamtest.Turn(sh)
				c.Read(1000, false)
				wantA, wantB := uint64(60), uint64(50)
				if d.exact > 0 {
					wantA, wantB = 50, 60 // the rest was not sent, and comes with the delay
				}
				if c.Last["A|M|CI"] != wantA || c.Last["B|M|CI"] != wantB {
					t.Errorf("pattern %d s, exact %d s, replays %v: %v, want %d and %d", d.pattern, d.exact, replays, c.Last, wantA, wantB)
				}
				c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}})
				time.Sleep(2 * time.Minute)
				both(1)
				time.Sleep(2 * time.Minute)
				h.Commit()
				streamtest.Turn(sh)
				c.Read(1000, false)
				if c.Last["A|M|CI"] != 61 || c.Last["B|M|CI"] != 61 {
					t.Errorf("pattern %d s, exact %d s, replays %v: at the end %v", d.pattern, d.exact, replays, c.Last)
				}
			})
		}
	}
}

// TestQuotesAtAnotherDelay checks quotes and a book that move to another delay, the book also to
// another depth. No message has a lower N than the one before.
func TestQuotesAtAnotherDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		time.Sleep(2 * time.Minute)
		change := func(size int64) {
			streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(100, size)}})
		}
		last := map[string]uint64{}
		read := func() {
			t.Helper()
			h.Commit()
			streamtest.Turn(sh)
			for _, m := range c.Read(1<<20, false) {
				if m.N < last[m.Type] {
					t.Errorf("%s %d after %d", m.Type, m.N, last[m.Type])
				}
				last[m.Type] = m.N
			}
		}
		for round, delay := range []int{0, 60, 0, 60} {
			change(100 + int64(round)) // which the replica has not sent
			read()
			c.Sub.Subscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: delay}}, {Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: delay, Depth: 5 * (1 + round%2)}}}, subscription.Options{})
			read()
			for k := range int64(3) {
				change(10 + k + int64(round)*10)
				read()
			}
			if want := lookup(h, streamtest.ID("A|M|CI")).Sequences[wire.Quotes].N; delay == 0 && last["Q"] != want {
				t.Errorf("has quote %d of %d", last["Q"], want)
			}
			time.Sleep(2 * time.Minute)
			read()
			if want := lookup(h, streamtest.ID("A|M|CI")).Sequences[wire.Quotes].N; last["Q"] != want {
				t.Errorf("round %d: has quote %d of %d", round, last["Q"], want)
			}
		}
	})
}

// TestManyTakenOver checks many exact statuses that are replaced by a pattern, and patterns that
// are replaced by patterns, while the client does not read. The memory of these changes is bounded,
// and no status is skipped.
func TestManyTakenOver(t *testing.T) {
	h := hub.New(hub.Config{})
	list := many(t, h, 2*subscription.MaxBeforeState)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	var exact []hub.Item
	for _, hd := range list {
		exact = append(exact, hub.Item{Channel: wire.Status, ID: idOf(h, hd)})
	}
	c.Sub.Subscribe(exact, subscription.Options{})
	streamtest.Turn(sh)
	c.Read(1<<20, false)
	last := idOf(h, list[len(list)-1]).String()
	for round := range 40 {
		halts(t, h, list[len(list)-1], market.Halt)
		a, b := "*|M|*", "*|*|CI"
		if round%2 == 1 {
			a, b = "*|M|CI", "*|*|*"
		}
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID(a)}, {Channel: wire.Status, ID: streamtest.ID(b)}}, subscription.Options{Replace: true})
		if n := c.Sub.Elsewhere(); n > subscription.MaxBeforeState {
			t.Fatalf("round %d: %d are noted", round, n)
		}
	}
	streamtest.Turn(sh)
	if live, _ := c.TakeStatuses(last); len(live) != 40 || live[0] != 2 || live[39] != 41 {
		t.Errorf("statuses %d", live)
	}
}

// TestStatePassedToAPattern checks a status whose first snapshot is due. It passes to a pattern
// that has sent its own snapshots and then moves to another delay. The client receives no status
// before the snapshot, so none is missing.
func TestStatePassedToAPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		ahead, hd := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "D|M|CI", nil)
		time.Sleep(2 * time.Minute)
		sh := subscription.NewShard(h, func(bool) {})
		sub := streamtest.Open(sh)
		pattern, exact := hub.Item{Channel: wire.Status, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{Delay: 60}}, hub.Item{Channel: wire.Status, ID: streamtest.ID("D|M|CI"), Tier: hub.Tier{}}
		sub.Subscribe([]hub.Item{pattern}, subscription.Options{})
		sub.Subscribe([]hub.Item{exact}, subscription.Options{})
		last := uint64(0)
		take := func(b []byte) {
			for _, m := range streamtest.Frames(t, b) {
				if m.I == "D|M|CI" {
					if last > 0 && m.N > last+1 {
						t.Errorf("status %d (R %v) follows %d", m.N, m.R, last)
					}
					last = m.N
				}
			}
		}
		take(sub.Gather(nil, 1, wire.JSON, false)) // only the snapshots of the pattern
		other := hub.Item{Channel: wire.Status, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{}}
		streamtest.Publish(t, h, streamtest.Trade(ahead, 1))
		h.Commit()
		sub.Subscribe([]hub.Item{other}, subscription.Options{NoSnapshot: true})
		exact.Tier.Delay, other.Tier.Delay = 60, 60
		sub.Change(nil, []hub.Item{exact, other}) // the pattern is behind the messages of other
		if last > 0 {
			t.Fatal("the snapshot was sent already")
		}
		halts(t, h, hd, market.Halt, market.Auction, market.Open)
		h.Commit()
		time.Sleep(2 * time.Minute)
		streamtest.Turn(sh)
		sub.Unsubscribe([]hub.Item{exact})
		take(sub.TakeCarry(nil))
		halts(t, h, hd, market.Halt, market.Auction)
		h.Commit()
		streamtest.Turn(sh)
		pattern.Tier.Delay = 0
		sub.Change(nil, []hub.Item{pattern})
		take(sub.TakeCarry(nil))
		streamtest.Turn(sh)
		take(sub.Gather(nil, 1<<20, wire.JSON, false))
		if want := lookup(h, streamtest.ID("D|M|CI")).Recent(wire.Status).Last; last != want {
			t.Errorf("status %d of %d", last, want)
		}
	})
}
