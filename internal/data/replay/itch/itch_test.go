package itch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// midnight is 2019-01-30 in New York.
const midnight = 1548824400 * 1_000_000_000

func run(data []byte, filter ...string) *replaytest.Decoded {
	return replaytest.Run(New(Config{Midnight: midnight, Filter: decode.NewFilter(filter)}), data, 0)
}

func describe(d *replaytest.Decoded) []string {
	var out []string
	for i := range d.Events {
		out = append(out, d.Describe(&d.Events[i], midnight))
	}
	return out
}

// day returns a file with every type of message.
func day(noLength bool) []byte {
	w := replaytest.ITCH{NoLength: noLength}
	w.System(1, 'O')
	w.Directory(2, 7, "AAPL")
	w.Directory(2, 8, "BRK A")
	w.Action(3, 7, "AAPL", 'T', "")
	w.Action(3, 8, "BRK A", 'T', "")
	for i, kind := range []byte("LVWYKJINO") {
		w.Other(4, uint16(i), kind, int(lengths[kind]))
	}
	w.System(5, 'S')
	w.Add(10, 7, 100, 'B', 300, "AAPL", 1_500_000, "")
	w.Add(11, 7, 101, 'S', 200, "AAPL", 1_500_100, "GSCO")
	w.System(12, 'Q')
	w.Cross(13, 7, 5_000_000_000, "AAPL", 1_499_999, 900, 'O')
	w.Cross(13, 8, 0, "BRK A", 0, 901, 'O')
	w.Execute(14, 7, 101, 50, 902)
	w.ExecuteAt(15, 7, 101, 50, 903, 'Y', 1_500_050)
	w.ExecuteAt(16, 7, 101, 50, 904, 'N', 1_500_050)
	w.Cancel(17, 7, 100, 100)
	w.Replace(18, 7, 100, 105, 150, 1_499_900)
	w.Delete(19, 7, 105)
	w.Cancel(20, 7, 101, 50)
	w.Trade(21, 8, 1, "BRK A", 3_200_000_000, 905)
	w.Action(22, 7, "AAPL", 'P', "LUDP")
	w.Action(23, 7, "AAPL", 'Q', "")
	w.Action(24, 7, "AAPL", 'H', "T1")
	w.Halt(25, 8, "BRK A", 'Q', 'H')
	w.Halt(25, 8, "BRK A", 'X', 'H')
	w.Halt(26, 8, "BRK A", 'Q', 'T')
	w.Broken(27, 7, 903)
	w.Broken(27, 7, 999)
	w.System(28, 'M')
	w.System(29, 'E')
	w.System(30, 'C')
	return w.Bytes
}

var dayEvents = []string{
	"AAPL status open +3",
	"BRK_A status open +3",
	"* status pre_open +5",
	"AAPL add 100 buy 300 at 150 +10",
	"AAPL add 101 sell 200 at 150.01 +11",
	"* status open +12",
	`AAPL trade "900" 5000000000 at 149.9999 [opening_cross] +13`,
	`AAPL trade "902" buy 50 at 150.01 +14`,
	"AAPL fill 101 50 +14",
	`AAPL trade "903" buy 50 at 150.005 +15`,
	"AAPL fill 101 50 +15",
	"AAPL fill 101 50 +16",
	"AAPL modify 100 200 at 150 +17",
	"AAPL replace 100 by 105 150 at 149.99 +18",
	"AAPL delete 105 +19",
	"AAPL delete 101 +20",
	`BRK_A trade "905" 1 at 320000 +21`,
	"AAPL status pause volatility_pause +22",
	"AAPL status quoting +23",
	"AAPL status halt news_pending +24",
	"BRK_A status halt operational_halt +25",
	"BRK_A status open +26",
	`AAPL cancel "903" 50 at 150.005 +27`,
	"* status post_close +28",
	"* status closed +29",
}

