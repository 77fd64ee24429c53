package stream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// halts publishes statuses of an instrument.
func halts(t *testing.T, h *Hub, hd market.Handle, phases ...market.Phase) {
	t.Helper()
	for _, p := range phases {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: p})
	}
}

// takeStatuses reads all that waits, and first the messages that are sent before an answer. It
// returns the N of an instrument's statuses: updates in live, snapshots in states.
func (c *client) takeStatuses(name string) (live, states []uint64) {
	c.t.Helper()
	list := append(frames(c.t, c.sub.TakeCarry(nil)), c.read(1<<20, false)...)
	for _, m := range list {
		switch {
		case m.Type != "H" || m.I != name:
		case m.R:
			states = append(states, m.N)
		default:
			live = append(live, m.N)
		}
	}
	return live, states
}

// TestStatusesOfAnotherOwner checks an instrument that passes in several ways to a pattern that has
// not sent its snapshots. No status of the instrument is left out. A status of a new instrument
// comes after its snapshot.
func TestStatusesOfAnotherOwner(t *testing.T) {
	pattern := []Item{{Channel: wire.Status, ID: id("*|M|*")}}
	exact := []Item{{Channel: wire.Status, ID: id("A|M|CI")}}
	for name, takeOver := range map[string]func(*Subscriber, func()){
		"replace": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{Replace: true})
			publish()
		},
		"unsubscribe": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{})
			publish()
			s.Unsubscribe(exact)
		},
		"unsubscribe first": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{})
			s.Unsubscribe(exact)
			publish()
		},
	} {
		for _, instruments := range []int{1, 3 * stateBatch} {
			h := New(Config{})
			a := define(t, h, "A|M|CI", nil)
			others := many(t, h, instruments)
			sh := h.NewShard(func(bool) {})
			c := newClient(t, sh)
			subscribe(t, c.sub, wire.Status, "A|M|CI")
			c.read(1<<20, false)
			halts(t, h, a, market.Halt) // 2
			turn(sh)
			c.read(1<<20, false)
			last := others[len(others)-1]
			takeOver(c.sub, func() {
				halts(t, h, a, market.Auction, market.Halt, market.Open) // 3 to 5
				halts(t, h, last, market.Halt, market.Open)
			})
			turn(sh)
			live, states := c.takeStatuses("A|M|CI")
			if !slices.Equal(live, []uint64{3, 4, 5}) || len(states) > 1 {
				t.Errorf("%s, %d instruments: got %d, states %d", name, instruments, live, states)
			}
			seen := false
			for _, m := range c.raw {
				if m.I == h.handles[last].id.String() && m.Type == "H" {
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
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	for _, stays := range []string{"A|M|CI", "A|*|*"} {
		c := newClient(t, sh)
		subscribe(t, c.sub, wire.Status, "*|M|*")
		c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id(stays)}}, Options{})
		c.sub.Unsubscribe([]Item{{Channel: wire.Status, ID: id("*|M|*")}})
		turn(sh)
		if _, states := c.takeStatuses("A|M|CI"); !slices.Equal(states, []uint64{1}) {
			t.Errorf("%s: states %d", stays, states)
		}
		c.sub.Close()
	}
}

// many defines n instruments.
func many(t *testing.T, h *Hub, n int) (list []market.Handle) {
	t.Helper()
	for i := range n {
		list = append(list, define(t, h, "S"+string(rune('A'+i/26))+string(rune('A'+i%26))+"|M|CI", nil))
	}
	return list
}

