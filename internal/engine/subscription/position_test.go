package subscription_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/wire"
)

// TestPositionOfAnInheritedReplay checks positions when an identifier transfers messages to another
// one that replays. The transferred messages have lower positions than those of the replay. A
// client that resumes from its position never misses one of them.
func TestPositionOfAnInheritedReplay(t *testing.T) {
	h := hub.New(hub.Config{})
	a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
	streamtest.Define(t, h, "C|M|CI", nil)
	streamtest.Publish(t, h, streamtest.Trade(a, 1), streamtest.Trade(b, 1))
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	_, pos := h.Position()
	for k := range 3 {
		streamtest.Publish(t, h, streamtest.Trade(a, 2+k), streamtest.Trade(b, 2+k))
	}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("B|M|CI")}, {Channel: wire.Trades, ID: streamtest.ID("C|M|CI")}, {Channel: wire.Trades, ID: streamtest.ID("*|M|*")}},
		subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: pos}})
	streamtest.Publish(t, h, streamtest.Trade(b, 5), streamtest.Trade(b, 6), streamtest.Trade(a, 5))
	streamtest.Turn(sh)
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("C|M|CI")}}) // drains the pattern, not B
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("B|M|CI")}})
	for {
		_, received := c.Sub.Position()
		d := streamtest.NewClient(t, sh)
		d.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: received}})
		d.Read(1<<20, false)
		d.Sub.Close()
		for name, last := range map[string]uint64{"A|M|CI": 5, "B|M|CI": 6} {
			has := max(1, c.Last[name])
			if got := d.Trades[name]; has < last && (len(got) == 0 || got[0] > has+1) {
				t.Errorf("has %s up to %d, and resumes from %s with %v", name, has, received, got)
			}
		}
		if !c.Sub.Pending() {
			break
		}
		for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1, wire.JSON, false)) {
			c.Take(&m)
		}
	}
	if !slices.Equal(c.Trades["B|M|CI"], []uint64{2, 3, 4, 5, 6}) || !slices.Equal(c.Trades["A|M|CI"], []uint64{2, 3, 4, 5}) {
		t.Errorf("got %v", c.Trades)
	}
}

// TestPositionOfALongResume checks the position of a client that resumes by N while rows of the
// journal have not come. It is the lower of the position in the request and the one before the
// first row in memory. A client that sent no position receives none.
func TestPositionOfALongResume(t *testing.T) {
	w := streamtest.LongHouse(t, 2, 3000)
	defer func() { w.Leave(true) }()
	_, now := w.Hub.Position()
	for _, given := range []string{now, streamtest.PositionText(w.Hub, 2000), ""} {
		c := streamtest.NewClient(t, w.Shard)
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("S0|M|CI")}, {Channel: wire.Trades, ID: streamtest.ID("*|M|*")}},
			subscription.Options{Resume: &wire.Resume{Epoch: w.Hub.Epoch(), Position: given, Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"S0|M|CI": 10}}}})
		rows := &lookup(w.Hub, streamtest.ID("S0|M|CI")).Trades
		want := rows.After(rows.First() - 1)[0][0].Pos - 1
		if _, pos, err := position.Parse(given); err == nil {
			want = min(want, pos.For(0))
		}
		text := streamtest.PositionText(w.Hub, want)
		if given == "" {
			text = ""
		}
		if out.Position != text {
			t.Errorf("a client that resumes at %q gets position %q, want %q", given, out.Position, text)
		}
		w.Replayed(c)
		if got := c.Trades["S0|M|CI"]; len(got) == 0 || got[0] != 11 {
			t.Errorf("resumed %v", got)
		}
		c.Sub.Close()
	}
}

// TestPositionOfAnInheritedResume checks a pattern that inherits a resume by N before its rows were
// read. The pattern has no N to resume by, so a position after those rows is not safe.
func TestPositionOfAnInheritedResume(t *testing.T) {
	w := streamtest.LongHouse(t, 2, 3000)
	defer func() { w.Leave(true) }()
	w.End() // nobody reads
	_, now := w.Hub.Position()
	c := streamtest.NewClient(t, w.Shard)
	one := hub.Item{Channel: wire.Trades, ID: streamtest.ID("S0|M|CI")}
	c.Sub.Subscribe([]hub.Item{one, {Channel: wire.Trades, ID: streamtest.ID("*|M|*")}},
		subscription.Options{Resume: &wire.Resume{Epoch: w.Hub.Epoch(), Position: now, Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"S0|M|CI": 10}}}})
	c.Sub.Unsubscribe([]hub.Item{one})
	_, received := c.Sub.Position()
	if received == "" {
		return // an unknown position is not sent
	}
	_, pos, err := position.Parse(received)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Journal.Read(t.Context(), journal.Series{Instrument: one.ID, Channel: journal.Trades}, journal.Range{AfterN: 10}, func(_ string, r *journal.Row) bool {
		if pos.For(0) >= r.Position {
			t.Errorf("position %s, and the trade of position %d has yet to come", received, r.Position)
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPositionAfterAChangeOfRights checks a position of two delays, from which a client resumes
// whose rights have changed meanwhile. What had a delay is in real time now, so that the position
// of real time is after rows that were not sent. With the same rights it is exact.
func TestPositionAfterAChangeOfRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
		a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		item := func(name string, delay int) hub.Item {
			return hub.Item{Channel: wire.Trades, ID: streamtest.ID(name + "|M|CI"), Tier: hub.Tier{Delay: delay}}
		}
		const before, after = 11, 13 // hashes of rights
		c := streamtest.NewClient(t, sh)
		c.Sub.SetRights(before)
		c.Sub.Subscribe([]hub.Item{item("A", 60), item("B", 0)}, subscription.Options{})
		for n := 1; n <= 3; n++ {
			streamtest.Publish(t, h, streamtest.Trade(a, n), streamtest.Trade(b, n))
			time.Sleep(40 * time.Second)
			synctest.Wait()
			streamtest.Turn(sh)
			c.Read(1<<20, false)
		}
		if !slices.Equal(c.Trades["A|M|CI"], []uint64{1, 2}) || !slices.Equal(c.Trades["B|M|CI"], []uint64{1, 2, 3}) {
			t.Fatalf("got %v", c.Trades)
		}
		_, pos := c.Sub.Position()
		for rights, want := range map[uint64][2][]uint64{before: {{3}, nil}, after: {{3}, {3}}, 0: {{3}, {3}}} {
			d, delay := streamtest.NewClient(t, sh), 0
			if rights == before {
				delay = 60
			}
			d.Sub.SetRights(rights)
			d.Sub.Subscribe([]hub.Item{item("A", delay), item("B", 0)}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: pos}})
			if delay > 0 {
				time.Sleep(time.Minute)
				synctest.Wait()
				streamtest.Turn(sh)
			}
			d.Read(1<<20, false)
			if got := [2][]uint64{d.Trades["A|M|CI"], d.Trades["B|M|CI"]}; !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
				t.Errorf("rights %d, from %s: trades %v, want %v", rights, pos, got, want)
			}
			d.Sub.Close()
		}
	})
}
