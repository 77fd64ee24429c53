package stream

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/wire"
)

// TestPositionOfAnInheritedReplay checks positions when an identifier transfers messages to another
// one that replays. The transferred messages have lower positions than those of the replay. A
// client that resumes from its position never misses one of them.
func TestPositionOfAnInheritedReplay(t *testing.T) {
	h := New(Config{})
	a, b := define(t, h, "A|M|CI", nil), define(t, h, "B|M|CI", nil)
	define(t, h, "C|M|CI", nil)
	publish(t, h, trade(a, 1), trade(b, 1))
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	_, pos := h.Position()
	for k := range 3 {
		publish(t, h, trade(a, 2+k), trade(b, 2+k))
	}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("B|M|CI")}, {Channel: wire.Trades, ID: id("C|M|CI")}, {Channel: wire.Trades, ID: id("*|M|*")}},
		Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: pos}})
	publish(t, h, trade(b, 5), trade(b, 6), trade(a, 5))
	turn(sh)
	c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("C|M|CI")}}) // drains the pattern, not B
	c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("B|M|CI")}})
	for {
		_, received := c.sub.Position()
		d := newClient(t, sh)
		d.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: received}})
		d.read(1<<20, false)
		d.sub.Close()
		for name, last := range map[string]uint64{"A|M|CI": 5, "B|M|CI": 6} {
			has := max(1, c.last[name])
			if got := d.trades[name]; has < last && (len(got) == 0 || got[0] > has+1) {
				t.Errorf("has %s up to %d, and resumes from %s with %v", name, has, received, got)
			}
		}
		if !c.sub.Pending() {
			break
		}
		for _, m := range frames(t, c.sub.Gather(nil, 1, wire.JSON, false)) {
			c.take(&m)
		}
	}
	if !slices.Equal(c.trades["B|M|CI"], []uint64{2, 3, 4, 5, 6}) || !slices.Equal(c.trades["A|M|CI"], []uint64{2, 3, 4, 5}) {
		t.Errorf("got %v", c.trades)
	}
}

// TestPositionOfALongResume checks the position of a client that resumes by N while rows of the
// journal have not come. It is the lower of the position in the request and the one before the
// first row in memory. A client that sent no position receives none.
func TestPositionOfALongResume(t *testing.T) {
	w := longHouse(t, 2, 3000)
	defer func() { w.leave(true) }()
	_, now := w.hub.Position()
	for _, given := range []string{now, positionText(w.hub, 2000), ""} {
		c := newClient(t, w.shard)
		out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("S0|M|CI")}, {Channel: wire.Trades, ID: id("*|M|*")}},
			Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: given, Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"S0|M|CI": 10}}}})
		rows := &w.hub.lookup(id("S0|M|CI")).Trades
		want := rows.After(rows.First() - 1)[0][0].Pos - 1
		if _, pos, err := position.Parse(given); err == nil {
			want = min(want, pos.For(0))
		}
		text := positionText(w.hub, want)
		if given == "" {
			text = ""
		}
		if out.Position != text {
			t.Errorf("a client that resumes at %q gets position %q, want %q", given, out.Position, text)
		}
		w.replayed(c)
		if got := c.trades["S0|M|CI"]; len(got) == 0 || got[0] != 11 {
			t.Errorf("resumed %v", got)
		}
		c.sub.Close()
	}
}

// TestPositionOfAnInheritedResume checks a pattern that inherits a resume by N before its rows were
// read. The pattern has no N to resume by, so a position after those rows is not safe.
func TestPositionOfAnInheritedResume(t *testing.T) {
	w := longHouse(t, 2, 3000)
	defer func() { w.leave(true) }()
	w.end() // nobody reads
	_, now := w.hub.Position()
	c := newClient(t, w.shard)
	one := Item{Channel: wire.Trades, ID: id("S0|M|CI")}
	c.sub.Subscribe([]Item{one, {Channel: wire.Trades, ID: id("*|M|*")}},
		Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: now, Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"S0|M|CI": 10}}}})
	c.sub.Unsubscribe([]Item{one})
	_, received := c.sub.Position()
	if received == "" {
		return // an unknown position is not sent
	}
	_, pos, err := position.Parse(received)
	if err != nil {
		t.Fatal(err)
	}
	err = w.journal.Read(t.Context(), journal.Series{Instrument: one.ID, Channel: journal.Trades}, journal.Range{AfterN: 10}, func(_ string, r *journal.Row) bool {
		if pos.For(0) >= r.Position {
			t.Errorf("position %s, and the trade of position %d has yet to come", received, r.Position)
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
}
