package dbn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// begin is 2024-01-02 14:30 UTC.
const begin = 1704205800 * 1_000_000_000

type (
	rec  = replaytest.Record
	pair = replaytest.Pair
)

var apple = replaytest.Mapping{Symbol: "AAPL", Number: "32", From: 20240101, To: 20240201}

// nine converts cents to units of 1e-9.
func nine(cents int64) int64 { return cents * 10_000_000 }

func run(data []byte, filter ...string) *replaytest.Decoded {
	return replaytest.Run(New(Config{Filter: decode.NewFilter(filter)}), data, 0)
}

func describe(d *replaytest.Decoded) []string {
	var out []string
	for i := range d.Events {
		out = append(out, d.Describe(&d.Events[i], begin))
	}
	return out
}

func expect(t *testing.T, got *replaytest.Decoded, want ...string) {
	t.Helper()
	if list := describe(got); !slices.Equal(list, want) {
		t.Errorf("played\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	if got.Err != nil {
		t.Error(got.Err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
}

// at returns a record some nanoseconds after begin.
func at(ns int64, r rec) *rec {
	r.Time, r.Receive, r.Instrument = begin+ns, begin+ns+700, 32
	return &r
}

// orders returns a file of MBO with every action.
func orders(version byte, sent bool) []byte {
	w := replaytest.DBN{Version: version, SendTime: sent}
	w.Header("XNAS.ITCH", replaytest.SchemaMBO, apple)
	const last = replaytest.Last
	w.MBO(at(1, rec{Action: 'A', Side: 'B', OrderID: 9, Price: nine(100), Size: 1, Flags: last})) // of a book that is not known
	w.MBO(at(2, rec{Action: 'R', Side: 'N', Price: replaytest.Undefined, Flags: replaytest.Snapshot}))
	w.MBO(at(1, rec{Action: 'A', Side: 'B', OrderID: 1, Price: nine(15000), Size: 300, Flags: replaytest.Snapshot, Sequence: 5}))
	w.MBO(at(2, rec{Action: 'A', Side: 'A', OrderID: 2, Price: nine(15001), Size: 200, Flags: replaytest.Snapshot | last, Sequence: 6}))
	w.MBO(at(10, rec{Action: 'T', Side: 'B', OrderID: 77, Price: nine(15001), Size: 50}))
	w.MBO(at(10, rec{Action: 'F', Side: 'A', OrderID: 2, Price: nine(15001), Size: 50}))
	w.MBO(at(10, rec{Action: 'C', Side: 'A', OrderID: 2, Price: nine(15001), Size: 50, Flags: last}))
	w.MBO(at(11, rec{Action: 'M', Side: 'B', OrderID: 1, Price: nine(14999), Size: 250, Flags: last}))
	w.MBO(at(12, rec{Action: 'M', Side: 'A', OrderID: 3, Price: nine(15003), Size: 10, Flags: last})) // not there: as an add
	w.MBO(at(13, rec{Action: 'M', Side: 'B', OrderID: 3, Price: nine(14998), Size: 10, Flags: last})) // other side
	w.MBO(at(14, rec{Action: 'C', Side: 'B', OrderID: 1, Size: 250, Flags: last}))
	w.MBO(at(15, rec{Action: 'N', Side: 'N', Flags: last}))
	w.MBO(at(16, rec{Action: 'A', Side: 'N', OrderID: 4, Price: nine(1), Size: 1, Flags: last})) // of no side
	w.MBO(at(17, rec{Action: 'T', Side: 'N', Price: nine(15002), Size: 7, Flags: last}))
	w.MBO(at(18, rec{Action: 'T', Side: 'A', Price: nine(15002), Size: 0, Flags: last}))
	w.MBO(at(19, rec{Action: 'A', Side: 'A', OrderID: 5, Price: nine(15002), Size: 1, Flags: last | replaytest.Top}))
	w.MBO(at(20, rec{Action: 'M', Side: 'B', OrderID: 3, Price: nine(14998), Size: 0, Flags: last}))
	return w.Bytes
}

func TestOrders(t *testing.T) {
	for _, version := range []byte{1, 2, 3} {
		for _, sent := range []bool{false, true} {
			data := orders(version, sent)
			got := run(data)
			expect(t, got,
				"AAPL snapshot [300@150/1] [200@150.01/1] +2",
				`AAPL trade "" buy 50 at 150.01 +10`,
				"AAPL update [] [150@150.01/1] +10",
				"AAPL update [0@150 250@149.99/1] [] +11",
				"AAPL update [] [10@150.03/1] +12",
				"AAPL update [10@149.98/1] [0@150.03] +13",
				"AAPL update [0@149.99] [] +14",
				`AAPL trade "" 7 at 150.02 +17`,
				"AAPL update [0@149.98] [] +20",
			)
			if want := []int{1, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got.Groups, want) {
				t.Errorf("events are seen at %v, want %v", got.Groups, want)
			}
			single := replaytest.Run(New(Config{Orders: true}), data, 0)
			expect(t, single,
				"AAPL snapshot [] [] +2",
				"AAPL add 1 buy 300 at 150 +1",
				"AAPL add 2 sell 200 at 150.01 +2",
				`AAPL trade "" buy 50 at 150.01 +10`,
				"AAPL modify 2 150 at 150.01 +10",
				"AAPL modify 1 250 at 149.99 +11",
				"AAPL add 3 sell 10 at 150.03 +12",
				"AAPL delete 3 +13",
				"AAPL add 3 buy 10 at 149.98 +13",
				"AAPL delete 1 +14",
				`AAPL trade "" 7 at 150.02 +17`,
				"AAPL delete 3 +20",
			)
			if single.Stats != got.Stats {
				t.Errorf("order by order: counted %+v", single.Stats)
			}
			want := decode.Stats{Lines: 17, Trades: 2, Orders: 9, Snapshots: 1, Used: 11, Skipped: decode.Skipped{decode.OtherType: 1, decode.UnknownBook: 1, decode.NoEffect: 3, decode.HiddenOrder: 1}}
			if got.Stats != want {
				t.Errorf("counted %+v\n    want %+v", got.Stats, want)
			}
			if e := got.Events[0]; e.Receive != begin+702 || e.Sequence != 6 {
				t.Errorf("%+v", e)
			}
			if in := got.Listed[0]; in.ID.String() != "AAPL|XNAS|24hs" || in.QuotesFromFeed || in.NoBook || in.StartsEmpty || !in.VirtualClock || in.PriceDecimals != 4 {
				t.Errorf("listed %+v", in)
			}
		}
	}
}

func file(schema uint16, write func(w *replaytest.DBN)) []byte {
	w := replaytest.DBN{Version: 3}
	w.Header("XNAS.ITCH", schema, apple)
	write(&w)
	return w.Bytes
}

// known writes a clear and one order of 300 at 150.
func known(w *replaytest.DBN) {
	w.MBO(at(1, rec{Action: 'R', Side: 'N', Flags: replaytest.Last}))
	w.MBO(at(2, rec{Action: 'A', Side: 'B', OrderID: 1, Price: nine(15000), Size: 300, Flags: replaytest.Last}))
}

// TestLostBooks checks that a book that cannot be followed is stale until the next clear.
func TestLostBooks(t *testing.T) {
	for _, tt := range []struct {
		reason string
		r      rec
	}{
		{"unknown_order", rec{Action: 'C', OrderID: 2, Size: 1}},
		{"unknown_order", rec{Action: 'C', OrderID: 1, Size: 301}},
		{"duplicate_order", rec{Action: 'A', Side: 'B', OrderID: 1, Price: nine(1), Size: 1}},
		{"inexact_price", rec{Action: 'A', Side: 'B', OrderID: 2, Price: 1_000_000_001, Size: 1}},
		{"inexact_price", rec{Action: 'M', Side: 'B', OrderID: 1, Price: -1_000_000_001, Size: 1}},
		{"undefined_price", rec{Action: 'A', Side: 'B', OrderID: 2, Price: replaytest.Undefined, Size: 1}},
		{"upstream_gap", rec{Action: 'N', Side: 'N', Flags: replaytest.BadBook}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got := run(file(replaytest.SchemaMBO, func(w *replaytest.DBN) {
				known(w)
				w.MBO(at(5, tt.r))
				w.MBO(at(6, rec{Action: 'C', OrderID: 1, Size: 300, Flags: replaytest.Last})) // of a lost book
				w.MBO(at(7, rec{Action: 'T', Side: 'B', Price: nine(15000), Size: 1, Flags: replaytest.Last}))
				known(w)
			}))
			expect(t, got,
				"AAPL snapshot [] [] +1",
				"AAPL update [300@150/1] [] +2",
				"AAPL gap  "+tt.reason+" +5",
				`AAPL trade "" buy 1 at 150 +7`,
				"AAPL snapshot [] [] +1",
				"AAPL update [300@150/1] [] +2",
			)
			if got.Stats.Gaps != 1 || len(got.Notes) != 1 || got.Notes[0].Reason != tt.reason {
				t.Errorf("noted %+v, counted %+v", got.Notes, got.Stats)
			}
			if inexact := tt.reason == "inexact_price"; inexact != (got.Stats.Skipped[decode.Inexact] == 1) {
				t.Errorf("counted %+v", got.Stats)
			}
		})
	}
}

// TestSnapshots checks that a snapshot begins a book, with and without a clear record, and that it
// replaces a known and a stale one.
func TestSnapshots(t *testing.T) {
	for _, clear := range []bool{false, true} {
		got := run(file(replaytest.SchemaMBO, func(w *replaytest.DBN) {
			snapshot := func(time int64, id uint64) {
				if clear {
					w.MBO(at(time, rec{Action: 'R', Side: 'N', Flags: replaytest.Snapshot}))
				}
				w.MBO(at(time, rec{Action: 'A', Side: 'B', OrderID: id, Price: nine(15000), Size: 300, Flags: replaytest.Snapshot}))
				w.MBO(at(time, rec{Action: 'A', Side: 'A', OrderID: id + 1, Price: nine(15001), Size: 200, Flags: replaytest.Snapshot | replaytest.Last}))
			}
			snapshot(1, 1)
			w.MBO(at(2, rec{Action: 'C', OrderID: 1, Size: 300, Flags: replaytest.Last}))
			snapshot(3, 3)
			w.MBO(at(4, rec{Action: 'C', OrderID: 1, Size: 300, Flags: replaytest.Last}))
			snapshot(5, 5)
		}))
		expect(t, got,
			"AAPL snapshot [300@150/1] [200@150.01/1] +1",
			"AAPL update [0@150] [] +2",
			"AAPL snapshot [300@150/1] [200@150.01/1] +3",
			"AAPL gap  unknown_order +4",
			"AAPL snapshot [300@150/1] [200@150.01/1] +5",
		)
		if want := []int{1, 2, 3, 4, 5}; !slices.Equal(got.Groups, want) {
			t.Errorf("events are seen at %v, want %v", got.Groups, want)
		}
		if got.Stats.Skipped.Lost() != 0 || got.Stats.Snapshots != 3 {
			t.Errorf("counted %+v", got.Stats)
		}
	}
}

func TestQuotes(t *testing.T) {
	const last = replaytest.Last
	write := func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'A', Side: 'B', Flags: last}), 1, pair{Bid: nine(100), BidSize: 5, BidCount: 2, Ask: replaytest.Undefined})
		w.Levels(at(2, rec{Action: 'A', Side: 'A', Flags: last}), 1, pair{Bid: nine(100), BidSize: 5, BidCount: 2, Ask: nine(101), AskSize: 7, AskCount: 1})
		w.Levels(at(3, rec{Action: 'C', Side: 'A', Flags: last}), 1, pair{Bid: nine(100), BidSize: 5, BidCount: 2, Ask: nine(101), AskSize: 7, AskCount: 1}) // no change
		w.Levels(at(4, rec{Action: 'T', Side: 'B', Price: nine(101), Size: 3}), 1, pair{Bid: nine(100), BidSize: 5, BidCount: 2, Ask: nine(101), AskSize: 4, AskCount: 1})
		w.Levels(at(5, rec{Action: 'A', Side: 'B', Flags: last}), 1, pair{Bid: nine(100) + 1, BidSize: 5, Ask: nine(101), AskSize: 4})
		w.Levels(at(6, rec{Action: 'R', Side: 'N', Flags: last}), 1)
	}
	quotes := []string{
		"AAPL quote [5@1/2] [] +1",
		"AAPL quote [5@1/2] [7@1.01/1] +2",
		`AAPL trade "" buy 3 at 1.01 +4`,
		"AAPL quote [5@1/2] [4@1.01/1] +4",
		"AAPL quote [] [] +6",
	}
	got := run(file(replaytest.SchemaMBP1, write))
	expect(t, got, quotes...)
	if in := got.Listed[0]; !in.QuotesFromFeed || !in.NoBook {
		t.Errorf("listed %+v", in)
	}
	if got.Stats.Skipped[decode.Inexact] != 1 || got.Stats.Quotes != 4 {
		t.Errorf("counted %+v", got.Stats)
	}
	// The quote of TBBO precedes its trade.
	quotes[2], quotes[3] = quotes[3], quotes[2]
	expect(t, run(file(replaytest.SchemaTBBO, write)), quotes...)
}