// TestSubscribeAtAnotherDelay checks a second subscribe of an identifier at another delay. Each
// trade comes once and in order. Without a delay, the missing trades come at once. With a delay,
// trades pause until they are due.
func TestSubscribeAtAnotherDelay(t *testing.T) {
	for _, name := range []string{"A|M|CI", "*|M|*"} {
		synctest.Test(t, func(t *testing.T) {
			h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
			hd := define(t, h, "A|M|CI", nil)
			sh := h.NewShard(func(bool) {})
			c := newClient(t, sh)
			item := func(delay int) []Item { return []Item{{wire.Trades, id(name), Tier{Delay: delay}}} }
			time.Sleep(2 * time.Minute)
			c.sub.Subscribe(item(60), Options{})
			n := 0
			trades := func(k int) {
				for range k {
					n++
					publish(t, h, trade(hd, n))
				}
			}
			want := func(what string, last uint64) {
				t.Helper()
				h.Commit()
				turn(sh)
				c.read(1<<20, false) // checks that each trade follows the one before
				if c.last["A|M|CI"] != last {
					t.Errorf("%s: has trades up to %d, want %d", what, c.last["A|M|CI"], last)
				}
			}
			moved := func(delay int) {
				t.Helper()
				h.Commit()
				out := c.sub.Subscribe(item(delay), Options{})
				if !slices.Equal(out.Moved, item(delay)) || len(out.Lost[wire.Trades]) > 0 {
					t.Errorf("%+v", out)
				}
			}
			trades(5)
			want("on their way", 0)
			c.last["A|M|CI"] = 0 // from the first trade on
			moved(0)
			want("risen", 5)
			trades(3)
			h.Commit()
			turn(sh) // the trades wait
			moved(60)
			want("what waited comes late", 5)
			trades(2)
			want("silent", 5)
			time.Sleep(61 * time.Second)
			want("late", 10)
			moved(0)
			trades(1)
			want("live", 11)
			if out := c.sub.Subscribe(item(0), Options{}); len(out.Moved) > 0 {
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
				h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
				a, b := define(t, h, "A|M|CI", nil), define(t, h, "B|M|CI", nil)
				sh := h.NewShard(func(bool) {})
				c := newClient(t, sh)
				time.Sleep(2 * time.Minute)
				_, start := h.Position()
				both := func(k int) {
					for i := range k {
						publish(t, h, trade(a, i), trade(b, i))
					}
				}
				both(50)
				time.Sleep(2 * time.Minute)
				h.Commit()
				turn(sh)
				o := Options{}
				if replays {
					o.Resume = &wire.Resume{Epoch: h.Epoch(), Position: start}
				}
				c.sub.Subscribe([]Item{{wire.Trades, id("*|M|*"), Tier{Delay: d.pattern}}}, o)
				if replays {
					c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: nil})
					for _, m := range frames(t, c.sub.Gather(nil, 2000, wire.JSON, false)) {
						c.take(&m)
					}
				} else {
					c.last["A|M|CI"], c.last["B|M|CI"] = 50, 50
				}
				both(5)
				h.Commit()
				turn(sh)
				out := c.sub.Subscribe([]Item{{wire.Trades, id("A|M|CI"), Tier{Delay: d.exact}}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(),
					Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"A|M|CI": 7}}}})
				if len(out.Lost[wire.Trades]) > 0 || len(out.Moved) > 0 {
					t.Errorf("%+v", out)
				}
				both(5)
				h.Commit()
				turn(sh)
				c.read(1000, false)
				wantA, wantB := uint64(60), uint64(50)
				if d.exact > 0 {
					wantA, wantB = 50, 60 // the rest was not sent, and comes with the delay
				}
				if c.last["A|M|CI"] != wantA || c.last["B|M|CI"] != wantB {
					t.Errorf("pattern %d s, exact %d s, replays %v: %v, want %d and %d", d.pattern, d.exact, replays, c.last, wantA, wantB)
				}
				c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}})
				time.Sleep(2 * time.Minute)
				both(1)
				time.Sleep(2 * time.Minute)
				h.Commit()
				turn(sh)
				c.read(1000, false)
				if c.last["A|M|CI"] != 61 || c.last["B|M|CI"] != 61 {
					t.Errorf("pattern %d s, exact %d s, replays %v: at the end %v", d.pattern, d.exact, replays, c.last)
				}
			})
		}
	}
}

// TestQuotesAtAnotherDelay checks quotes and a book that move to another delay, the book also to
// another depth. No message has a lower N than the one before.
func TestQuotesAtAnotherDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
		hd := define(t, h, "A|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		c := newClient(t, sh)
		time.Sleep(2 * time.Minute)
		change := func(size int64) {
			publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(100, size)}})
		}
		last := map[string]uint64{}
		read := func() {
			t.Helper()
			h.Commit()
			turn(sh)
			for _, m := range c.read(1<<20, false) {
				if m.N < last[m.Type] {
					t.Errorf("%s %d after %d", m.Type, m.N, last[m.Type])
				}
				last[m.Type] = m.N
			}
		}
		for round, delay := range []int{0, 60, 0, 60} {
			change(100 + int64(round)) // which the replica has not sent
			read()
			c.sub.Subscribe([]Item{{wire.Quotes, id("A|M|CI"), Tier{Delay: delay}}, {wire.OrderBook, id("A|M|CI"), Tier{Delay: delay, Depth: 5 * (1 + round%2)}}}, Options{})
			read()
			for k := range int64(3) {
				change(10 + k + int64(round)*10)
				read()
			}
			if want := h.lookup(id("A|M|CI")).Sequences[wire.Quotes].N; delay == 0 && last["Q"] != want {
				t.Errorf("has quote %d of %d", last["Q"], want)
			}
			time.Sleep(2 * time.Minute)
			read()
			if want := h.lookup(id("A|M|CI")).Sequences[wire.Quotes].N; last["Q"] != want {
				t.Errorf("round %d: has quote %d of %d", round, last["Q"], want)
			}
		}
	})
}

