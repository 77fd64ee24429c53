package subscription_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// notices returns the statuses among messages as "N phase reason", with R for a snapshot.
func notices(list []streamtest.Message) (received []string) {
	for _, m := range list {
		if m.Type != "H" {
			continue
		}
		text := fmt.Sprint(m.N, " ", m.E)
		if m.Y != "" {
			text += " " + m.Y
		}
		if m.R {
			text += " R"
		}
		received = append(received, text)
	}
	return received
}

// TestGapReachesEveryChannel checks that each connection with any subscription to an instrument
// receives one gap when events are lost. The phase of the instrument does not change.
func TestGapReachesEveryChannel(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	other := streamtest.Define(t, h, "B|M|CI", func(in *market.Instrument) { in.NoBook = true })
	sh := subscription.NewShard(h, func(bool) {})
	streamtest.Publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(10, 1)}, Asks: []market.Level{streamtest.Level(11, 1)}},
		market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Halt})
	everything := []wire.Channel{wire.Trades, wire.Quotes, wire.OrderBook, wire.Summary, wire.Bars}
	clients := map[string]*streamtest.Client{}
	for name, channels := range map[string][]wire.Channel{
		"trades": {wire.Trades}, "quotes": {wire.Quotes}, "book": {wire.OrderBook}, "status": {wire.Status},
		"summary": {wire.Summary}, "bars": {wire.Bars}, "day": {wire.BarsOf(market.Day)},
		"all but status": everything, "all": append(slices.Clip(everything), wire.Status),
	} {
		c := streamtest.NewClient(t, sh)
		for _, ch := range channels {
			streamtest.Subscribe(t, c.Sub, ch, "A|M|CI")
			if ch != wire.OrderBook {
				streamtest.Subscribe(t, c.Sub, ch, "*|M|CI")
			}
		}
		clients[name] = c
	}
	third := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, third.Sub, wire.Trades, "B|M|CI")
	streamtest.Turn(sh)
	for _, c := range clients {
		c.Read(1<<20, false)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: hd, Reason: "line_lost"})
	streamtest.Publish(t, h, streamtest.Trade(hd, 1), market.Event{Kind: market.KindGap, Handle: hd, Reason: "again"})
	streamtest.Turn(sh)
	for name, c := range clients {
		want := []string{"3 gap line_lost", "5 gap again"}
		switch name {
		case "status", "all", "book", "quotes", "all but status":
			want = []string{"3 gap line_lost", "4 feed_down line_lost", "5 gap again"}
		}
		got := notices(c.Read(1<<20, false))
		slices.Sort(got) // no order is promised between channels
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if list := third.Read(1<<20, false); len(list) != 0 {
		t.Errorf("a gap of another instrument: %+v", list)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: other})
	streamtest.Turn(sh)
	if got := notices(third.Read(1<<20, false)); !slices.Equal(got, []string{"2 gap"}) {
		t.Errorf("an instrument without a book: %q", got)
	}
	late := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, late.Sub, wire.Status, "A|M|CI")
	if got := notices(late.Read(1<<20, false)); !slices.Equal(got, []string{"5 halt R"}) {
		t.Errorf("the state is %q", got)
	}
	state, _ := h.Status(streamtest.ID("A|M|CI"), 0)
	if state.Phase != market.Halt {
		t.Errorf("the phase is %v", state.Phase)
	}
}

// TestGapIsResumed checks that a resume by an N of status sends gaps again, in order.
func TestGapIsResumed(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Halt},
		market.Event{Kind: market.KindGap, Handle: hd, Reason: "x"},
		market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Open})
	c := streamtest.NewClient(t, sh)
	seen := [wire.NumChannels]map[string]uint64{wire.Status: {"A|M|CI": 2}}
	if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Seen: seen}}); out.Fault != nil {
		t.Fatal(out.Fault)
	}
	if got := notices(c.Read(1<<20, false)); !slices.Equal(got, []string{"3 gap x", "4 feed_down x", "5 open"}) {
		t.Errorf("resumed %q", got)
	}
}

// TestGapOfMarket checks that one gap of a market as a whole reaches every client there, and no
// other.
func TestGapOfMarket(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Define(t, h, "B|M|CI", nil)
	streamtest.Define(t, h, "C|L|CI", nil)
	whole, err := h.Define(market.Instrument{ID: streamtest.ID("*|M|*")})
	if err != nil {
		t.Fatal(err)
	}
	sh := subscription.NewShard(h, func(bool) {})
	here, there := streamtest.NewClient(t, sh), streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, here.Sub, wire.Trades, "A|M|CI", "B|M|CI")
	streamtest.Subscribe(t, there.Sub, wire.Trades, "C|L|CI")
	streamtest.Turn(sh)
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: whole, Reason: "line_lost"})
	streamtest.Turn(sh)
	list := here.Read(1<<20, false)
	if got := notices(list); !slices.Equal(got, []string{"1 gap line_lost"}) || list[0].I != "*|M|*" {
		t.Errorf("got %q %+v", got, list)
	}
	if list := there.Read(1<<20, false); len(list) != 0 {
		t.Errorf("a gap of another market: %+v", list)
	}
	if state, _ := h.MarketStatus("M"); state.Phase == market.FeedDown {
		t.Error("a gap of the market took its feed for down")
	}
}

// TestGapWithoutBook checks that a book continues after a gap that lost none of its events.
func TestGapWithoutBook(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.OrderBook, "A|M|CI")
	streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Gap, Reason: "x"},
		market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(10, 1)}})
	streamtest.Turn(sh)
	list := c.Read(1<<20, false)
	if got := notices(list); !slices.Equal(got, []string{"2 gap x"}) || list[len(list)-1].Type != "O" {
		t.Errorf("got %+v", list)
	}
	if s, _ := h.Status(streamtest.ID("A|M|CI"), 0); s.Phase != market.Open {
		t.Errorf("the phase is %v", s.Phase)
	}
}

// TestGapAfterRestart checks a restart from a journal with gaps. N continues, the phase is the one
// before the gap, and gaps are sent again from the journal.
func TestGapAfterRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := &streamtest.House{T: t, Folder: t.TempDir(), Names: []string{"A|M|CI", "B|M|CI"}, Kept: 1}
		w.Begin()
		at := int64(1)
		event := func(kind market.Kind, phase market.Phase, reason string) {
			at++
			streamtest.Publish(t, w.Hub, market.Event{Kind: kind, Phase: phase, Reason: reason, Handle: w.Handles[0], Time: at})
		}
		event(market.KindStatus, market.Halt, "volatility")
		event(market.KindGap, market.NoPhase, "first")
		w.Hub.Commit()
		w.Leave(clean)
		w.Begin()
		if s, ok := w.Hub.Status(streamtest.ID("A|M|CI"), 0); !ok || s.Phase != market.Halt || s.Reason != "volatility" {
			t.Errorf("after a restart the status is %+v", s)
		}
		event(market.KindGap, market.NoPhase, "second")
		w.Hub.Commit()
		all := &streamtest.Received{T: t, Texts: map[string][]string{}}
		w.Follow(all)
		w.Read(all, true)
		var got []string
		for _, text := range all.Texts[streamtest.Key(wire.Status, "A|M|CI")] {
			var m streamtest.Message
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, notices([]streamtest.Message{m})...)
		}
		if want := []string{"1 open", "2 halt volatility", "3 gap first", "4 feed_down first", "5 gap second", "6 feed_down second"}; !slices.Equal(got, want) {
			t.Errorf("clean %v: resumed %q", clean, got)
		}
		w.Leave(true)
	}
}