func TestTrades(t *testing.T) {
	got := run(file(replaytest.SchemaTrades, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'T', Side: 'A', Price: nine(-5), Size: 3, Sequence: 4_000_000_000}), 0)
		w.Levels(at(2, rec{Action: 'T', Side: 'A', Price: replaytest.Undefined, Size: 3}), 0)
		w.Levels(at(3, rec{Action: 'T', Side: 'A', Price: 12_345_678_901, Size: 3}), 0)
		w.Levels(at(4, rec{Action: 'T', Side: 'N', Price: 12_345_678_910, Size: 4_294_967_295}), 0)
		w.Status(at(5, rec{}), 8, 30)
		w.Status(at(6, rec{}), 7, 0)
		w.Status(at(7, rec{}), 14, 0)
		w.Other(at(8, rec{}), 0x18, 64) // statistics
		w.Levels(at(9, rec{Action: 'A', Side: 'B'}), 1, pair{Bid: 1, Ask: 2})
	}))
	expect(t, got,
		`AAPL trade "" sell 3 at -0.05 +1`,
		`AAPL trade "" 4294967295 at 12.34567891 +4`,
		"AAPL status halt news_pending +5",
		"AAPL status open +6",
	)
	if got.Events[0].Sequence != 4_000_000_000 || got.Events[0].Receive != begin+701 {
		t.Errorf("%+v", got.Events[0])
	}
	want := decode.Stats{Lines: 9, Trades: 2, Statuses: 2, Used: 4, Skipped: decode.Skipped{decode.OtherType: 1, decode.Repeated: 1, decode.Inexact: 1, decode.NoEffect: 2}}
	if got.Stats != want || len(got.Notes) != 2 || !strings.Contains(got.Notes[0].Detail, "12345678901 times 1e-9") || !strings.HasSuffix(got.Notes[1].Detail, "not: 1 of mbp-1") {
		t.Errorf("counted %+v, noted %+v", got.Stats, got.Notes)
	}
}

