package subscription_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func TestResumeAnswers(t *testing.T) {
	h := hub.New(hub.Config{Epoch: "e1", TradesKept: 1})
	a := streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Define(t, h, "B|M|CI", nil)
	for i := range 2 * recent.ChunkRows {
		streamtest.Publish(t, h, streamtest.Trade(a, i))
	}
	last := uint64(2 * recent.ChunkRows)
	first := last - recent.ChunkRows + 1
	for _, tt := range []struct {
		name    string
		resume  wire.Resume
		n       int // in resume for A; -1: none
		resumed uint64
		lost    subscription.Lost
		rows    uint64
	}{
		{"up to date", wire.Resume{Epoch: "e1"}, int(last), last, subscription.Lost{}, 0},
		{"whole gap", wire.Resume{Epoch: "e1"}, int(first) + 9, last, subscription.Lost{}, last - first - 9},
		{"oldest row", wire.Resume{Epoch: "e1"}, int(first) - 1, last, subscription.Lost{}, last - first + 1},
		{"fell off the tape", wire.Resume{Epoch: "e1"}, int(first) - 2, last, subscription.Lost{first - 1, first - 1, "buffer_exceeded"}, last - first + 1},
		{"ahead", wire.Resume{Epoch: "e1"}, int(last) + 1, 0, subscription.Lost{0, 0, "ahead"}, 0},
		{"another epoch", wire.Resume{Epoch: "e0"}, 7, 0, subscription.Lost{8, 0, "epoch_changed"}, 0},
		{"no N and no position", wire.Resume{Epoch: "e1"}, -1, 0, subscription.Lost{}, 0},
		{"position ahead", wire.Resume{Epoch: "e1", Position: "e1:999999"}, -1, 0, subscription.Lost{0, 0, "ahead"}, 0},
		{"position of another epoch", wire.Resume{Epoch: "e1", Position: "e0:5"}, -1, 0, subscription.Lost{0, 0, "epoch_changed"}, 0},
		{"position before the tape", wire.Resume{Epoch: "e1", Position: "e1:5"}, -1, last, subscription.Lost{0, first - 1, "buffer_exceeded"}, last - first + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
			defer c.Sub.Close()
			if tt.n >= 0 {
				tt.resume.Seen[wire.Trades] = map[string]uint64{"A|M|CI": uint64(tt.n)}
			}
			out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: &tt.resume})
			c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: nil})
			if out.Resumed[wire.Trades]["A|M|CI"] != tt.resumed || out.Lost[wire.Trades]["A|M|CI"] != tt.lost {
				t.Errorf("resumed %v, lost %v", out.Resumed, out.Lost)
			}
			got := c.Read(4000, false)
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
	h := hub.New(hub.Config{Epoch: "e1"})
	streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
	for _, position := range []string{"x", "e1:", "e1:x", ":5", "e1:-1", "e1:99999999999999999999"} {
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: &wire.Resume{Epoch: "e1", Position: position}})
		if out.Fault == nil || out.Fault.Reason != wire.BadField || c.Sub.Len() != 0 {
			t.Errorf("position %q was taken", position)
		}
	}
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Trades] = map[string]uint64{"*|M|CI": 4}
	if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|CI")}}, subscription.Options{Resume: r}); out.Fault == nil {
		t.Error("an N of a pattern was taken")
	}
}

func TestPatternResumesByPosition(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	var handles []market.Handle
	for i := range 5 {
		handles = append(handles, streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), nil))
	}
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|CI")
	for i := range 100 {
		streamtest.Publish(t, h, streamtest.Trade(handles[i%4], i)) // no trade of the fifth instrument
	}
	streamtest.Turn(sh)
	c.Read(2000, false)
	epoch, position := c.Sub.Position()
	c.Sub.Close()
	for i := range 100 {
		streamtest.Publish(t, h, streamtest.Trade(handles[i%5], i))
	}
	d := streamtest.NewClient(t, sh)
	d.Last = c.Last
	d.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|CI")}, {Channel: wire.Trades, ID: streamtest.ID("S1|M|CI")}}, subscription.Options{Resume: &wire.Resume{Epoch: epoch, Position: position}})
	for i := range 50 {
		streamtest.Publish(t, h, streamtest.Trade(handles[i%5], i))
	}
	streamtest.Turn(sh)
	d.Read(700, false)
	for i := range 5 {
		want := uint64(30)
		if i < 4 {
			want += 25
		}
		if got := d.Last[fmt.Sprintf("S%d|M|CI", i)]; got != want {
			t.Errorf("S%d ended at %d, want %d", i, got, want)
		}
	}
}

func TestStatusResumes(t *testing.T) {
	h := hub.New(hub.Config{Epoch: "e1"})
	sh := subscription.NewShard(h, func(bool) {})
	a := streamtest.Define(t, h, "A|M|CI", nil)
	for _, p := range []market.Phase{market.Halt, market.Open, market.Closed} {
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: a, Phase: p})
	}
	c := streamtest.NewClient(t, sh)
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Status] = map[string]uint64{"A|M|CI": 2}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: r})
	var got []string
	for _, m := range c.Read(1<<20, false) {
		got = append(got, fmt.Sprint(m.N, m.E))
	}
	if want := []string{"3open", "4closed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTierMoves(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(9, 1), streamtest.Level(8, 1), streamtest.Level(7, 1)}})
	c := streamtest.NewClient(t, sh)
	book := func(depth int) []streamtest.Message {
		c.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: depth}}}, subscription.Options{})
		return c.Read(1<<20, false)
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
	var work subscription.Work
	if rejected := c.Sub.Resync([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI")}, {Channel: wire.OrderBook, ID: streamtest.ID("B|M|CI")}}, &work); len(rejected) != 1 || work.Snapshots != 1 {
		t.Fatalf("%+v", rejected)
	}
	if got := c.Read(1<<20, false); len(got) != 1 || !got[0].R {
		t.Fatalf("resync sent %+v", got)
	}
}

