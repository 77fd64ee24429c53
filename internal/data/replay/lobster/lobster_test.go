package lobster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// midnight is 2012-06-21 in New York.
const midnight = 1340251200 * 1_000_000_000

// pair feeds a decoder a message file with an order book file.
type pair struct {
	*Decoder
	books []byte
}

func (p *pair) Decode(data []byte, b *decode.Batch) (int, error) {
	n, m, err := p.Pair(data, p.books, b)
	p.books = p.books[m:]
	return n, err
}

func run(w *replaytest.LOBSTER, whole bool, piece int) *replaytest.Decoded {
	d := New(Config{Symbol: "AAPL", Midnight: midnight, Books: w.Books != nil, Complete: whole})
	if w.Books == nil {
		return replaytest.Run(d, w.Messages, piece)
	}
	return replaytest.Run(&pair{d, w.Books}, w.Messages, piece)
}

func expect(t *testing.T, got *replaytest.Decoded, want ...string) {
	t.Helper()
	var list []string
	for i := range got.Events {
		list = append(list, got.Describe(&got.Events[i], midnight))
	}
	if !slices.Equal(list, want) {
		t.Errorf("played\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	if got.Err != nil {
		t.Error(got.Err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
}

const messages = `34200.000000001,1,16113575,18,5853300,1
34200.000000002,1,16113584,18,5853400,-1
34200.0000000030,4,16113584,8,5853400,-1
34201,2,16113575,10,5853300,1
34202.5,3,16113584,10,5853400,-1,null
34203.5,5,0,100,5853350,1
34203.5,5,0,0,5853350,1
34204.25,7,0,0,-1,-1
34205.25,7,0,0,0,-1
34206.25,7,0,0,1,-1
34207,6,-1,5000,5853000,-1
34208,4,16113575,8,5853300,1`

const open = 34_200_000_000_000

func TestOrders(t *testing.T) {
	text := strings.ReplaceAll(messages, "0000000030", "000000003")
	for _, end := range []string{"", "\n", "\r\n"} {
		w := &replaytest.LOBSTER{Messages: []byte(strings.ReplaceAll(text, "\n", "\r\n")[:len(text)+11] + end)}
		if !Sniff(w.Messages, true) || !Sniff(w.Messages[:100], false) {
			t.Error("not recognized by its content")
		}
		got := run(w, true, 0)
		expect(t, got,
			fmt.Sprintf("AAPL add 16113575 buy 18 at 585.33 +%d", open+1),
			fmt.Sprintf("AAPL add 16113584 sell 18 at 585.34 +%d", open+2),
			fmt.Sprintf(`AAPL trade "" buy 8 at 585.34 +%d`, open+3),
			fmt.Sprintf("AAPL fill 16113584 8 +%d", open+3),
			"AAPL modify 16113575 8 at 585.33 +34201000000000",
			"AAPL delete 16113584 +34202500000000",
			`AAPL trade "" sell 100 at 585.335 +34203500000000`,
			"AAPL status halt trading_halt +34204250000000",
			"AAPL status quoting +34205250000000",
			"AAPL status open +34206250000000",
			`AAPL trade "" 5000 at 585.3 [cross] +34207000000000`,
			`AAPL trade "" sell 8 at 585.33 +34208000000000`,
			"AAPL fill 16113575 8 +34208000000000",
		)
		want := decode.Stats{Lines: 12, Trades: 4, Orders: 6, Statuses: 3, Used: 11, Skipped: decode.Skipped{decode.NoEffect: 1}}
		if got.Stats != want {
			t.Errorf("counted %+v\n    want %+v", got.Stats, want)
		}
		if in := got.Listed[0]; in.ID.String() != "AAPL|NASDAQ|24hs" || !in.StartsEmpty || in.NoBook || !in.VirtualClock {
			t.Errorf("listed %+v", in)
		}
	}
}

// TestPiece checks that a file that begins within the day plays trades and status.
func TestPiece(t *testing.T) {
	w := &replaytest.LOBSTER{}
	w.Line(open, 3, 5, 100, 1_000_000, 1)
	w.Line(open+1, 4, 6, 100, 1_000_000, 1)
	got := run(w, false, 0)
	expect(t, got, fmt.Sprintf(`AAPL trade "" sell 100 at 100 +%d`, open+1))
	if in := got.Listed[0]; in.StartsEmpty || !in.NoBook || !in.QuotesFromFeed || len(got.Notes) != 1 || got.Stats.Skipped[decode.UnknownBook] != 1 || got.Stats.Used != 1 {
		t.Errorf("listed %+v, noted %+v, counted %+v", in, got.Notes, got.Stats)
	}
	d := New(Config{Symbol: "AAPL", Midnight: midnight, Complete: true})
	got = replaytest.Run(d, w.Messages, 0)
	expect(t, got, fmt.Sprintf("AAPL gap  unknown_order +%d", open), fmt.Sprintf(`AAPL trade "" sell 100 at 100 +%d`, open+1))
	if !d.Lost() || d.Line() != 2 {
		t.Errorf("lost: %v in line %d", d.Lost(), d.Line())
	}
}

func TestBooks(t *testing.T) {
	w := &replaytest.LOBSTER{}
	for i, row := range []string{
		"5859400,200,5853300,18,5859800,200,5853000,150",
		"5859400,200,5853300,18,5859800,200,5853000,150",
		"5859400,100,5853300,18,5859800,200,5853000,150",
		"5859300,20,5853300,18,5859400,100,5852900,7",
		"9999999999,0,5853300,18,9999999999,0,-9999999999,0",
	} {
		kind := 1
		if i == 2 {
			kind = 4
		}
		w.Line(open+int64(i), kind, uint64(i), 100, 5_859_400, -1)
		w.Books = append(w.Books, row+"\n"...)
	}
	got := run(w, false, 0)
	expect(t, got,
		fmt.Sprintf("AAPL snapshot [18@585.33 150@585.3] [200@585.94 200@585.98] +%d", open),
		fmt.Sprintf(`AAPL trade "" buy 100 at 585.94 +%d`, open+2),
		fmt.Sprintf("AAPL update [] [100@585.94] +%d", open+2),
		fmt.Sprintf("AAPL update [0@585.3 7@585.29] [20@585.93 0@585.98] +%d", open+3),
		fmt.Sprintf("AAPL update [0@585.29] [0@585.93 0@585.94] +%d", open+4),
	)
	if in := got.Listed[0]; in.StartsEmpty || in.NoBook || got.Stats.Depth != 4 || got.Stats.Snapshots != 1 {
		t.Errorf("listed %+v, counted %+v", in, got.Stats)
	}
}

// TestRows checks that the book is that of the newest line, for random lines with empty levels and
// levels that come and go at every position.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := &replaytest.LOBSTER{Depth: 4}
	var last market.Book
	for i := range 8_000 {
		if i == 0 || rng.IntN(3) > 0 {
			side, near := market.Buy, market.Price(100-rng.IntN(7))
			if rng.IntN(2) == 0 {
				side, near = market.Sell, market.Price(101+rng.IntN(7))
			}
			last.Set(side, market.Level{Price: near * market.Scale, Size: market.Size(rng.IntN(12)) * market.Scale})
		}
		if rng.IntN(500) == 0 {
			last.Reset()
		}
		w.Line(open+int64(i), 1, uint64(i), 1, 1, 1)
		w.Book(&last)
		if i%1000 != 999 {
			continue
		}
		got := run(w, false, 1+rng.IntN(5000))
		if got.Err != nil || got.Check() != nil {
			t.Fatal(got.Err, got.Check())
		}
		var book market.Book
		for _, e := range got.Events {
			for _, l := range e.Bids {
				if _, changed := book.Set(market.Buy, l); !changed {
					t.Fatalf("%v changes nothing", l)
				}
			}
			for _, l := range e.Asks {
				if _, changed := book.Set(market.Sell, l); !changed {
					t.Fatalf("%v changes nothing", l)
				}
			}
		}
		if err := replaytest.Equal(&book, &last, 4); err != nil {
			t.Fatal(err)
		}
		if book.Len(market.Buy) > 4 {
			t.Fatalf("%d levels", book.Len(market.Buy))
		}
	}
}

// flow returns a pair of files of a random flow of orders.
func flow(seed uint64, n, depth int) (*replaytest.LOBSTER, *replaytest.Flow, int) {
	f := replaytest.NewFlow(seed, 1, midnight+open)
	w := &replaytest.LOBSTER{Depth: depth}
	sides := map[uint64]market.Side{}
	trades := 0
	for range n {
		e := f.Next()
		if e.Kind == market.KindOrderAdd {
			sides[e.OrderID] = e.Side
		}
		if e.Kind == market.KindOrderFill {
			trades++
		}
		w.Order(&e, sides[e.OrderID], midnight)
		if depth > 0 {
			w.Book(f.Book(0))
		}
	}
	return w, f, trades
}

// TestRoundTrip checks that files play the book of their flow, by orders and by levels.
func TestRoundTrip(t *testing.T) {
	for _, depth := range []int{0, 1, 10} {
		for _, piece := range []int{0, 4096, 101} {
			w, f, trades := flow(uint64(depth), 5000, depth)
			got := run(w, true, piece)
			if got.Err != nil || got.Check() != nil || got.Stats.Gaps != 0 || got.Stats.Trades != trades {
				t.Fatalf("%v, %v, %+v", got.Err, got.Check(), got.Stats)
			}
			var orders market.OrderBook
			var levels market.Book
			for i := range got.Events {
				e := &got.Events[i]
				if err := replaytest.Apply(&orders, e); err != nil {
					t.Fatal(err)
				}
				for _, l := range e.Bids {
					levels.Set(market.Buy, l)
				}
				for _, l := range e.Asks {
					levels.Set(market.Sell, l)
				}
			}
			book := &levels
			if depth == 0 {
				book = orders.Book()
			}
			if err := replaytest.Equal(book, f.Book(0), depth); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRounding checks that times with more than nine decimals are rounded.
func TestRounding(t *testing.T) {
	text := "34200.000000001456,1,5,100,1000000,1\n34200.0000000015,1,6,100,1000000,1\n34200.9999999996,1,7,100,1000000,1\n" +
		"34201,1,8,100,1000000,1\n34201.1234567891234567891234567891,1,9,100,1000000,1\n"
	got := run(&replaytest.LOBSTER{Messages: []byte(text)}, true, 0)
	if got.Err != nil || !Sniff([]byte(text), true) {
		t.Fatal(got.Err)
	}
	want := []int64{1, 2, 1_000_000_000, 1_000_000_000, 1_123_456_789}
	for i := range got.Events {
		if at := got.Events[i].Time - midnight - open; at != want[i] {
			t.Errorf("line %d is at %d ns, want %d", i+1, at, want[i])
		}
	}
	if len(got.Events) != len(want) {
		t.Errorf("%d events", len(got.Events))
	}
}

// TestHeads checks that any first line of column names is skipped.
func TestHeads(t *testing.T) {
	const line = "34200.1,1,5,100,1000000,1\n"
	for head, want := range map[string]bool{
		"seconds,message_type,order_id,quantity,price,direction": true, "ts,kind,id,qty,px,dir,venue": true, `"Time","Type","OrderID","Size","Price","Direction"`: true,
		"Time,Type,OrderID": false, "Dear reader": false, "34200.1,x,5,100,1000000,1": false,
	} {
		data := []byte(head + "\n" + line)
		if got := Sniff(data, true); got != want {
			t.Errorf("%s: recognized: %v", head, got)
		}
		if Sniff(data[:len(head)+1], true) {
			t.Errorf("%s alone is recognized", head)
		}
		if want {
			expect(t, run(&replaytest.LOBSTER{Messages: data}, true, 0), fmt.Sprintf("AAPL add 5 buy 100 at 100 +%d", open+100_000_000))
		}
	}
}

// TestHeader checks that a first line that names the columns is skipped, in both files and however
// they are cut.
func TestHeader(t *testing.T) {
	const head, line = "Time,Type,OrderID,Size,Price,Direction\n", "34200.1,1,5,100,1000000,1\n"
	const books = "Ask Price 1,Ask Size 1,Bid Price 1,Bid Size 1\n1010000,1,1000000,100\n"
	if !Sniff([]byte(head+line), true) || Sniff([]byte(line+head), true) {
		t.Error("recognized wrongly by its content")
	}
	for piece := range 50 {
		got := run(&replaytest.LOBSTER{Messages: []byte(head + line)}, true, piece)
		expect(t, got, fmt.Sprintf("AAPL add 5 buy 100 at 100 +%d", open+100_000_000))
		if got.Stats.Lines != 2 || got.Stats.Skipped[decode.OtherType] != 1 {
			t.Errorf("%+v", got.Stats)
		}
		got = run(&replaytest.LOBSTER{Messages: []byte(head + line), Books: []byte(books)}, true, piece)
		expect(t, got, fmt.Sprintf("AAPL snapshot [100@100] [1@101] +%d", open+100_000_000))
	}
	d := New(Config{Symbol: "AAPL", Midnight: midnight, Books: true})
	var b decode.Batch
	if n, m, err := d.Pair([]byte(head+line), nil, &b); n != len(head) || m != 0 || err != nil {
		t.Errorf("%d %d %v", n, m, err)
	}
	if n, m, err := d.Pair([]byte(line), []byte(books), &b); n != len(line) || m != len(books) || err != nil {
		t.Errorf("%d %d %v", n, m, err)
	}
}

func TestFaults(t *testing.T) {
	const good = "34200.1,1,5,100,1000000,1\n"
	for _, tt := range []struct {
		name, line, want string
	}{
		{"empty line", "", "bad time"},
		{"head", "Time,Type,OrderID,Size,Price,Direction", "bad time"},
		{"time without decimals", "34201.,1,6,1,1,1", "bad time"},
		{"time of another day", "999999,1,6,1,1,1", "bad time"},
		{"time goes back", "34200.099999999,1,6,1,1,1", "the time goes back by 1 ns"},
		{"too few columns", "34201,1,6,1,1", "not a line of time,type"},
		{"text", "34201,1,6,1,1,B", "not a line of time,type"},
		{"text behind", "34201,1,6,1,1,1x", "not a line of time,type"},
		{"long number", "34201,1,6,1,1234567890123456789,1", "not a line of time,type"},
		{"type", "34201,8,6,1,1,1", "bad type"},
		{"direction", "34201,1,6,1,1,0", "out of range"},
		{"size", "34201,1,6,4294967296,1,1", "out of range"},
		{"negative size", "34201,1,6,-1,1,1", "out of range"},
		{"negative price", "34201,1,6,1,-1,1", "out of range"},
		{"price", "34201,1,6,1,922337203685478,1", "out of range"},
		{"halt", "34201,7,0,0,2,-1", "out of range"},
		{"no shares", "34201,1,6,0,1,1", "order 6: no shares"},
		{"order twice", "34201,1,5,1,1,1", "order 5 exists already"},
		{"long line", strings.Repeat("1", 300), "a line of more than 256 bytes"},
		{"long line without end", strings.Repeat("1", 300) + "<", "a line of more than 256 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.TrimSuffix(good+tt.line+"\n", "<\n")
			d := New(Config{Symbol: "AAPL", Midnight: midnight, Complete: true})
			got := replaytest.Run(d, []byte(text), 0)
			if got.Err == nil || !strings.Contains(got.Err.Error(), tt.want) || got.Offset != len(good) || d.Line() != 2 || len(got.Events) != 1 {
				t.Errorf("line %d, at %d, %d events: %v; want %q", d.Line(), got.Offset, len(got.Events), got.Err, tt.want)
			}
		})
	}
}

func TestBookFaults(t *testing.T) {
	for _, tt := range []struct {
		name, line, want string
	}{
		{"empty line", "", "not a line of ask price"},
		{"half a level", "1010000,1,1000000,1,1020000,2", "not a line of ask price"},
		{"text", "1010000,1,1000000,1,1020000,1,990000,x", "not a line of ask price"},
		{"text in the middle", "1010000,1,1000000,1,1020000,x,990000,1", "not a line of ask price"},
		{"comma behind", "1010000,1,1000000,1,1020000,1,990000,1,", "not a line of ask price"},
		{"more levels than before", "1010000,1,1000000,1,1020000,1,990000,1,1030000,1,980000,1", "12 columns, and 8 in the line before"},
		{"fewer levels than before", "1010000,1,1000000,1", "4 columns, and 8 in the line before"},
		{"asks in wrong order", "1010000,1,1000000,1,1010000,1,990000,1", "not best first"},
		{"bids in wrong order", "1010000,1,980000,1,1020000,1,990000,1", "not best first"},
		{"range", "1010000,1,-5,1,1020000,1,990000,1", "out of range"},
		{"size", "1010000,4294967296,1000000,1,1020000,1,990000,1", "out of range"},
		{"long line", strings.Repeat("1010000,1,1000000,1,", 1000) + "<", "a line of more than 16384 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &replaytest.LOBSTER{Books: []byte(strings.TrimSuffix("1010000,1,1000000,1,1020000,1,990000,1\n"+tt.line+"\n", "<\n"))}
			w.Line(1, 1, 1, 1, 1_000_000, 1)
			w.Line(2, 1, 2, 1, 1_000_000, 1)
			got := run(w, false, 0)
			if _, ok := errors.AsType[*BookError](got.Err); !ok || !strings.Contains(got.Err.Error(), tt.want) || len(got.Events) != 1 {
				t.Errorf("%d events: %v; want %q", len(got.Events), got.Err, tt.want)
			}
		})
	}
}

// FuzzLOBSTER checks that any file is played up to an error and that its events keep the contract,
// whatever the sizes of pieces.
func FuzzLOBSTER(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(messages, "0000000030", "000000003")), []byte(nil), 7)
	w, _, _ := flow(1, 50, 3)
	f.Add(w.Messages, w.Books, 64)
	f.Add(w.Messages, []byte(nil), 1000)
	f.Add([]byte(strings.Repeat("1", 300)+"\n"), []byte("1"), 1) // too long, and without a book
	f.Fuzz(func(t *testing.T, messages, books []byte, piece int) {
		Sniff(messages, true)
		w := &replaytest.LOBSTER{Messages: messages}
		if len(books) > 0 {
			w.Books = books
		}
		all := run(w, true, 0)
		if err := all.Check(); err != nil {
			t.Fatal(err)
		}
		parts := run(w, true, max(1, piece%5000))
		if all.Offset != parts.Offset || fmt.Sprint(all.Err) != fmt.Sprint(parts.Err) || all.Stats != parts.Stats || len(all.Events) != len(parts.Events) {
			t.Fatalf("in one piece %+v\nin several %+v", all, parts)
		}
	})
}

// BenchmarkLOBSTER decodes a flow. A record is a line, or a pair of lines.
func BenchmarkLOBSTER(b *testing.B) {
	for _, bb := range []struct {
		name  string
		depth int
		whole bool
	}{{"messages", 0, false}, {"orders", 0, true}, {"books-1", 1, false}, {"books-10", 10, false}} {
		b.Run(bb.name, func(b *testing.B) {
			w, _, _ := flow(8, 200_000, bb.depth)
			b.SetBytes(int64(len(w.Messages) + len(w.Books)))
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				d := New(Config{Symbol: "AAPL", Midnight: midnight, Books: bb.depth > 0, Complete: bb.whole})
				var batch decode.Batch
				books := w.Books
				for rest := w.Messages; len(rest) > 0; {
					n, m, err := d.Pair(rest, books, &batch)
					if err != nil {
						b.Fatal(err)
					}
					rest, books = rest[n:], books[m:]
					batch.Reset()
				}
				records = batch.Stats.Lines
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
	}
}

func TestMutants(t *testing.T) {
	w, _, _ := flow(14, 60, 5)
	for _, whole := range []bool{false, true} {
		err := replaytest.Mutants(1, 500, w.Messages, func() replaytest.Decoder { return New(Config{Symbol: "AAPL", Midnight: midnight, Complete: whole}) })
		if err != nil {
			t.Error(err)
		}
	}
	// A damaged order book file with a valid message file, and the other way round.
	c := Config{Symbol: "AAPL", Midnight: midnight, Books: true}
	if err := replaytest.Mutants(2, 500, w.Messages, func() replaytest.Decoder { return &pair{New(c), w.Books} }); err != nil {
		t.Error(err)
	}
	if err := replaytest.Mutants(3, 500, w.Books, func() replaytest.Decoder { return &swapped{New(c), w.Messages} }); err != nil {
		t.Error(err)
	}
}

// swapped feeds a decoder a message file with an order book file, with their roles swapped.
type swapped struct {
	*Decoder
	messages []byte
}

func (p *swapped) Decode(books []byte, b *decode.Batch) (int, error) {
	n, m, err := p.Pair(p.messages, books, b)
	p.messages = p.messages[n:]
	return m, err
}

// TestAllocations checks that records cost no allocation in the steady state, apart from the tables
// and the blocks of texts.
func TestAllocations(t *testing.T) {
	w, _, _ := flow(15, 100_000, 0)
	data := w.Messages
	records := 0
	allocs := testing.AllocsPerRun(1, func() {
		d := New(Config{Symbol: "AAPL", Midnight: midnight, Complete: true})
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
