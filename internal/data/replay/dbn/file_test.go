package dbn

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// TestNames checks that symbols come from the day of the record, from live data, or else are
// numbers.
func TestNames(t *testing.T) {
	const day = 24 * 3600 * 1_000_000_000
	trade := func(w *replaytest.DBN, number uint32, publisher uint16, days int64) {
		w.Levels(&rec{Instrument: number, Publisher: publisher, Time: begin + days*day, Receive: begin + days*day, Action: 'T', Side: 'B', Price: nine(1), Size: 1}, 0)
	}
	for _, version := range []byte{1, 2} {
		w := replaytest.DBN{Version: version}
		w.Header("GLBX.MDP3", replaytest.SchemaTrades,
			replaytest.Mapping{Symbol: "ES.c.0", Number: "7", From: 20240101, To: 20240103},
			replaytest.Mapping{Symbol: "ES.c.0", Number: "8", From: 20240103, To: 20240105},
			replaytest.Mapping{Symbol: "ES.c.1", Number: "8", From: 20240101, To: 20240103},
			replaytest.Mapping{Symbol: "UD: A|B", Number: "9", From: 20240101, To: 20240105})
		trade(&w, 7, 1, 0)
		trade(&w, 8, 1, 0)
		trade(&w, 8, 1, 1)
		trade(&w, 9, 1, 1)
		trade(&w, 10, 1, 1)
		trade(&w, 7, 4, 1)
		w.SymbolMapping(&rec{Instrument: 10, Time: begin, Receive: begin}, "NQH4")
		trade(&w, 10, 1, 2)
		got := run(w.Bytes)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		var ids []string
		for _, e := range got.Events {
			ids = append(ids, got.Listed[e.Handle].ID.String())
		}
		want := []string{"ES.c.0|GLBX|FUT", "ES.c.1|GLBX|FUT", "ES.c.0|GLBX|FUT", "UD:_A_B|GLBX|FUT", "10|GLBX|FUT", "ES.c.0|GLBX.4|FUT", "NQH4|GLBX|FUT"}
		if !slices.Equal(ids, want) {
			t.Errorf("version %d: %v\nwant %v", version, ids, want)
		}
		if in := got.Listed[0]; in.Kind != "future" || in.PriceDecimals != 8 || in.Currency != "" {
			t.Errorf("listed %+v", in)
		}
		d := New(Config{})
		replaytest.Run(d, w.Bytes, 0)
		var named []string
		for _, in := range d.Named() {
			named = append(named, in.ID.Symbol)
		}
		if !slices.Equal(named, []string{"ES.c.0", "ES.c.1", "UD:_A_B"}) {
			t.Errorf("named %v", named)
		}
		if got := run(w.Bytes, "UD:_A_B"); len(got.Events) != 1 || got.Stats.Skipped[decode.Filtered] != 6 {
			t.Errorf("filtered: %d events, %+v", len(got.Events), got.Stats)
		}
	}
}

// rows returns the header of a file with that many rows of symbols for instrument 7, of a day each.
func rows(n int) []byte {
	le := binary.LittleEndian
	h := make([]byte, 100)
	copy(h, "XNAS.ITCH")
	le.PutUint16(h[16:], replaytest.SchemaTrades)
	h[42], h[43] = 1, 0 // symbols for numbers
	le.PutUint16(h[45:], 1)
	h = append(h, make([]byte, 4*4)...)
	h = append(le.AppendUint32(h, 1), 'A')
	h = le.AppendUint32(h, uint32(n))
	for range n {
		h = append(le.AppendUint32(le.AppendUint32(h, 20240101), 20240102), '7')
	}
	return append(le.AppendUint32([]byte("DBN\x02"), uint32(len(h))), h...)
}

