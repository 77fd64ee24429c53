package stream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestNothingGoesBeforeTheAcknowledgement checks a request that moves a book to another tier and
// resumes trades. The replay comes behind the acknowledgement, which is sent after TakeCarry.
func TestNothingGoesBeforeTheAcknowledgement(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	c := newClient(t, h.NewShard(func(bool) {}))
	c.sub.Subscribe([]Item{{wire.OrderBook, id("A|M|CI"), Tier{Depth: 5}}}, Options{})
	c.read(1<<20, false)
	for i := range 10 {
		publish(t, h, trade(hd, i))
	}
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 3}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}, {wire.OrderBook, id("A|M|CI"), Tier{Depth: 10}}}, Options{Resume: r})
	if early := frames(t, c.sub.TakeCarry(nil)); len(early) > 0 {
		t.Fatalf("went out early: %+v", early)
	}
	if c.read(1<<20, false); len(c.trades["A|M|CI"]) != 7 {
		t.Errorf("replayed %v", c.trades)
	}
}

// TestPositionOfTheAcknowledgement checks that a client can resume from the position of an
// acknowledgement although the replay was not sent.
func TestPositionOfTheAcknowledgement(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	_, position := h.Position()
	for i := range 10 {
		publish(t, h, trade(hd, i))
	}
	turn(sh)
	for range 3 { // each time the socket is lost before the first row
		c := newClient(t, sh)
		out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
		c.sub.Close()
		position = out.Position
	}
	c := newClient(t, sh)
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	if c.read(1<<20, false); len(c.trades["A|M|CI"]) != 10 {
		t.Errorf("resumed %v", c.trades)
	}
}

// TestReplayIsInherited checks that a pattern which is unsubscribed during its replay transfers the
// rest to the identifiers that stay. Live messages come behind that replay.
func TestReplayIsInherited(t *testing.T) {
	h := New(Config{})
	sh := h.NewShard(func(bool) {})
	a, b := define(t, h, "A|M|CI", nil), define(t, h, "B|M|CI", nil)
	_, position := h.Position()
	for i := range 50 {
		publish(t, h, trade(a, i), trade(b, i))
	}
	turn(sh)
	c := newClient(t, sh)
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: position}})
	c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	subscribe(t, c.sub, wire.Trades, "A|M|CI")
	for _, m := range frames(t, c.sub.Gather(nil, 1000, wire.JSON, false)) {
		c.take(&m)
	}
	publish(t, h, trade(a, 50), trade(b, 50))
	c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}})
	publish(t, h, trade(a, 51), trade(b, 51))
	turn(sh)
	got := c.read(1000, false)
	if n := len(c.trades["A|M|CI"]); n != 52 {
		t.Errorf("%d trades of A, want 52", n)
	}
	caught := slices.IndexFunc(got, func(m message) bool { return m.Type == "CaughtUp" })
	last := slices.IndexFunc(got, func(m message) bool { return m.N == 50 && m.I == "A|M|CI" })
	if caught < last || last < 0 {
		t.Errorf("caught up at %d, the last row at %d", caught, last)
	}
}

// TestConflatedQuoteSurvives checks that a quote which waits in a conflated tier is sent by the
// identifier that covers the instrument afterwards.
func TestConflatedQuoteSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{})
		hd := define(t, h, "A|M|CI", nil)
		sh := h.NewShard(func(bool) {})
		go h.Run(t.Context())
		c := newClient(t, sh)
		slow := Tier{Conflate: 1000}
		c.sub.Subscribe([]Item{{wire.Quotes, id("*|M|*"), slow}}, Options{})
		c.sub.Subscribe([]Item{{wire.Quotes, id("A|M|CI"), slow}}, Options{})
		c.read(1<<20, false)
		publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(100, 7)}})
		c.sub.Unsubscribe([]Item{{wire.Quotes, id("*|M|*"), slow}})
		time.Sleep(2 * time.Second)
		turn(sh)
		got := c.read(1<<20, false)
		if len(got) == 0 || got[len(got)-1].BZ != "7" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestNoStatusIsSkipped checks that a snapshot that is due does not replace statuses that wait.
