package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func TestResumeAnswers(t *testing.T) {
	h := New(Config{Epoch: "e1", TradesKept: 1})
	a := define(t, h, "A|M|CI", nil)
	define(t, h, "B|M|CI", nil)
	for i := range 2 * recent.ChunkRows {
		publish(t, h, trade(a, i))
	}
	last := uint64(2 * recent.ChunkRows)
	first := last - recent.ChunkRows + 1
	for _, tt := range []struct {
		name    string
		resume  wire.Resume
		n       int // in resume for A; -1: none
		resumed uint64
		lost    Lost
		rows    uint64
	}{
		{"up to date", wire.Resume{Epoch: "e1"}, int(last), last, Lost{}, 0},
		{"whole gap", wire.Resume{Epoch: "e1"}, int(first) + 9, last, Lost{}, last - first - 9},
		{"oldest row", wire.Resume{Epoch: "e1"}, int(first) - 1, last, Lost{}, last - first + 1},
		{"fell off the tape", wire.Resume{Epoch: "e1"}, int(first) - 2, 0, Lost{first - 1, last, "buffer_exceeded"}, 0},
		{"ahead", wire.Resume{Epoch: "e1"}, int(last) + 1, 0, Lost{0, 0, "ahead"}, 0},
		{"another epoch", wire.Resume{Epoch: "e0"}, 7, 0, Lost{8, 0, "epoch_changed"}, 0},
		{"no N and no position", wire.Resume{Epoch: "e1"}, -1, 0, Lost{}, 0},
		{"position ahead", wire.Resume{Epoch: "e1", Position: "e1:999999"}, -1, 0, Lost{0, 0, "ahead"}, 0},
		{"position of another epoch", wire.Resume{Epoch: "e1", Position: "e0:5"}, -1, 0, Lost{0, 0, "epoch_changed"}, 0},
		{"position before the tape", wire.Resume{Epoch: "e1", Position: "e1:5"}, -1, 0, Lost{0, last, "buffer_exceeded"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, h.NewShard(func(bool) {}))
			defer c.sub.Close()
			if tt.n >= 0 {
				tt.resume.Seen[wire.Trades] = map[string]uint64{"A|M|CI": uint64(tt.n)}
			}
			out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Resume: &tt.resume})
			c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: nil})
			if out.Resumed[wire.Trades]["A|M|CI"] != tt.resumed || out.Lost[wire.Trades]["A|M|CI"] != tt.lost {
				t.Errorf("resumed %v, lost %v", out.Resumed, out.Lost)
			}
			got := c.read(4000, false)
			if len(got) == 0 || got[len(got)-1].Type != "CaughtUp" {
				t.Fatal("the message of AfterReplay is not the last")
			}
			if rows := uint64(len(got) - 1); rows != tt.rows {
				t.Errorf("%d rows, want %d", rows, tt.rows)
			}
		})
	}
}

func TestResumeFaults(t *testing.T) {
	h := New(Config{Epoch: "e1"})
	define(t, h, "A|M|CI", nil)
	c := newClient(t, h.NewShard(func(bool) {}))
	for _, position := range []string{"x", "e1:", "e1:x", ":5", "e1:-1", "e1:99999999999999999999"} {
		out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Resume: &wire.Resume{Epoch: "e1", Position: position}})
		if out.Fault == nil || out.Fault.Reason != wire.BadField || c.sub.Len() != 0 {
			t.Errorf("position %q was taken", position)
		}
	}
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Trades] = map[string]uint64{"*|M|CI": 4}
	if out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|CI")}}, Options{Resume: r}); out.Fault == nil {
		t.Error("an N of a pattern was taken")
	}
}