// TestThreat48Names plays files with many rows of symbols for one instrument, in whose header each
// publisher's instrument is looked up. It must not take the product of both.
func TestThreat48Names(t *testing.T) {
	const publishers = 20_000
	play := func(n int) time.Duration {
		w := replaytest.DBN{Version: 2, Bytes: rows(n)}
		for p := range uint16(publishers) {
			w.Levels(&rec{Instrument: 7, Publisher: p + 1, Time: begin, Receive: begin, Action: 'T', Side: 'B', Price: nine(1), Size: 1}, 0)
		}
		start := time.Now()
		if got := run(w.Bytes); got.Err != nil || len(got.Listed) != publishers {
			t.Fatalf("%d rows: %d instruments, %v", n, len(got.Listed), got.Err)
		}
		return time.Since(start)
	}
	play(1)
	few, many := play(1), play(maxNames/2)
	if many > 50*few {
		t.Errorf("%v with one row, %v with %d", few, many, maxNames/2)
	}
	if got := run(rows(maxNames + 1)); got.Err == nil || !strings.Contains(got.Err.Error(), "more than 1048576 rows of symbols") {
		t.Errorf("too many rows: %v", got.Err)
	}
}

// TestRoll checks that a book becomes stale when its symbol moves to another number.
func TestRoll(t *testing.T) {
	const day = 24 * 3600 * 1_000_000_000
	w := replaytest.DBN{Version: 2}
	w.Header("GLBX.MDP3", replaytest.SchemaMBO,
		replaytest.Mapping{Symbol: "ES.c.0", Number: "7", From: 20240101, To: 20240103},
		replaytest.Mapping{Symbol: "ES.c.0", Number: "8", From: 20240103, To: 20240105})
	for i, number := range []uint32{7, 8} {
		at := begin + int64(i)*day
		w.MBO(&rec{Instrument: number, Time: at, Receive: at, Action: 'R', Side: 'N', Flags: replaytest.Last})
		w.MBO(&rec{Instrument: number, Time: at, Receive: at, Action: 'A', Side: 'B', OrderID: 1, Price: nine(1), Size: 1, Flags: replaytest.Last})
	}
	expect(t, run(w.Bytes),
		"ES.c.0 snapshot [] [] +0",
		"ES.c.0 update [1@0.01/1] [] +0",
		"ES.c.0 gap  instrument_changed",
		"ES.c.0 snapshot [] [] +86400000000000",
		"ES.c.0 update [1@0.01/1] [] +86400000000000",
	)
}

// TestMixed checks that only one of several types of records with the same content is played.
func TestMixed(t *testing.T) {
	data := file(replaytest.SchemaMixed, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'T', Side: 'B', Price: nine(100), Size: 1}), 0)
		w.Levels(at(1, rec{Action: 'T', Side: 'B', Price: nine(100), Size: 1}), 1, pair{Bid: nine(99), BidSize: 1, Ask: nine(100), AskSize: 2})
		w.Levels(at(2, rec{Action: 'A', Side: 'B'}), 1, pair{Bid: nine(99), BidSize: 3, Ask: nine(100), AskSize: 2})
	})
	expect(t, run(data),
		`AAPL trade "" buy 1 at 1 +1`,
		"AAPL quote [1@0.99] [2@1] +1",
		"AAPL quote [3@0.99] [2@1] +2",
	)
}

// TestMixedSchemas checks that a note counts the records that are not played by schema, and that
// those of instruments without records that are played count as lost.
func TestMixedSchemas(t *testing.T) {
	other := func(r *rec) *rec {
		r.Instrument = 33
		return r
	}
	got := run(file(replaytest.SchemaMixed, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'T', Side: 'B', Price: nine(100), Size: 1}), 0)
		w.Levels(other(at(1, rec{Action: 'T', Side: 'B', Price: nine(100), Size: 1})), 0)
		w.MBO(at(1, rec{Action: 'T', Side: 'B', Price: nine(100), Size: 1, Flags: replaytest.Last}))
		w.Levels(at(2, rec{Action: 'A', Side: 'B'}), 10, pair{Bid: 1, Ask: 2})
		w.Levels(other(at(2, rec{Action: 'A', Side: 'B'})), 1, pair{Bid: 1, Ask: 2})
		w.Other(at(3, rec{}), 0xc3, 80)        // bbo-1s
		w.Other(at(3, rec{}), 0x21, 56)        // ohlcv-1m
		w.Other(at(3, rec{}), 0x13, 400)       // a definition
		w.Other(other(at(3, rec{})), 0x77, 16) // unknown
	}))
	expect(t, got, `AAPL trade "" buy 1 at 1 +1`)
	if got.Stats.Used != 1 || got.Stats.Skipped.String() != "2 other_type, 3 repeated, 3 unsupported" {
		t.Errorf("counted %s", got.Stats.Skipped.String())
	}
	if len(got.Notes) != 1 || !strings.HasSuffix(got.Notes[0].Detail, "(here mbo); records of others are not: 2 of trades, 1 of mbp-1, 1 of mbp-10, 1 of type 0x77, 1 of bbo-1s") {
		t.Errorf("noted %v", got.Notes)
	}
}

