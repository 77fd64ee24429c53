package subscription_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestNothingGoesBeforeTheAcknowledgement checks a request that moves a book to another tier and
// resumes trades. The replay comes behind the acknowledgement, which is sent after TakeCarry.
func TestNothingGoesBeforeTheAcknowledgement(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
	c.Sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5}}}, subscription.Options{})
	c.Read(1<<20, false)
	for i := range 10 {
		streamtest.Publish(t, h, streamtest.Trade(hd, i))
	}
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 3}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}, {Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 10}}}, subscription.Options{Resume: r})
	if early := streamtest.Frames(t, c.Sub.TakeCarry(nil)); len(early) > 0 {
		t.Fatalf("went out early: %+v", early)
	}
	if c.Read(1<<20, false); len(c.Trades["A|M|CI"]) != 7 {
		t.Errorf("replayed %v", c.Trades)
	}
}

// TestPositionOfTheAcknowledgement checks that a client can resume from the position of an
// acknowledgement although the replay was not sent.
func TestPositionOfTheAcknowledgement(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	_, position := h.Position()
	for i := range 10 {
		streamtest.Publish(t, h, streamtest.Trade(hd, i))
	}
	streamtest.Turn(sh)
	for range 3 { // each time the socket is lost before the first row
		c := streamtest.NewClient(t, sh)
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
		c.Sub.Close()
		position = out.Position
	}
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	if c.Read(1<<20, false); len(c.Trades["A|M|CI"]) != 10 {
		t.Errorf("resumed %v", c.Trades)
	}
}

// TestReplayIsInherited checks that a pattern which is unsubscribed during its replay transfers the
// rest to the identifiers that stay. Live messages come behind that replay.
func TestReplayIsInherited(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	a, b := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
	_, position := h.Position()
	for i := range 50 {
		streamtest.Publish(t, h, streamtest.Trade(a, i), streamtest.Trade(b, i))
	}
	streamtest.Turn(sh)
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
	for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1000, wire.JSON, false)) {
		c.Take(&m)
	}
	streamtest.Publish(t, h, streamtest.Trade(a, 50), streamtest.Trade(b, 50))
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}})
	streamtest.Publish(t, h, streamtest.Trade(a, 51), streamtest.Trade(b, 51))
	streamtest.Turn(sh)
	got := c.Read(1000, false)
	if n := len(c.Trades["A|M|CI"]); n != 52 {
		t.Errorf("%d trades of A, want 52", n)
	}
	caught := slices.IndexFunc(got, func(m streamtest.Message) bool { return m.Type == "CaughtUp" })
	last := slices.IndexFunc(got, func(m streamtest.Message) bool { return m.N == 50 && m.I == "A|M|CI" })
	if caught < last || last < 0 {
		t.Errorf("caught up at %d, the last row at %d", caught, last)
	}
}

// TestConflatedQuoteSurvives checks that a quote which waits in a conflated tier is sent by the
// identifier that covers the instrument afterwards.
func TestConflatedQuoteSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		go h.Run(t.Context())
		c := streamtest.NewClient(t, sh)
		slow := hub.Tier{Conflate: 1000}
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("*|M|*"), Tier: slow}}, subscription.Options{})
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI"), Tier: slow}}, subscription.Options{})
		c.Read(1<<20, false)
		streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(100, 7)}})
		c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("*|M|*"), Tier: slow}})
		time.Sleep(2 * time.Second)
		streamtest.Turn(sh)
		got := c.Read(1<<20, false)
		if len(got) == 0 || got[len(got)-1].BZ != "7" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestNoStatusIsSkipped checks that a snapshot that is due does not replace statuses that wait.
func TestNoStatusIsSkipped(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	streamtest.Define(t, h, "B|M|CI", nil)
	venue := streamtest.Define(t, h, "*|M|*", nil)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Status, "A|M|CI")
	c.Read(1<<20, false)
	for _, p := range []market.Phase{market.Halt, market.Auction, market.Open} {
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: p}, market.Event{Kind: market.KindStatus, Handle: venue, Phase: p})
	}
	streamtest.Turn(sh)
	c.Sub.Resync([]hub.Item{{Channel: wire.Status, ID: streamtest.ID("A|M|CI")}}, new(subscription.Work))
	streamtest.Subscribe(t, c.Sub, wire.Status, "B|M|CI")
	received := map[string]int{}
	for _, m := range c.Read(1<<20, false) {
		if !m.R {
			received[m.I]++
		}
	}
	if received["A|M|CI"] != 3 || received["*|M|*"] != 3 {
		t.Errorf("told %v", received)
	}
}