func TestPatternResumesByPosition(t *testing.T) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	var handles []market.Handle
	for i := range 5 {
		handles = append(handles, define(t, h, fmt.Sprintf("S%d|M|CI", i), nil))
	}
	c := newClient(t, sh)
	subscribe(t, c.sub, wire.Trades, "*|M|CI")
	for i := range 100 {
		publish(t, h, trade(handles[i%4], i)) // no trade of the fifth instrument
	}
	turn(sh)
	c.read(2000, false)
	epoch, position := c.sub.Position()
	c.sub.Close()
	for i := range 100 {
		publish(t, h, trade(handles[i%5], i))
	}
	d := newClient(t, sh)
	d.last = c.last
	d.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|CI")}, {Channel: wire.Trades, ID: id("S1|M|CI")}}, Options{Resume: &wire.Resume{Epoch: epoch, Position: position}})
	for i := range 50 {
		publish(t, h, trade(handles[i%5], i))
	}
	turn(sh)
	d.read(700, false)
	for i := range 5 {
		want := uint64(30)
		if i < 4 {
			want += 25
		}
		if got := d.last[fmt.Sprintf("S%d|M|CI", i)]; got != want {
			t.Errorf("S%d ended at %d, want %d", i, got, want)
		}
	}
}

func TestStatusResumes(t *testing.T) {
	h := New(Config{Epoch: "e1"})
	sh := h.NewShard(func(bool) {})
	a := define(t, h, "A|M|CI", nil)
	for _, p := range []market.Phase{market.Halt, market.Open, market.Closed} {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: a, Phase: p})
	}
	c := newClient(t, sh)
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Status] = map[string]uint64{"A|M|CI": 2}
	c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id("A|M|CI")}}, Options{Resume: r})
	var got []string
	for _, m := range c.read(1<<20, false) {
		got = append(got, fmt.Sprint(m.N, m.E))
	}
	if want := []string{"3open", "4closed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTierMoves(t *testing.T) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	hd := define(t, h, "A|M|CI", nil)
	publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{level(9, 1), level(8, 1), level(7, 1)}})
	c := newClient(t, sh)
	book := func(depth int) []message {
		c.sub.Subscribe([]Item{{wire.OrderBook, id("A|M|CI"), Tier{Depth: depth}}}, Options{})
		return c.read(1<<20, false)
	}
	if got := book(1); len(got) != 1 || len(got[0].B) != 1 || !got[0].R {
		t.Fatalf("%+v", got)
	}
	if got := book(1); len(got) != 0 {
		t.Fatalf("subscribing again sent %+v", got)
	}
	if got := book(5); len(got) != 1 || len(got[0].B) != 3 || got[0].DL != 5 {
		t.Fatalf("%+v", got)
	}
	if states, rejected := c.sub.Resync([]Item{{Channel: wire.OrderBook, ID: id("A|M|CI")}, {Channel: wire.OrderBook, ID: id("B|M|CI")}}); len(rejected) != 1 || states != 1 {
		t.Fatalf("%+v", rejected)
	}
	if got := c.read(1<<20, false); len(got) != 1 || !got[0].R {
		t.Fatalf("resync sent %+v", got)
	}
}

func TestRejectedItemsSayWhatToDo(t *testing.T) {
	h := New(Config{})
	define(t, h, "GGAL|BYMA|24hs", func(in *market.Instrument) { in.NoBook = true })
	c := newClient(t, h.NewShard(func(bool) {}))
	out := c.sub.Subscribe([]Item{
		{Channel: wire.Trades, ID: id("GGLA|BYMA|24hs")},
		{Channel: wire.Trades, ID: id("*|NYSE|24hs")},
		{Channel: wire.OrderBook, ID: id("GGAL|BYMA|24hs")},
		{Channel: wire.Trades, ID: id("GGAL|BYMA|24hs")},
	}, Options{})
	var got []string
	for _, r := range out.Rejected {
		got = append(got, string(r.Reason)+" "+r.Hint)
	}
	if len(got) != 3 || !strings.Contains(got[0], "GGAL|BYMA|24hs") || !strings.HasPrefix(got[2], "unknown_channel") || c.sub.Len() != 1 {
		t.Fatalf("%q", got)
	}
}