func TestFaults(t *testing.T) {
	good := file(replaytest.SchemaMBO, known)
	head := file(replaytest.SchemaMBO, func(*replaytest.DBN) {})
	with := func(at int, b ...byte) []byte {
		data := slices.Clone(good)
		copy(data[at:], b)
		return data
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		want   string
		offset int
	}{
		{"cut off in the magic", good[:5], "ends within its header", 0},
		{"cut off in the header", good[:len(head)-1], "ends within its header", 0},
		{"cut off in a record", good[:len(good)-1], "ends within a record", len(head) + 56},
		{"cut off in a record's head", good[:len(head)+56+5], "ends within a record", len(head) + 56},
		{"version", with(3, 4), "DBN version 4; versions 1 to 3 are known", 0},
		{"short header", with(4, 100, 0, 0, 0), "a header of 100 bytes", 0},
		{"long header", with(4, 0, 0, 0, 127), "a header of 2130706432 bytes", 0},
		{"nothing to play", file(replaytest.SchemaOHLCV, func(*replaytest.DBN) {}), "schema 5 of the file has neither trades", 0},
		{"width of symbols", with(8+45, 0, 0), "symbols of 0 bytes", 0},
		{"definition of the schema", with(8+100, 1), "definition of the schema", 0},
		{"too many symbols", with(8+104, 255, 255, 255, 0), "ends within the symbols", 0},
		{"bad date", with(len(head)-71-8, 0, 0, 0, 0), "is no date", 0},
		{"record of no length", with(len(head)+56, 0), "a record of 0 bytes", len(head) + 56},
		{"record of another length", with(len(head)+56, 13), "a record of type 0xa0 has 52 bytes; it should have 56", len(head) + 56},
		{"unknown action", with(len(head)+56+38, 'Z'), "action 'Z'", len(head) + 56},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(tt.data)
			if got.Err == nil || !strings.Contains(got.Err.Error(), tt.want) || got.Offset != tt.offset {
				t.Errorf("at %d: %v; want %q at %d", got.Offset, got.Err, tt.want, tt.offset)
			}
			if tt.offset > 0 && (len(got.Events) == 0 || got.Describe(&got.Events[0], begin) != "AAPL snapshot [] [] +1") {
				t.Errorf("played %v", describe(got))
			}
		})
	}
}

// FuzzDBN checks that any file is played up to an error and that its events keep the contract. The
// sizes of pieces make no difference, except for the choice among mixed types.
func FuzzDBN(f *testing.F) {
	f.Add(orders(1, false), 7)
	f.Add(orders(3, true), 64)
	f.Add(file(replaytest.SchemaMBP10, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'A'}), 10, pair{Bid: nine(1), BidSize: 1, Ask: nine(2), AskSize: 1})
		w.Levels(at(1, rec{Action: 'T', Price: nine(1), Size: 1}), 10, pair{Bid: nine(1), BidSize: 1, Ask: nine(3), AskSize: 1})
	}), 100)
	f.Add(file(replaytest.SchemaMixed, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'T', Price: nine(1), Size: 1}), 1, pair{Bid: nine(1), BidSize: 1, Ask: nine(3), AskSize: 1})
		w.SymbolMapping(at(2, rec{}), "MSFT")
		w.Status(at(3, rec{}), 7, 1)
	}), 1000)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		all := run(data)
		if err := all.Check(); err != nil {
			t.Fatal(err)
		}
		d := New(Config{})
		parts := replaytest.Run(d, data, max(1, piece%5000))
		d.Named()
		if d.header != nil && d.header.schema == schemaMixed {
			return
		}
		if all.Offset != parts.Offset || fmt.Sprint(all.Err) != fmt.Sprint(parts.Err) || all.Stats != parts.Stats || len(all.Events) != len(parts.Events) {
			t.Fatalf("in one piece %+v\nin several %+v", all, parts)
		}
	})
}