// TestManyTakenOver checks many exact statuses that are replaced by a pattern, and patterns that
// are replaced by patterns, while the client does not read. The memory of these changes is bounded,
// and no status is skipped.
func TestManyTakenOver(t *testing.T) {
	h := New(Config{})
	list := many(t, h, 2*maxBeforeState)
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	var exact []Item
	for _, hd := range list {
		exact = append(exact, Item{Channel: wire.Status, ID: h.handles[hd].id})
	}
	c.sub.Subscribe(exact, Options{})
	turn(sh)
	c.read(1<<20, false)
	last := h.handles[list[len(list)-1]].id.String()
	for round := range 40 {
		halts(t, h, list[len(list)-1], market.Halt)
		a, b := "*|M|*", "*|*|CI"
		if round%2 == 1 {
			a, b = "*|M|CI", "*|*|*"
		}
		c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id(a)}, {Channel: wire.Status, ID: id(b)}}, Options{Replace: true})
		for _, it := range c.sub.items {
			if n := it.late.elsewhere.size(); n > maxBeforeState {
				t.Fatalf("round %d: %d are noted", round, n)
			}
		}
	}
	turn(sh)
	if live, _ := c.takeStatuses(last); len(live) != 40 || live[0] != 2 || live[39] != 41 {
		t.Errorf("statuses %d", live)
	}
}

// TestStatePassedToAPattern checks a status whose first snapshot is due. It passes to a pattern
// that has sent its own snapshots and then moves to another delay. The client receives no status
// before the snapshot, so none is missing.
func TestStatePassedToAPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHub(t, Config{Delays: []time.Duration{time.Minute}})
		ahead, hd := define(t, h, "A|M|CI", nil), define(t, h, "D|M|CI", nil)
		time.Sleep(2 * time.Minute)
		sh := h.NewShard(func(bool) {})
		sub := open(sh)
		pattern, exact := Item{wire.Status, id("*|M|*"), Tier{Delay: 60}}, Item{wire.Status, id("D|M|CI"), Tier{}}
		sub.Subscribe([]Item{pattern}, Options{})
		sub.Subscribe([]Item{exact}, Options{})
		last := uint64(0)
		take := func(b []byte) {
			for _, m := range frames(t, b) {
				if m.I == "D|M|CI" {
					if last > 0 && m.N > last+1 {
						t.Errorf("status %d (R %v) follows %d", m.N, m.R, last)
					}
					last = m.N
				}
			}
		}
		take(sub.Gather(nil, 1, wire.JSON, false)) // only the snapshots of the pattern
		other := Item{wire.Status, id("A|M|CI"), Tier{}}
		publish(t, h, trade(ahead, 1))
		h.Commit()
		sub.Subscribe([]Item{other}, Options{NoSnapshot: true})
		exact.Tier.Delay, other.Tier.Delay = 60, 60
		sub.Change(nil, []Item{exact, other}) // the pattern is behind the messages of other
		if last > 0 {
			t.Fatal("the snapshot was sent already")
		}
		halts(t, h, hd, market.Halt, market.Auction, market.Open)
		h.Commit()
		time.Sleep(2 * time.Minute)
		turn(sh)
		sub.Unsubscribe([]Item{exact})
		take(sub.TakeCarry(nil))
		halts(t, h, hd, market.Halt, market.Auction)
		h.Commit()
		turn(sh)
		pattern.Tier.Delay = 0
		sub.Change(nil, []Item{pattern})
		take(sub.TakeCarry(nil))
		turn(sh)
		take(sub.Gather(nil, 1<<20, wire.JSON, false))
		if want := h.lookup(id("D|M|CI")).Recent(wire.Status).Last; last != want {
			t.Errorf("status %d of %d", last, want)
		}
	})
}