func TestDay(t *testing.T) {
	for _, noLength := range []bool{false, true} {
		data := day(noLength)
		if !Sniff(data, true) || !Sniff(data[:50], false) || Sniff(data[1:], true) {
			t.Error("not recognized by its content")
		}
		got := run(data)
		if got.Err != nil || got.Offset != len(data) {
			t.Fatalf("ended at %d of %d: %v", got.Offset, len(data), got.Err)
		}
		if list := describe(got); !slices.Equal(list, dayEvents) {
			t.Errorf("played\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(dayEvents, "\n"))
		}
		want := decode.Stats{Lines: 39, Trades: 5, Orders: 9, Statuses: 11, Used: 25, Skipped: decode.Skipped{decode.OtherType: 10, decode.NoEffect: 3, decode.UnknownTrade: 1}}
		if got.Stats != want {
			t.Errorf("counted %+v\n    want %+v", got.Stats, want)
		}
		if err := got.Check(); err != nil {
			t.Error(err)
		}
		in := market.Instrument{
			ID:   market.InstrumentID{Symbol: "AAPL", Market: "NASDAQ", Term: "24hs"},
			Name: "AAPL", Kind: "equity", Currency: "USD", SettlementDays: 1, PriceDecimals: 4,
			StartsEmpty: true, VirtualClock: true, Phase: market.Unknown,
		}
		if len(got.Listed) != 3 || fmt.Sprint(got.Listed[0]) != fmt.Sprint(in) || got.Listed[2].ID.String() != "*|NASDAQ|*" {
			t.Errorf("listed %+v", got.Listed)
		}
		if len(got.Notes) != 1 || got.Notes[0].Reason != "unknown_trade" {
			t.Errorf("noted %+v", got.Notes)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, name := range []string{"BRK_A", "BRK_A|NASDAQ|24hs"} {
		got := run(day(false), name)
		if got.Err != nil || len(got.Listed) != 2 || got.Listed[0].ID.Symbol != "BRK_A" {
			t.Errorf("listed %v: %v", got.Listed, got.Err)
		}
		if got.Stats.Skipped[decode.Filtered] != 16 || got.Stats.Trades != 1 {
			t.Errorf("counted %+v", got.Stats)
		}
	}
}

// TestPiece checks that part of a day plays the trades of known orders and no books.
func TestPiece(t *testing.T) {
	var w replaytest.ITCH
	w.Execute(13, 7, 99, 10, 901) // unknown order
	w.Add(14, 7, 101, 'S', 200, "AAPL", 1_500_100, "")
	w.Execute(15, 7, 101, 50, 902)
	w.Cancel(15, 7, 101, 50)
	w.Replace(15, 7, 101, 102, 50, 1_500_200)
	w.Execute(16, 7, 102, 20, 903)
	w.Delete(17, 7, 102)
	w.Delete(18, 7, 55)
	w.Cross(19, 8, 10, "MSFT", 1_000_000, 904, 'C')
	w.Action(20, 9, "IBM", 'H', "")
	got := run(w.Bytes)
	want := []string{
		`AAPL trade "902" buy 50 at 150.01 +15`,
		`AAPL trade "903" buy 20 at 150.02 +16`,
		`MSFT trade "904" 10 at 100 [closing_cross] +19`,
		"IBM status halt +20",
	}
	if list := describe(got); !slices.Equal(list, want) || got.Err != nil {
		t.Errorf("played\n%s\n%v", strings.Join(list, "\n"), got.Err)
	}
	if in := got.Listed[0]; in.StartsEmpty || in.Phase != market.Unknown {
		t.Errorf("listed %+v", in)
	}
	if len(got.Notes) != 1 || got.Notes[0].Reason != "unknown_order" {
		t.Errorf("noted %+v", got.Notes)
	}
}

// broken returns a file with the beginning of a day, followed by what bad writes.
func broken(bad func(w *replaytest.ITCH)) (good int, data []byte) {
	var w replaytest.ITCH
	w.System(1, 'O')
	w.Directory(2, 7, "AAPL")
	w.Add(10, 7, 100, 'B', 300, "AAPL", 1_500_000, "")
	good = len(w.Bytes)
	bad(&w)
	return good, w.Bytes
}

// TestFaults checks that what comes before an error is played and that the error has its position.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		bad  func(w *replaytest.ITCH)
		want string
	}{
		{"time goes back", func(w *replaytest.ITCH) { w.Delete(9, 7, 100) }, "the time goes back by 1 ns"},
		{"time past the day", func(w *replaytest.ITCH) { w.Delete(fullDay, 7, 100) }, "past the end of the day"},
		{"order twice", func(w *replaytest.ITCH) { w.Add(11, 7, 100, 'B', 1, "AAPL", 1, "") }, "order 100 of AAPL exists already"},
		{"order of no side", func(w *replaytest.ITCH) { w.Add(11, 7, 101, 'X', 1, "AAPL", 1, "") }, `order 101: side 'X'`},
		{"order of no shares", func(w *replaytest.ITCH) { w.Add(11, 7, 101, 'B', 0, "AAPL", 1, "") }, "order 101: no shares"},
		{"unknown order", func(w *replaytest.ITCH) { w.Delete(11, 7, 101) }, "order 101 of AAPL does not exist"},
		{"order of another stock", func(w *replaytest.ITCH) { w.Directory(11, 8, "IBM"); w.Delete(11, 8, 100) }, "order 100 of IBM does not exist"},
		{"fill too large", func(w *replaytest.ITCH) { w.Execute(11, 7, 100, 301, 1) }, "order 100 of AAPL has 300 shares left, not 301"},
		{"cancel too large", func(w *replaytest.ITCH) { w.Cancel(11, 7, 100, 301) }, "has 300 shares left"},
		{"fill of nothing", func(w *replaytest.ITCH) { w.Execute(11, 7, 100, 0, 1) }, "no shares"},
		{"replaced by one that is there", func(w *replaytest.ITCH) {
			w.Add(11, 7, 101, 'S', 1, "AAPL", 1, "")
			w.Replace(11, 7, 100, 101, 1, 1)
		}, "order 100 of AAPL cannot be replaced by 101"},
		{"unknown stock", func(w *replaytest.ITCH) { w.Add(11, 9, 101, 'B', 1, "IBM", 1, "") }, "locate code 9, which is not assigned"},
		{"another stock", func(w *replaytest.ITCH) { w.Directory(11, 7, "IBM") }, "locate code 7 is of AAPL and of IBM"},
		{"stock without a name", func(w *replaytest.ITCH) { w.Directory(11, 8, "") }, "a stock without a symbol"},
		{"trade of nothing", func(w *replaytest.ITCH) { w.Trade(11, 7, 0, "AAPL", 1, 1) }, "a trade of no shares"},
		{"cross too large", func(w *replaytest.ITCH) { w.Cross(11, 7, 1<<63, "AAPL", 1, 1, 'O') }, "a cross of"},
		{"unknown type", func(w *replaytest.ITCH) { w.NoLength = true; w.Other(11, 7, 'z', 20) }, "unknown type 'z'"},
		{"wrong length", func(w *replaytest.ITCH) { w.Delete(11, 7, 100); w.Bytes[len(w.Bytes)-20]++ }, "has length 20 instead of 19"},
		{"cut off", func(w *replaytest.ITCH) { w.Delete(11, 7, 100); w.Bytes = w.Bytes[:len(w.Bytes)-1] }, "ends within a message"},
		{"cut off in a length", func(w *replaytest.ITCH) { w.Bytes = append(w.Bytes, 0) }, "ends within a message"},
		{"the file twice", func(w *replaytest.ITCH) { w.Bytes = append(w.Bytes, w.Bytes...) }, "the time goes back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good, data := broken(tt.bad)
			got := run(data)
			if got.Err == nil || !strings.Contains(got.Err.Error(), tt.want) {
				t.Errorf("error %v, want %q", got.Err, tt.want)
			}
			if got.Offset < good || got.Offset == len(data) && tt.want != "" {
				t.Errorf("fault at %d, want one from %d on", got.Offset, good)
			}
			if len(got.Events) < 1 || got.Describe(&got.Events[0], midnight) != "AAPL add 100 buy 300 at 150 +10" {
				t.Errorf("played %v", describe(got))
			}
		})
	}
}

