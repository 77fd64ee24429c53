package export

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestCSV compares the tables of the hostile day with the expected text.
func TestCSV(t *testing.T) {
	f := hostile(t)
	f.closeDay(ggal)
	for _, tt := range []struct {
		kind Type
		want string
	}{
		{Trades, `
2026-11-19T23:59:59.999999999Z,2026-11-20T00:01:00.000000000Z,AL30|BYMA|CI,AL30,BYMA,CI,2,E,trade,true,0.00000001,0.00000001,,late,,,,
2026-11-21T00:00:00.000000000Z,2026-11-20T23:59:59.999999999Z,AL30|BYMA|CI,AL30,BYMA,CI,3,E,trade,true,0.00000001,0.00000001,,fast clock,,,,
2026-11-20T23:59:59.999999999Z,2026-11-21T00:00:59.999999999Z,AL30|BYMA|CI,AL30,BYMA,CI,4,E,trade,true,0.00000001,0.00000001,,last,,,,
2026-11-20T12:00:00.000000007Z,2026-11-20T12:00:00.000000157Z,GAS|SIM|CI,GAS,SIM,CI,1,E,trade,true,-3,1,,,,,,
2026-11-20T00:00:00.000000000Z,2026-11-20T00:00:00.000000150Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,2,E,trade,false,7050.5,120,B,1,,,,
2026-11-20T00:00:00.000000005Z,2026-11-20T00:00:00.000000155Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,3,E,cancel,false,0.00000001,0.00000001,,yesterday,1,,,
2026-11-20T12:00:00.000000001Z,2026-11-20T12:00:00.000000151Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,4,E,trade,true,-0.25,5000000000,S,"ñandú, ""a""
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",,,,"[""block"",""a,b"",""\""""]"
2026-11-20T12:00:00.000000002Z,2026-11-20T12:00:00.000000152Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,5,E,trade,true,-92233720368.54775808,92233720368.54775807,,,,,,
2026-11-20T12:00:00.000000003Z,2026-11-20T12:00:00.000000153Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,6,E,correct,true,0,5,,1,2,0,6,
2026-11-20T12:00:00.000000004Z,2026-11-20T12:00:00.000000154Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,7,E,trade,false,7,2,,busted,,,,
2026-11-20T12:00:00.000000005Z,2026-11-20T12:00:00.000000155Z,GGAL|BYMA|24hs,GGAL,BYMA,24hs,8,E,cancel,false,7,2,,busted,7,,,
`},
		{Quotes, `
2026-11-20T12:00:00.000000010Z,2026-11-20T12:00:00.000000160Z,GAS|SIM|CI,GAS,SIM,CI,1,E,-1.5,10,3,0,1,1
2026-11-20T12:00:00.000000011Z,2026-11-20T12:00:00.000000161Z,GAS|SIM|CI,GAS,SIM,CI,2,E,,,,0.00000001,10000000000,
2026-11-20T12:00:00.000000012Z,2026-11-20T12:00:00.000000162Z,GAS|SIM|CI,GAS,SIM,CI,3,E,0,0.00000001,4294967295,,,
2026-11-20T12:00:00.000000013Z,2026-11-20T12:00:00.000000163Z,GAS|SIM|CI,GAS,SIM,CI,4,E,,,,,,
`},
		{Bars, `
2026-11-20T12:00:00.000000000Z,2026-11-20T12:00:00.000000150Z,GAS|SIM|CI,GAS,SIM,CI,1,E,1m,-0.00000001,0,-0.00000002,0.00000005,3,-3703.70367036,-1234.56789012,2,false,2026-11-20
2026-11-19T23:59:00.000000000Z,2026-11-20T02:00:00.000000000Z,GAS|SIM|CI,GAS,SIM,CI,2,E,1m,,,,,0,0,,0,true,2026-11-20
2026-11-20T12:01:00.000000000Z,2026-11-20T12:01:00.000000150Z,GAS|SIM|CI,GAS,SIM,CI,3,E,1m,,,,,0,0,,0,true,2026-11-20
2026-11-20T23:00:00.000000000Z,2026-11-21T13:00:00.000000000Z,GAS|SIM|CI,GAS,SIM,CI,2,E,1h,,,,,0,0,,0,false,2026-11-21
2026-11-20T12:00:00.000000000Z,2026-11-20T12:00:00.000000150Z,GAS|SIM|CI,GAS,SIM,CI,1,E,1d,0.00000001,0.00000001,0.00000001,0.00000001,184467440737.09551621,8507059173023461584739.6907784232501249,46116860184.2739,1,true,2026-11-20
`},
	} {
		got := f.write(Request{Type: tt.kind, Format: CSV})
		want := strings.ReplaceAll(headers[tt.kind]+tt.want, ",E,", ","+f.archive.Epoch()+",")
		want = strings.Replace(want, "\"\"\nxxx", "\"\"\r\nxxx", 1)
		if string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.kind, got, want)
		}
	}
}