func TestRejectedItemsSayWhatToDo(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "GGAL|BYMA|24hs", func(in *market.Instrument) { in.NoBook = true })
	c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
	out := c.Sub.Subscribe([]hub.Item{
		{Channel: wire.Trades, ID: streamtest.ID("GGLA|BYMA|24hs")},
		{Channel: wire.Trades, ID: streamtest.ID("*|NYSE|24hs")},
		{Channel: wire.OrderBook, ID: streamtest.ID("GGAL|BYMA|24hs")},
		{Channel: wire.Trades, ID: streamtest.ID("GGAL|BYMA|24hs")},
	}, subscription.Options{})
	var got []string
	for _, r := range out.Rejected {
		got = append(got, string(r.Reason)+" "+r.Hint)
	}
	if len(got) != 3 || !strings.Contains(got[0], "GGAL|BYMA|24hs") || !strings.HasPrefix(got[2], "unknown_channel") || c.Sub.Len() != 1 {
		t.Fatalf("%q", got)
	}
}

func TestQuietAndDelivered(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	a := streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Define(t, h, "B|M|CI", nil)
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|CI")
	streamtest.Publish(t, h, streamtest.Trade(a, 1), streamtest.Trade(a, 2), streamtest.Trade(a, 3))
	streamtest.Turn(sh)
	size := len(c.Sub.Gather(nil, 1, wire.JSON, false)) // only the first message
	if size == 0 {
		t.Fatal("nothing gathered")
	}
	delivered := map[string]uint64{}
	c.Sub.Delivered(wire.Trades, 10, func(id market.InstrumentID, n uint64) { delivered[id.String()] = n })
	if len(delivered) != 1 || delivered["A|M|CI"] != 1 {
		t.Errorf("delivered %v", delivered)
	}
	quiet := map[string]uint64{}
	c.Sub.Quiet(1<<62, new(subscription.QuietPlace), 100, func(_ wire.Channel, id market.InstrumentID, n uint64) { quiet[id.String()] = n })
	if len(quiet) != 2 || quiet["A|M|CI"] != 3 || quiet["B|M|CI"] != 0 {
		t.Errorf("quiet %v", quiet)
	}
	c.Sub.Quiet(0, new(subscription.QuietPlace), 100, func(_ wire.Channel, id market.InstrumentID, n uint64) {
		if n > 0 {
			t.Errorf("%s is quiet before any time", id)
		}
	})
}

// TestQuietGoesRound checks that Quiet visits a large set in parts, and all of it in the end, even
// if the client subscribes meanwhile.
func TestQuietGoesRound(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	for i := range 30 {
		streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), nil)
		streamtest.Define(t, h, fmt.Sprintf("S%d|N|CI", i), nil)
	}
	c := streamtest.NewClient(t, sh)
	var place subscription.QuietPlace
	c.Sub.Quiet(1<<62, &place, 10, func(wire.Channel, market.InstrumentID, uint64) { t.Error("nothing is subscribed") })
	streamtest.Subscribe(t, c.Sub, wire.Trades, "S1|M|CI", "*|M|*", "S5|N|CI")
	streamtest.Subscribe(t, c.Sub, wire.BarsOf(market.Minute), "S1|M|CI", "*|N|CI")
	for range 5 {
		seen := map[string]int{}
		for range 8 {
			named := 0
			c.Sub.Quiet(1<<62, &place, 9, func(ch wire.Channel, id market.InstrumentID, _ uint64) {
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
		streamtest.Subscribe(t, c.Sub, wire.Status, fmt.Sprintf("S%d|N|CI", c.Sub.Len()))
	}
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{}}, {Channel: wire.BarsOf(market.Minute), ID: streamtest.ID("*|N|CI"), Tier: hub.Tier{}}})
	c.Sub.Quiet(1<<62, &place, 9, func(wire.Channel, market.InstrumentID, uint64) {})
}

// BenchmarkQuiet measures an Alive mark of a subscriber of all 5,000 instruments.
func BenchmarkQuiet(b *testing.B) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	for i := range 5000 {
		streamtest.Define(b, h, fmt.Sprintf("S%d|M|CI", i), nil)
	}
	c := streamtest.NewClient(b, sh)
	streamtest.Subscribe(b, c.Sub, wire.Trades, "*|*|*")
	var place subscription.QuietPlace
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		c.Sub.Quiet(1<<62, &place, 500, func(_ wire.Channel, _ market.InstrumentID, last uint64) { n += last })
	}
}

// TestReplayOutlivesRecentRows checks that a replay sends all its rows although they are dropped
// from the recent rows in the middle of it.
func TestReplayOutlivesRecentRows(t *testing.T) {
	h := hub.New(hub.Config{Epoch: "e1", TradesKept: 1})
	sh := subscription.NewShard(h, func(bool) {})
	a := streamtest.Define(t, h, "A|M|CI", nil)
	for i := range recent.ChunkRows {
		streamtest.Publish(t, h, streamtest.Trade(a, i))
	}
	c := streamtest.NewClient(t, sh)
	r := &wire.Resume{Epoch: "e1"}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 0}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: r})
	for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1000, wire.JSON, false)) {
		c.Take(&m)
	}
	for i := range 4 * recent.ChunkRows {
		streamtest.Publish(t, h, streamtest.Trade(a, i))
	}
	streamtest.Turn(sh)
	c.Read(1000, false)
	if got := len(c.Trades["A|M|CI"]); got != 5*recent.ChunkRows {
		t.Errorf("got %d trades of %d", got, 5*recent.ChunkRows)
	}
}