// TestTolerated checks that an end mark and messages of future types are no errors.
func TestTolerated(t *testing.T) {
	good, data := broken(func(w *replaytest.ITCH) {
		w.Other(11, 7, 'z', 20)
		w.Bytes = append(w.Bytes, 0, 0)
	})
	got := run(data)
	if got.Err != nil || got.Stats.Used != 2 || got.Stats.Lines != 4 || got.Offset != good+22 {
		t.Errorf("%+v", got)
	}
}

// flow returns a file of a random flow of orders, and the flow after it.
func flow(seed uint64, instruments, n int) ([]byte, *replaytest.Flow, []market.Event) {
	const open = 9 * 3600 * 1_000_000_000
	f := replaytest.NewFlow(seed, instruments, midnight+open)
	w := replaytest.ITCH{NoLength: seed%2 == 0}
	w.System(1, 'O')
	for i := range instruments {
		w.Directory(2, uint16(i+1), replaytest.Symbol(i))
	}
	var events []market.Event
	for range n {
		e := f.Next()
		w.Order(&e, midnight)
		events = append(events, e)
	}
	return w.Bytes, f, events
}

// TestRoundTrip checks that a file plays the books and trades of its flow, whatever the sizes of
// pieces.
func TestRoundTrip(t *testing.T) {
	data, f, events := flow(3, 5, 20_000)
	for _, piece := range []int{0, 1 << 16, 997} {
		got := replaytest.Run(New(Config{Midnight: midnight}), data, piece)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if err := got.Check(); err != nil {
			t.Fatal(err)
		}
		books := make([]market.OrderBook, len(got.Listed))
		i := 0
		for k := range got.Events {
			e := &got.Events[k]
			want := &events[i]
			if e.Handle != want.Handle || e.Time != want.Time {
				t.Fatalf("event %d is %+v, want %+v", k, e, want)
			}
			if e.Kind == market.KindTrade {
				if e.TradeID != want.TradeID || e.Price != want.Price || e.Size != want.Size || e.Side != want.Side {
					t.Fatalf("trade %+v, want %+v", e, want)
				}
				continue // its fill follows
			}
			if e.Kind != want.Kind || e.OrderID != want.OrderID {
				t.Fatalf("event %d is %+v, want %+v", k, e, want)
			}
			if err := replaytest.Apply(&books[e.Handle], e); err != nil {
				t.Fatal(err)
			}
			i++
		}
		if i != len(events) {
			t.Errorf("%d events, want %d", i, len(events))
		}
		for h := range books {
			if err := replaytest.Equal(books[h].Book(), f.Book(h), 0); err != nil {
				t.Errorf("%s: %v", replaytest.Symbol(h), err)
			}
		}
	}
}