// TestNoTradingDate checks that bars have no trading date if the definition of their instrument has
// no time zone.
func TestNoTradingDate(t *testing.T) {
	f := newFixture(t, instrument("GGAL", "BYMA", "24hs"), instrument("AL30", "BYMA", "CI"), instrument("GAS", "SIM", "CI"))
	f.add(ggal, journal.Row{Kind: journal.Bar, Time: noon(0), Bar: journal.BarRow{Interval: market.Day}})
	f.closeDay(ggal)
	r := Request{Type: Bars, Format: CSV, Market: "BYMA"}
	if got := string(f.write(r)); !strings.HasSuffix(got, ",1d,,,,,0,0,,0,false,\n") {
		t.Error(got)
	}
	r.Format = Parquet
	if got := readParquet(t, f.write(r)); len(got) != 2 || got[0][18] != "trading_date" || got[1][18] != "" {
		t.Error(got)
	}
	r.Format = NDJSON
	if got := string(f.write(r)); !strings.HasSuffix(got, `"IV":"1d","TV":0,"EV":0,"TC":0,"R":false}`+"\n") {
		t.Error(got)
	}
}

// TestParquet checks that the cells of Parquet tables equal those of CSV tables.
func TestParquet(t *testing.T) {
	f := hostile(t)
	depthDay(f)
	f.closeDay(ggal)
	for _, kind := range Types() {
		want, err := csv.NewReader(bytes.NewReader(f.write(Request{Type: kind, Format: CSV}))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		got := readParquet(t, f.write(Request{Type: kind, Format: Parquet}))
		if kind == Depth { // it is sorted, and sizes are never absent
			slices.SortStableFunc(want[1:], func(a, b []string) int { return strings.Compare(a[2], b[2]) })
			for _, row := range want[1:] {
				if row[9] == "" {
					row[11] = "0"
				}
			}
		}
		if len(want) < 3 {
			t.Errorf("%s has %d rows", kind, len(want))
		}
		for i, row := range want {
			// The CSV reader removes the carriage return from a line end within a cell.
			if len(got) <= i || strings.ReplaceAll(strings.Join(got[i], ";"), "\r\n", "\n") != strings.Join(row, ";") {
				t.Fatalf("%s, row %d:\n got %q\nwant %q", kind, i, got[min(i, len(got)-1)], row)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d rows, want %d", kind, len(got), len(want))
		}
	}
}

// readParquet reads a file as rows of texts, with the names of the columns first.
func readParquet(t *testing.T, data []byte) [][]string {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var table [][]string
	var head []string
	for _, field := range file.Schema().Fields() {
		head = append(head, field.Name())
	}
	table = append(table, head)
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		for {
			list := make([]parquet.Row, 1)
			n, err := rows.ReadRows(list)
			if n == 1 {
				table = append(table, texts(t, file.Schema(), list[0]))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// texts returns a row as in CSV.
func texts(t *testing.T, schema *parquet.Schema, row parquet.Row) []string {
	fields := schema.Fields()
	out := make([]string, len(fields))
	var list []string
	row.Range(func(column int, values []parquet.Value) bool {
		f := fields[column]
		if !f.Leaf() { // conditions
			for _, v := range values {
				if !v.IsNull() {
					list = append(list, v.String())
				}
			}
			if len(list) > 0 {
				out[column] = string(wire.AppendStrings(nil, list))
			}
			return true
		}
		v := values[0]
		if v.IsNull() {
			return true
		}
		out[column] = v.String()
		if logical := f.Type().LogicalType(); logical != nil {
			switch l := logical.Value.(type) {
			case *format.DecimalType:
				out[column] = bigDecimal(v.ByteArray(), int(l.Scale))
			case *format.TimestampType:
				out[column] = string(wire.AppendTime(nil, v.Int64()))
			case *format.DateType:
				out[column] = time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly)
			}
		}
		return true
	})
	return out
}

// bigDecimal returns the text of a big-endian two's complement number, using math/big.
func bigDecimal(b []byte, scale int) string {
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	r := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	text := strings.TrimRight(r.FloatString(scale), "0")
	return strings.TrimSuffix(text, ".")
}

// TestParquetMetadata checks what readers need to skip row groups.
func TestParquetMetadata(t *testing.T) {
	f := hostile(t)
	f.closeDay(ggal)
	data := f.write(Request{Type: Trades, Format: Parquet})
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	group := file.Metadata().RowGroups[0]
	for _, c := range group.Columns {
		name, stats := strings.Join(c.MetaData.PathInSchema, "."), c.MetaData.Statistics
		if c.MetaData.Codec != format.Zstd {
			t.Errorf("%s is compressed by %v", name, c.MetaData.Codec)
		}
		switch name {
		case "instrument":
			if string(stats.MinValue) != al30 || string(stats.MaxValue) != ggal {
				t.Errorf("%s from %q to %q", name, stats.MinValue, stats.MaxValue)
			}
		case "price", "size", "old_price", "old_size":
			// Bounds that ignore the sign would hide rows.
			if stats.MinValue != nil || stats.MaxValue != nil {
				t.Errorf("%s has bounds", name)
			}
		}
	}
	if len(group.SortingColumns) != 1 || group.SortingColumns[0].ColumnIdx != 2 {
		t.Errorf("sorted by %+v", group.SortingColumns)
	}
	filter := file.RowGroups()[0].ColumnChunks()[2].BloomFilter()
	if filter == nil {
		t.Fatal("no bloom filter")
	}
	for id, want := range map[string]bool{gas: true, "NONE|BYMA|CI": false} {
		if ok, err := filter.Check(parquet.ByteArrayValue([]byte(id))); err != nil || ok != want {
			t.Errorf("the filter says %v, %v of %s", ok, err, id)
		}
	}
}

// depthDay adds books: one in the checkpoint, one that begins empty, and one that becomes stale.
func depthDay(f *fixture) {
	add := func(id string, kind journal.Kind, at int64, bids, asks []market.Level) {
		f.add(id, journal.Row{Kind: kind, Time: at, Bids: bids, Asks: asks})
	}
	day := noon(-12 * 3600e9)
	add(ggal, journal.BookState, day-9, levels("7049.5 300 4", "7049 150 2"), levels("7050 1200 9"))
	f.states[al30] = journal.Row{Kind: journal.BookState, N: 7, Time: day - 5e9, Asks: levels("70 5 1")}
	f.n[al30+" depth"] = 7
	f.journal.Commit()
	add(ggal, journal.BookUpdate, day-8, levels("7049.5 280 3"), nil)
	add(ggal, journal.BookUpdate, noon(1), levels("7049.5 0"), levels("7051 4 1"))
	add(al30, journal.BookUpdate, noon(2), nil, levels("70 4 1"))
	add(gas, journal.BookState, noon(3), nil, nil)
	add(gas, journal.BookUpdate, noon(4), levels("0 5", "-1 6 2"), nil)
	add(ggal, journal.BookLost, noon(5), nil, nil)
	add(ggal, journal.BookState, noon(6), levels("1 1 1"), nil)
	add(ggal, journal.BookUpdate, noon(12*3600e9), levels("2 2 2"), nil) // the next day
}

// TestDepth checks that each book begins with a snapshot, even if the day begins in the middle of
// it.
func TestDepth(t *testing.T) {
	f := hostile(t)
	depthDay(f)
	f.closeDay(ggal)
	var got []string
	for _, row := range readParquet(t, f.write(Request{Type: Depth, Format: Parquet}))[1:] {
		at, err := time.Parse(time.RFC3339Nano, row[0])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(at.UnixNano()-noon(0), " ", row[2], " ", row[6], " ", strings.Join(row[8:], " ")))
	}
	want := []string{
		"-43205000000000 AL30|BYMA|CI 7 state S 70 5 1",
		"2 AL30|BYMA|CI 8 update S 70 4 1",
		"3 GAS|SIM|CI 1 state   0 ",
		"4 GAS|SIM|CI 2 update B 0 5 ",
		"4 GAS|SIM|CI 2 update B -1 6 2",
		"-43200000000009 GGAL|BYMA|24hs 1 state B 7049.5 300 4",
		"-43200000000009 GGAL|BYMA|24hs 1 state B 7049 150 2",
		"-43200000000009 GGAL|BYMA|24hs 1 state S 7050 1200 9",
		"-43200000000008 GGAL|BYMA|24hs 2 update B 7049.5 280 3",
		"1 GGAL|BYMA|24hs 3 update B 7049.5 0 ",
		"1 GGAL|BYMA|24hs 3 update S 7051 4 1",
		"5 GGAL|BYMA|24hs 4 lost   0 ",
		"6 GGAL|BYMA|24hs 5 state B 1 1 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMessages checks that the lines of NDJSON are messages of the stream, and that those of books
// follow each other and have the right checksum.
func TestMessages(t *testing.T) {
	f := hostile(t)
	depthDay(f)
	f.closeDay(ggal)
	for _, tt := range []struct {
		kind Type
		want string
	}{
		{Trades, `{"type":"C","S":"GGAL","I":"GGAL|BYMA|24hs","N":6,"T":"2026-11-20T12:00:00.000000003Z","D":150,"X":"1","P":0,"Z":5,"XP":0,"XZ":6,"XN":2}`},
		{Quotes, `{"type":"Q","S":"GAS","I":"GAS|SIM|CI","N":2,"T":"2026-11-20T12:00:00.000000011Z","D":150,"AP":0.00000001,"AZ":10000000000}`},
		{Bars, `{"type":"K","S":"GAS","I":"GAS|SIM|CI","N":3,"T":"2026-11-20T12:01:00.000000000Z","D":150,"IV":"1m","TD":"2026-11-20","TV":0,"EV":0,"TC":0,"R":true}`},
		{Depth, `{"type":"O","S":"AL30","I":"AL30|BYMA|CI","N":7,"T":"2026-11-19T23:59:55.000000000Z","R":true,"DL":0,"B":[],"A":[[70,5,1]],"K":CRC(|7000:5;|)}`},
		{Depth, `{"type":"O","S":"AL30","I":"AL30|BYMA|CI","N":8,"T":"2026-11-20T12:00:00.000000002Z","D":150,"L":7,"A":[[70,4,1]],"K":CRC(|7000:4;|)}`},
		{Depth, `{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":2,"T":"2026-11-19T23:59:59.999999992Z","D":150,"L":1,"B":[[7049.5,280,3]],"K":CRC(704950:280;704900:150;|705000:1200;|)}`},
		{Depth, `{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":3,"T":"2026-11-20T12:00:00.000000001Z","D":150,"L":2,"B":[[7049.5,0]],"A":[[7051,4,1]],"K":CRC(704900:150;|705000:1200;705100:4;|)}`},
		{Depth, `{"type":"O","S":"GAS","I":"GAS|SIM|CI","N":2,"T":"2026-11-20T12:00:00.000000004Z","D":150,"L":1,"B":[[0,5],[-1,6,2]],"K":CRC(0:5;-100:6;||)}`},
	} {
		lines := strings.Split(string(f.write(Request{Type: tt.kind, Format: NDJSON})), "\n")
		if before, text, ok := strings.Cut(tt.want, "CRC("); ok {
			text = strings.TrimSuffix(text, ")}")
			tt.want = fmt.Sprint(before, crc32.ChecksumIEEE([]byte(text)), "}")
		}
		if !slices.Contains(lines, tt.want) {
			t.Errorf("%s: %s is not there:\n%s", tt.kind, tt.want, strings.Join(lines, "\n"))
		}
		for _, line := range lines[:len(lines)-1] {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: not JSON: %s", tt.kind, line)
			}
		}
	}
}

// TestSelection checks that only the requested instruments are written, or all if none are named.
func TestSelection(t *testing.T) {
	f := hostile(t)
	id := func(s string) market.InstrumentID {
		id, err := market.ParseInstrumentID(s)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, tt := range []struct {
		r    Request
		want string
	}{
		{Request{}, "AL30 GAS GGAL"},
		{Request{Market: "BYMA"}, "AL30 GGAL"},
		{Request{Market: "NYSE"}, ""},
		{Request{Instruments: []market.InstrumentID{id(gas), id(gas), id("NONE|BYMA|CI")}}, "GAS"},
		{Request{Market: "BYMA", Instruments: []market.InstrumentID{id(gas)}}, ""},
	} {
		tt.r.Type, tt.r.Format, tt.r.Unfinished = Trades, Parquet, true
		f.journal.Commit()
		seen := map[string]bool{}
		for _, row := range readParquet(t, f.write(tt.r))[1:] {
			seen[row[3]] = true
		}
		var got []string
		for symbol := range seen {
			got = append(got, symbol)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v gives %v, want %s", tt.r, got, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	f := hostile(t)
	f.journal.Commit()
	for _, tt := range []struct {
		r    Request
		want error
	}{
		{Request{Type: Trades, Format: CSV, Date: testDate}, ErrOpenDay},
		{Request{Type: Trades, Format: CSV, Date: "2026-11-18"}, ErrNoDay},
		{Request{Type: Trades, Format: CSV, Date: "2026-11-18", Unfinished: true}, ErrNoDay},
		{Request{Type: Trades, Format: CSV, Date: "20.11.2026"}, ErrBadRequest},
		{Request{Type: Trades, Format: CSV, Date: "9999-11-20"}, ErrBadRequest},
		{Request{Type: Trades, Format: CSV}, ErrBadRequest},
		{Request{Format: CSV, Date: testDate}, ErrBadRequest},
		{Request{Type: 9, Format: CSV, Date: testDate}, ErrBadRequest},
		{Request{Type: Depth, Date: testDate}, ErrBadRequest},
	} {
		var out bytes.Buffer
		if _, _, err := Write(t.Context(), &out, f.archive, tt.r); !errors.Is(err, tt.want) || out.Len() > 0 {
			t.Errorf("%+v: %v and %d bytes, want %v", tt.r, err, out.Len(), tt.want)
		}
	}
}

// broken is a writer whose disk is full.
type broken struct{}

var errFull = errors.New("no space left")

func (broken) Write([]byte) (int, error) { return 0, errFull }

func TestFailing(t *testing.T) {
	f := hostile(t)
	f.journal.Commit()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range Formats() {
		for _, kind := range Types() {
			r := Request{Type: kind, Format: format, Date: testDate, Unfinished: true}
			if _, _, err := Write(t.Context(), broken{}, f.archive, r); kind != Depth && !errors.Is(err, errFull) {
				t.Errorf("%s as %s to a full disk: %v", kind, format, err)
			}
			if _, _, err := Write(gone, io.Discard, f.archive, r); !errors.Is(err, context.Canceled) {
				t.Errorf("%s as %s without a reader: %v", kind, format, err)
			}
		}
	}
}

func TestDay(t *testing.T) {
	f := hostile(t)
	f.closeDay(ggal)
	folder := t.TempDir()
	old := filepath.Join(folder, "type=trades", "date="+testDate, "market=SIM", "part-0.csv")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	job := Job{Folder: folder, Request: Request{Date: testDate, Format: CSV}}
	last := 0.0
	job.Progress = func(p Progress) {
		if p.Done < last || p.Done > 1 || p.Market == "" {
			t.Errorf("progress %+v after %v", p, last)
		}
		last = p.Done
	}
	files, err := Day(t.Context(), f.archive, job)
	if err != nil || last != 1 {
		t.Fatalf("%v, done %v", err, last)
	}
	var got []string
	for _, file := range files {
		r := job.Request
		path := strings.Split(file.Path, "/")
		r.Type, _ = ParseType(strings.TrimPrefix(path[0], "type="))
		r.Market = strings.TrimPrefix(path[2], "market=")
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file.Path)))
		if err != nil || int64(len(text)) != file.Bytes || !bytes.Equal(text, f.write(r)) {
			t.Errorf("%s: %v, %d bytes of %d", file.Path, err, len(text), file.Bytes)
		}
		got = append(got, fmt.Sprint(file.Path, " ", file.Rows))
	}
	want := []string{
		"type=trades/date=2026-11-20/market=BYMA/part-0.csv 10",
		"type=trades/date=2026-11-20/market=SIM/part-0.csv 1",
		"type=quotes/date=2026-11-20/market=SIM/part-0.csv 4",
		"type=bars/date=2026-11-20/market=SIM/part-0.csv 5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
	if n := countFiles(t, folder); n != len(want) {
		t.Errorf("%d files, want %d", n, len(want))
	}
}

// TestDayFails checks that nothing remains of a file that could not be written.
func TestDayFails(t *testing.T) {
	f := hostile(t)
	f.journal.Commit()
	gone, cancel := context.WithCancel(t.Context())
	job := Job{Folder: t.TempDir(), Request: Request{Date: testDate, Format: Parquet, Unfinished: true}}
	job.Progress = func(Progress) { cancel() }
	if files, err := Day(gone, f.archive, job); !errors.Is(err, context.Canceled) || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	if n := countFiles(t, job.Folder); n != 0 {
		t.Errorf("%d files are left", n)
	}
	job.Folder = filepath.Join(job.Folder, "file")
	if err := os.WriteFile(job.Folder, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Day(t.Context(), f.archive, job); err == nil {
		t.Error("a file was taken for a folder")
	}
	job.Unfinished = false
	if _, err := Day(t.Context(), f.archive, job); !errors.Is(err, ErrOpenDay) {
		t.Errorf("%v, want %v", err, ErrOpenDay)
	}
}

func countFiles(t *testing.T, folder string) (n int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