func TestQuietAndDelivered(t *testing.T) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	a := define(t, h, "A|M|CI", nil)
	define(t, h, "B|M|CI", nil)
	c := newClient(t, sh)
	subscribe(t, c.sub, wire.Trades, "*|M|CI")
	publish(t, h, trade(a, 1), trade(a, 2), trade(a, 3))
	turn(sh)
	size := len(c.sub.Gather(nil, 1, wire.JSON, false)) // only the first message
	if size == 0 {
		t.Fatal("nothing gathered")
	}
	delivered := map[string]uint64{}
	c.sub.Delivered(wire.Trades, 10, func(id market.InstrumentID, n uint64) { delivered[id.String()] = n })
	if len(delivered) != 1 || delivered["A|M|CI"] != 1 {
		t.Errorf("delivered %v", delivered)
	}
	quiet := map[string]uint64{}
	c.sub.Quiet(1<<62, new(QuietPlace), 100, func(_ wire.Channel, id market.InstrumentID, n uint64) { quiet[id.String()] = n })
	if len(quiet) != 2 || quiet["A|M|CI"] != 3 || quiet["B|M|CI"] != 0 {
		t.Errorf("quiet %v", quiet)
	}
	c.sub.Quiet(0, new(QuietPlace), 100, func(_ wire.Channel, id market.InstrumentID, n uint64) {
		if n > 0 {
			t.Errorf("%s is quiet before any time", id)
		}
	})
}

// TestQuietGoesRound checks that Quiet visits a large set in parts, and all of it in the end, even
// if the client subscribes meanwhile.
func TestQuietGoesRound(t *testing.T) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	for i := range 30 {
		define(t, h, fmt.Sprintf("S%d|M|CI", i), nil)
		define(t, h, fmt.Sprintf("S%d|N|CI", i), nil)
	}
	c := newClient(t, sh)
	var place QuietPlace
	c.sub.Quiet(1<<62, &place, 10, func(wire.Channel, market.InstrumentID, uint64) { t.Error("nothing is subscribed") })
	subscribe(t, c.sub, wire.Trades, "S1|M|CI", "*|M|*", "S5|N|CI")
	subscribe(t, c.sub, wire.BarsOf(market.Minute), "S1|M|CI", "*|N|CI")
	for range 5 {
		seen := map[string]int{}
		for range 8 {
			named := 0
			c.sub.Quiet(1<<62, &place, 9, func(ch wire.Channel, id market.InstrumentID, _ uint64) {
				seen[string(ch.Append(nil, id))]++
				named++
			})
			if named > 9 {
				t.Fatalf("%d at once", named)
			}
		}
		if len(seen) < 62 {
			t.Fatalf("saw %d of 62", len(seen))
		}
		subscribe(t, c.sub, wire.Status, fmt.Sprintf("S%d|N|CI", len(c.sub.items)))
	}
	c.sub.Unsubscribe([]Item{{wire.Trades, id("*|M|*"), Tier{}}, {wire.BarsOf(market.Minute), id("*|N|CI"), Tier{}}})
	c.sub.Quiet(1<<62, &place, 9, func(wire.Channel, market.InstrumentID, uint64) {})
}

// BenchmarkQuiet measures an Alive mark of a subscriber of all 5,000 instruments.
func BenchmarkQuiet(b *testing.B) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	for i := range 5000 {
		define(b, h, fmt.Sprintf("S%d|M|CI", i), nil)
	}
	c := newClient(b, sh)
	subscribe(b, c.sub, wire.Trades, "*|*|*")
	var place QuietPlace
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		c.sub.Quiet(1<<62, &place, 500, func(_ wire.Channel, _ market.InstrumentID, last uint64) { n += last })
	}
}

// TestReplayOutlivesRecentRows checks that a replay sends all its rows although they are dropped
// from the recent rows in the middle of it.
func TestReplayOutlivesRecentRows(t *testing.T) {
	h := New(Config{Epoch: "e1", TradesKept: 1})
	sh := h.NewShard(func(bool) {})
	a := define(t, h, "A|M|CI", nil)
	for i := range recent.ChunkRows {
		publish(t, h, trade(a, i))
	}
	c := newClient(t, sh)
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 0}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Resume: r})
	for _, m := range frames(t, c.sub.Gather(nil, 1000, wire.JSON, false)) {
		c.take(&m)
	}
	for i := range 4 * recent.ChunkRows {
		publish(t, h, trade(a, i))
	}
	turn(sh)
	c.read(1000, false)
	if got := len(c.trades["A|M|CI"]); got != 5*recent.ChunkRows {
		t.Errorf("got %d trades of %d", got, 5*recent.ChunkRows)
	}
}