func TestLevels(t *testing.T) {
	const last = replaytest.Last
	l := func(bid, bids, ask, asks int64) pair {
		p := pair{Bid: nine(bid), BidSize: uint32(bids), BidCount: 1, Ask: nine(ask), AskSize: uint32(asks), AskCount: 1}
		if bids == 0 {
			p.Bid = replaytest.Undefined
		}
		if asks == 0 {
			p.Ask = replaytest.Undefined
		}
		return p
	}
	got := run(file(replaytest.SchemaMBP10, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'A', Flags: last}), 10, l(100, 5, 101, 7), l(99, 4, 0, 0))
		w.Levels(at(2, rec{Action: 'A', Flags: last}), 10, l(100, 6, 101, 7), l(99, 4, 0, 0))
		w.Levels(at(3, rec{Action: 'T', Side: 'A', Price: nine(100), Size: 6}), 10, l(100, 6, 101, 7), l(99, 4, 0, 0))
		w.Levels(at(3, rec{Action: 'C', Flags: last}), 10, l(99, 4, 101, 7))
		w.Levels(at(4, rec{Action: 'A', Flags: last}), 10, l(99, 4, 101, 7), l(98, 1, 103, 2))
		w.Levels(at(5, rec{Action: 'A', Flags: last}), 10, l(99, 4, 101, 7), l(98, 1, 102, 1), l(0, 0, 103, 2))
		w.Levels(at(6, rec{Action: 'A', Flags: last}), 10, pair{Bid: nine(99) + 3, BidSize: 1, Ask: replaytest.Undefined})
		w.Levels(at(7, rec{Action: 'A', Flags: last}), 10, l(99, 4, 101, 7))
		w.Levels(at(8, rec{Action: 'A', Flags: last}), 10, l(99, 4, 101, 7), l(99, 4, 102, 7))
		w.Levels(at(9, rec{Action: 'A', Flags: last}), 10, l(99, 4, 101, 7))
		w.Levels(at(10, rec{Action: 'N', Flags: last | replaytest.BadBook}), 10, l(99, 4, 101, 7))
		w.Levels(at(11, rec{Action: 'R', Flags: last}), 10)
	}))
	expect(t, got,
		"AAPL snapshot [5@1/1 4@0.99/1] [7@1.01/1] +1",
		"AAPL update [6@1/1] [] +2",
		`AAPL trade "" sell 6 at 1 +3`,
		"AAPL update [0@1] [] +3",
		"AAPL update [1@0.98/1] [2@1.03/1] +4",
		"AAPL update [] [1@1.02/1] +5",
		"AAPL gap  inexact_price +6",
		"AAPL snapshot [4@0.99/1] [7@1.01/1] +7",
		"AAPL gap  unordered_levels +8",
		"AAPL snapshot [4@0.99/1] [7@1.01/1] +9",
		"AAPL gap  upstream_gap +10",
		"AAPL snapshot [] [] +11",
	)
	if in := got.Listed[0]; in.QuotesFromFeed || in.NoBook || in.StartsEmpty {
		t.Errorf("listed %+v", in)
	}
}