func TestNoStatusIsSkipped(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	define(t, h, "B|M|CI", nil)
	venue := define(t, h, "*|M|*", nil)
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	subscribe(t, c.sub, wire.Status, "A|M|CI")
	c.read(1<<20, false)
	for _, p := range []market.Phase{market.Halt, market.Auction, market.Open} {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: p}, market.Event{Kind: market.KindStatus, Handle: venue, Phase: p})
	}
	turn(sh)
	c.sub.Resync([]Item{{Channel: wire.Status, ID: id("A|M|CI")}})
	subscribe(t, c.sub, wire.Status, "B|M|CI")
	received := map[string]int{}
	for _, m := range c.read(1<<20, false) {
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
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	c := newClient(t, h.NewShard(func(bool) {}))
	patterns := func(from int) (items []Item) {
		for i := range 40 {
			items = append(items, Item{Channel: wire.Trades, ID: market.InstrumentID{Symbol: string(rune('A' + from + i)), Market: "M", Term: "*"}})
		}
		return items
	}
	c.sub.Subscribe(patterns(0), Options{})
	if out := c.sub.Subscribe(patterns(20)[:10], Options{Replace: true}); len(out.Rejected) > 0 || c.sub.Len() != 10 {
		t.Errorf("%d in the set, rejected %v", c.sub.Len(), out.Rejected)
	}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("NOPE|M|CI")}}, Options{Replace: true})
	if c.sub.Len() != 10 {
		t.Errorf("a bad replacement left %d", c.sub.Len())
	}
	c.sub.Subscribe(nil, Options{Replace: true})
	if c.sub.Len() != 0 {
		t.Errorf("an empty replacement left %d", c.sub.Len())
	}
}

// TestBooksOfOneKind checks that a book does not mix levels and single orders, and that no side
// grows without bound.
func TestBooksOfOneKind(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	add := market.Event{Kind: market.KindOrderAdd, Handle: hd, OrderID: 1, Side: market.Buy, Price: 100 * market.Scale, Size: 5 * market.Scale}
	levels := market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(100, 0)}}
	publish(t, h, add)
	if err := h.Publish([]market.Event{levels}); err == nil {
		t.Error("levels were put into a book of orders")
	}
	publish(t, h, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{level(99, 1)}})
	if err := h.Publish([]market.Event{add}); err == nil {
		t.Error("an order was put into a book of levels")
	}
	big := market.Event{Kind: market.KindUpdate, Handle: hd}
	for i := range int64(book.MaxLevels - 2) {
		big.Bids = append(big.Bids, level(book.MaxLevels-i, 1))
	}
	publish(t, h, big)
	if err := h.Publish([]market.Event{big}); err == nil {
		t.Error("a side grew past its bound")
	}
	if _, err := h.AppendBook(nil, id("A|M|CI"), Tier{Depth: 5}); err == nil {
		t.Error("a book that could not be kept is not stale")
	}
}

// TestStateDoesNotHideWhatWaits checks that the waiting data of a slow socket is counted and
// released even if a snapshot is due.
func TestStateDoesNotHideWhatWaits(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	subscribe(t, c.sub, wire.OrderBook, "A|M|CI")
	for i := range 100 {
		publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(50, int64(1+i))}})
		turn(sh)
	}
	if c.sub.Lag().Bytes == 0 {
		t.Error("what waits behind a state that is due is not counted")
	}
	c.sub.Collapse()
	if got := c.sub.Lag().Bytes; got != 0 {
		t.Errorf("%d bytes wait after Collapse", got)
	}
}

// TestReplaceLosesNothing checks a replacement of a pattern by one of its instruments. Waiting
// messages of the instrument are sent, as if it were added first and the pattern removed
// afterwards.
func TestReplaceLosesNothing(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	c := newClient(t, sh)
	subscribe(t, c.sub, wire.Trades, "*|M|*")
	publish(t, h, trade(hd, 1))
	turn(sh)
	c.read(1<<20, false)
	publish(t, h, trade(hd, 2)) // the shard has not run a turn
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Replace: true})
	publish(t, h, trade(hd, 3))
	turn(sh)
	if c.read(1<<20, false); !slices.Equal(c.trades["A|M|CI"], []uint64{1, 2, 3}) || c.sub.Len() != 1 {
		t.Errorf("got %v with %d identifiers", c.trades, c.sub.Len())
	}
}

// TestBehindReplayCounts checks that live messages which wait behind a replay count as much as
// messages in the ring.
func TestBehindReplayCounts(t *testing.T) {
	h := New(Config{})
	hd := define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	_, pos := h.Position()
	for i := range 9000 {
		publish(t, h, trade(hd, i))
	}
	turn(sh)
	c := newClient(t, sh)
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: pos}})
	const live = 80_000
	for i := range live {
		publish(t, h, trade(hd, i))
		if i%10_000 == 0 {
			turn(sh)
			c.sub.Gather(nil, 100, wire.JSON, false)
			subscribe(t, c.sub, wire.Trades, "A|M|CI")
			c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}})
		}
	}
	turn(sh)
	if lag := c.sub.Lag(); lag.KeptBytes < maxBehindReplay || lag.Messages != live {
		t.Errorf("%+v", lag)
	}
}