// TestReplaceIsTheWholeSet checks that replaced identifiers do not count towards a limit. A
// replacement without a valid identifier changes nothing. An empty replacement removes all.
func TestReplaceIsTheWholeSet(t *testing.T) {
	h := hub.New(hub.Config{})
	streamtest.Define(t, h, "A|M|CI", nil)
	c := streamtest.NewClient(t, subscription.NewShard(h, func(bool) {}))
	patterns := func(from int) (items []hub.Item) {
		for i := range 40 {
			items = append(items, hub.Item{Channel: wire.Trades, ID: market.InstrumentID{Symbol: string(rune('A' + from + i)), Market: "M", Term: "*"}})
		}
		return items
	}
	c.Sub.Subscribe(patterns(0), subscription.Options{})
	if out := c.Sub.Subscribe(patterns(20)[:10], subscription.Options{Replace: true}); len(out.Rejected) > 0 || c.Sub.Len() != 10 {
		t.Errorf("%d in the set, rejected %v", c.Sub.Len(), out.Rejected)
	}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("NOPE|M|CI")}}, subscription.Options{Replace: true})
	if c.Sub.Len() != 10 {
		t.Errorf("a bad replacement left %d", c.Sub.Len())
	}
	c.Sub.Subscribe(nil, subscription.Options{Replace: true})
	if c.Sub.Len() != 0 {
		t.Errorf("an empty replacement left %d", c.Sub.Len())
	}
}

// TestBooksOfOneKind checks that a book does not mix levels and single orders, and that no side
// grows without bound.
func TestBooksOfOneKind(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	add := market.Event{Kind: market.KindOrderAdd, Handle: hd, OrderID: 1, Side: market.Buy, Price: 100 * market.Scale, Size: 5 * market.Scale}
	levels := market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(100, 0)}}
	streamtest.Publish(t, h, add)
	if err := h.Publish([]market.Event{levels}); err == nil {
		t.Error("levels were put into a book of orders")
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(99, 1)}})
	if err := h.Publish([]market.Event{add}); err == nil {
		t.Error("an order was put into a book of levels")
	}
	big := market.Event{Kind: market.KindUpdate, Handle: hd}
	for i := range int64(book.MaxLevels - 2) {
		big.Bids = append(big.Bids, streamtest.Level(book.MaxLevels-i, 1))
	}
	streamtest.Publish(t, h, big)
	if err := h.Publish([]market.Event{big}); err == nil {
		t.Error("a side grew past its bound")
	}
	if _, err := h.AppendBook(nil, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5}); err == nil {
		t.Error("a book that could not be kept is not stale")
	}
}

// TestStateDoesNotHideWhatWaits checks that the waiting data of a slow socket is counted and
// released even if a snapshot is due.
func TestStateDoesNotHideWhatWaits(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.OrderBook, "A|M|CI")
	for i := range 100 {
		streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(50, int64(1+i))}})
		streamtest.Turn(sh)
	}
	if c.Sub.Lag().Bytes == 0 {
		t.Error("what waits behind a state that is due is not counted")
	}
	c.Sub.Collapse()
	if got := c.Sub.Lag().Bytes; got != 0 {
		t.Errorf("%d bytes wait after Collapse", got)
	}
}

// TestReplaceLosesNothing checks a replacement of a pattern by one of its instruments. Waiting
// messages of the instrument are sent, as if it were added first and the pattern removed
// afterwards.
func TestReplaceLosesNothing(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "*|M|*")
	streamtest.Publish(t, h, streamtest.Trade(hd, 1))
	streamtest.Turn(sh)
	c.Read(1<<20, false)
	streamtest.Publish(t, h, streamtest.Trade(hd, 2)) // the shard has not run a turn
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Replace: true})
	streamtest.Publish(t, h, streamtest.Trade(hd, 3))
	streamtest.Turn(sh)
	if c.Read(1<<20, false); !slices.Equal(c.Trades["A|M|CI"], []uint64{1, 2, 3}) || c.Sub.Len() != 1 {
		t.Errorf("got %v with %d identifiers", c.Trades, c.Sub.Len())
	}
}

// TestBehindReplayCounts checks that live messages which wait behind a replay count as much as
// messages in the ring.
func TestBehindReplayCounts(t *testing.T) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(t, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	_, pos := h.Position()
	for i := range 9000 {
		streamtest.Publish(t, h, streamtest.Trade(hd, i))
	}
	streamtest.Turn(sh)
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: pos}})
	const live = 80_000
	for i := range live {
		streamtest.Publish(t, h, streamtest.Trade(hd, i))
		if i%10_000 == 0 {
			streamtest.Turn(sh)
			c.Sub.Gather(nil, 100, wire.JSON, false)
			streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
			c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}})
		}
	}
	streamtest.Turn(sh)
	if lag := c.Sub.Lag(); lag.KeptBytes < subscription.MaxBehindReplay || lag.Messages != live {
		t.Errorf("%+v", lag)
	}
}