// TestRoundTrip checks that a file, with orders or with levels, plays the books of its flow.
func TestRoundTrip(t *testing.T) {
	const n = 10_000
	for _, piece := range []int{0, 1 << 16, 991} {
		f := replaytest.NewFlow(4, 5, begin)
		byOrder, byLevel := flowHeader(5, replaytest.SchemaMBO), flowHeader(5, replaytest.SchemaMBP10)
		for i := range 5 {
			byOrder.MBO(&rec{Time: begin, Receive: begin, Instrument: uint32(100 + i), Action: 'R', Side: 'N', Flags: replaytest.Last})
		}
		trades := 0
		for i := range n {
			e := f.Next()
			if e.Kind == market.KindOrderFill {
				trades++
			}
			byOrder.Order(&e, uint32(i))
			byLevel.Levels(&rec{Time: e.Time, Receive: e.Time, Instrument: uint32(100 + e.Handle), Action: 'A', Flags: replaytest.Last}, 10, replaytest.Pairs(f.Book(int(e.Handle)))...)
		}
		orders := replaytest.Run(New(Config{}), byOrder.Bytes, piece)
		levels := replaytest.Run(New(Config{}), byLevel.Bytes, piece)
		for _, got := range []*replaytest.Decoded{orders, levels} {
			if got.Err != nil || got.Check() != nil || got.Stats.Gaps != 0 {
				t.Fatalf("%v, %v, %+v", got.Err, got.Check(), got.Stats)
			}
		}
		if orders.Stats.Trades != trades {
			t.Errorf("%d trades, want %d", orders.Stats.Trades, trades)
		}
		compare(t, orders, f, 0)
		compare(t, levels, f, 10)
	}
}