// TestTradeRing checks that the ring keeps only the latest trades.
func TestTradeRing(t *testing.T) {
	var r tradeRing
	for i := range uint64(maxTrades + 10) {
		r.add(tradeRecord{match: i})
	}
	if len(r.list) != maxTrades {
		t.Errorf("%d trades kept", len(r.list))
	}
	for match, want := range map[uint64]bool{9: false, 10: true, maxTrades + 9: true, maxTrades + 10: false} {
		if _, ok := r.find(match); ok != want {
			t.Errorf("trade %d found: %v", match, ok)
		}
	}
}

// FuzzITCH checks that any file is played up to an error and that its events keep the contract,
// whatever the sizes of pieces.
func FuzzITCH(f *testing.F) {
	f.Add(day(false), 7)
	f.Add(day(true), 64)
	data, _, _ := flow(1, 2, 100)
	f.Add(data, 1000)
	_, bad := broken(func(w *replaytest.ITCH) { w.Execute(11, 7, 100, 301, 1) })
	f.Add(bad, 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		Sniff(data, true)
		all := run(data)
		if err := all.Check(); err != nil {
			t.Fatal(err)
		}
		parts := replaytest.Run(New(Config{Midnight: midnight}), data, max(1, piece%5000))
		if all.Offset != parts.Offset || fmt.Sprint(all.Err) != fmt.Sprint(parts.Err) || all.Stats != parts.Stats || len(all.Events) != len(parts.Events) {
			t.Fatalf("in one piece %+v\nin several %+v", all, parts)
		}
	})
}

// BenchmarkITCH decodes a flow of a hundred stocks.
func BenchmarkITCH(b *testing.B) {
	data, _, _ := flow(5, 100, 1_000_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		d := New(Config{Midnight: midnight})
		var batch decode.Batch
		for rest := data; len(rest) > 0; {
			n, err := d.Decode(rest, &batch)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
			batch.Reset()
		}
		records = batch.Stats.Lines
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

func TestMutants(t *testing.T) {
	data, _, _ := flow(11, 3, 60)
	for i, data := range [][]byte{data, day(false), day(true)} {
		if err := replaytest.Mutants(uint64(i), 500, data, func() replaytest.Decoder { return New(Config{Midnight: midnight}) }); err != nil {
			t.Error(err)
		}
	}
}

// TestAllocations checks that records cost no allocation in the steady state, apart from the tables
// and the blocks of texts.
func TestAllocations(t *testing.T) {
	data, _, _ := flow(15, 10, 100_000)
	records := 0
	allocs := testing.AllocsPerRun(1, func() {
		d := New(Config{Midnight: midnight})
		var batch decode.Batch
		for rest := data; len(rest) > 0; {
			n, err := d.Decode(rest, &batch)
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			rest = rest[n:]
			batch.Reset()
		}
		records = batch.Stats.Lines
	})
	if each := allocs / float64(records); each > 0.01 {
		t.Errorf("%g allocations for %d records: %g each", allocs, records, each)
	}
}
