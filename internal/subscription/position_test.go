package subscription_test

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/internal/streamtest"
	"github.com/ruedahq/rueda/internal/subscription"
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