func flowHeader(instruments int, schema uint16) *replaytest.DBN {
	w := &replaytest.DBN{Version: 2}
	var m []replaytest.Mapping
	for i := range instruments {
		m = append(m, replaytest.Mapping{Symbol: replaytest.Symbol(i), Number: fmt.Sprint(100 + i), From: 20240101, To: 20240103})
	}
	w.Header("XNAS.ITCH", schema, m...)
	return w
}

// compare applies events to books and compares them with the flow's.
func compare(t *testing.T, got *replaytest.Decoded, f *replaytest.Flow, depth int) {
	t.Helper()
	books := make([]market.Book, len(got.Listed))
	for i := range got.Events {
		e := &got.Events[i]
		if e.Kind == market.KindSnapshot {
			books[e.Handle].Reset()
		}
		for side, list := range map[market.Side][]market.Level{market.Buy: e.Bids, market.Sell: e.Asks} {
			for _, l := range list {
				if _, changed := books[e.Handle].Set(side, l); !changed {
					t.Fatalf("event %d: %v changes nothing", i, l)
				}
			}
		}
	}
	for h := range got.Listed {
		var i int
		if _, err := fmt.Sscanf(got.Listed[h].ID.Symbol, "SYM%d", &i); err != nil {
			t.Fatal(err)
		}
		if err := replaytest.Equal(&books[h], f.Book(i), depth); err != nil {
			t.Errorf("%s: %v", got.Listed[h].ID, err)
		}
	}
}