// BenchmarkDBN decodes a flow of a hundred instruments.
func BenchmarkDBN(b *testing.B) {
	const n = 200_000
	for _, bb := range []struct {
		name   string
		schema uint16
		depth  int
	}{{"mbo", replaytest.SchemaMBO, -1}, {"mbp-10", replaytest.SchemaMBP10, 10}, {"mbp-1", replaytest.SchemaMBP1, 1}, {"trades", replaytest.SchemaTrades, 0}} {
		b.Run(bb.name, func(b *testing.B) {
			w := flowHeader(100, bb.schema)
			f := replaytest.NewFlow(6, 100, begin)
			for i := range 100 {
				if bb.depth < 0 {
					w.MBO(&rec{Time: begin, Receive: begin, Instrument: uint32(100 + i), Action: 'R', Side: 'N', Flags: replaytest.Last})
				}
			}
			for i := range n {
				e := f.Next()
				if bb.depth < 0 {
					w.Order(&e, uint32(i))
					continue
				}
				r := rec{Time: e.Time, Receive: e.Time, Instrument: uint32(100 + e.Handle), Action: 'A', Side: 'B', Price: nine(1), Size: 1, Flags: replaytest.Last}
				if bb.depth == 0 || i%15 == 0 {
					r.Action = 'T'
				}
				pairs := replaytest.Pairs(f.Book(int(e.Handle)))
				w.Levels(&r, bb.depth, pairs[:min(len(pairs), bb.depth)]...)
			}
			measure(b, w.Bytes)
		})
	}
}

func measure(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		d := New(Config{})
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
	levels := flowHeader(3, replaytest.SchemaMBP10)
	f := replaytest.NewFlow(12, 3, begin)
	for range 40 {
		e := f.Next()
		levels.Levels(&rec{Time: e.Time, Receive: e.Time, Instrument: uint32(100 + e.Handle), Action: 'A', Flags: replaytest.Last}, 10, replaytest.Pairs(f.Book(int(e.Handle)))...)
	}
	mixed := file(replaytest.SchemaMixed, func(w *replaytest.DBN) {
		w.Levels(at(1, rec{Action: 'T', Price: nine(1), Size: 1}), 1, pair{Bid: nine(1), BidSize: 1, Ask: nine(3), AskSize: 1})
		w.SymbolMapping(at(2, rec{}), "MSFT")
		w.Status(at(3, rec{}), 7, 1)
		w.Levels(at(4, rec{Action: 'T', Price: nine(1), Size: 1}), 1, pair{Bid: nine(2), BidSize: 1, Ask: nine(3), AskSize: 1})
	})
	for i, data := range [][]byte{orders(1, true), orders(3, false), levels.Bytes, mixed} {
		if err := replaytest.Mutants(uint64(i), 500, data, func() replaytest.Decoder { return New(Config{}) }); err != nil {
			t.Error(err)
		}
	}
}

// TestAllocations checks that records cost no allocation in the steady state, apart from the tables
// and the blocks of texts.
func TestAllocations(t *testing.T) {
	w := flowHeader(10, replaytest.SchemaMBO)
	f := replaytest.NewFlow(15, 10, begin)
	for i := range 10 {
		w.MBO(&rec{Time: begin, Receive: begin, Instrument: uint32(100 + i), Action: 'R', Side: 'N', Flags: replaytest.Last})
	}
	for i := range 100_000 {
		e := f.Next()
		w.Order(&e, uint32(i))
	}
	data := w.Bytes
	records := 0
	allocs := testing.AllocsPerRun(1, func() {
		d := New(Config{})
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
