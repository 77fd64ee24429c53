package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

func termRowBatch() Batch {
	h := History{Epoch: "e", Starts: []Start{{Term{1, 11}, 0}, {Term{4, 44}, 70}}}
	return Batch{
		Cluster: "c", ID: ID{Term: Term{4, 44}}, Epoch: "e", Kind: TermRow, First: true, Final: true, Prev: 70, Last: 70, Time: 99,
		Sources: []Source{{"feed", 17}}, Exact: true, History: h, Data: []byte{},
	}
}

func rowsBatch() Batch {
	return Batch{
		Cluster: "c", ID: ID{Term{4, 44}, 3}, Epoch: "e", Kind: NewRows, First: true, Prev: 70, Last: 75, Time: 100, Sources: []Source{{"feed", 18}},
		Retired: []Member{{"a", 2}}, Joined: []Member{{"b", 3}, {"d", 1 << 40}}, Data: []byte("records"),
	}
}

func TestBatchRoundTrip(t *testing.T) {
	t.Parallel()
	for _, b := range []Batch{termRowBatch(), rowsBatch()} {
		var got Batch
		if err := got.Decode("c", AppendBatch(nil, &b)); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("%+v, %v, want %+v", got, err, b)
		}
	}
}

// TestBatchRefused requires an error for each batch that a node must not read.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	rows := rowsBatch()
	good := AppendBatch(nil, &rows)
	newer := bytes.Clone(good)
	newer[4]++
	for i := range good {
		for _, change := range []byte{1, 0x80} {
			b := bytes.Clone(good)
			b[i] ^= change
			if err := new(Batch).Decode("c", b); err == nil {
				t.Fatalf("a change of byte %d was not detected", i)
			}
		}
		if err := new(Batch).Decode("c", good[:i]); !errors.Is(err, ErrBatch) {
			t.Fatalf("%v for the first %d bytes", err, i)
		}
	}
	otherTerm, unordered := termRowBatch(), termRowBatch()
	otherTerm.ID.Term.Leader++
	unordered.History.Starts[0].After = 71
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"another cluster":                {AppendBatch(nil, &Batch{Cluster: "d", ID: ID{Number: 1}, Kind: NewRows}), ErrCluster},
		"a newer format":                 {newer, ErrVersion},
		"text":                           {[]byte("hello, this is not a batch"), ErrBatch},
		"a term row of another term":     {AppendBatch(nil, &otherTerm), ErrBatch},
		"positions that do not increase": {AppendBatch(nil, &unordered), ErrBatch},
		"rows with the number 0":         {AppendBatch(nil, &Batch{Cluster: "c", Kind: NewRows}), ErrBatch},
		"an unknown kind":                {AppendBatch(nil, &Batch{Cluster: "c", ID: ID{Number: 1}, Kind: 9}), ErrBatch},
	} {
		if err := new(Batch).Decode("c", c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzBatch(f *testing.F) {
	term, rows := termRowBatch(), rowsBatch()
	f.Add(AppendBatch(nil, &term))
	f.Add(AppendBatch(nil, &rows))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= batchHead { // otherwise almost all inputs end at the checksum
			copy(b, batchMagic)
			b[4], b[5] = FormatVersion, 0
			sum := checksum(b)
			b[8], b[9], b[10], b[11] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		var x, y Batch
		if x.Decode("c", b) != nil {
			return
		}
		if err := y.Decode("c", AppendBatch(nil, &x)); err != nil || !reflect.DeepEqual(x, y) {
			t.Fatalf("%+v becomes %+v, %v", x, y, err)
		}
	})
}

// collect returns the definitions and rows of records as rows: a definition has its text as ID.
func collect(data []byte) (list []record.Row, err error) {
	var d Records
	err = d.Each(data, func(number uint32, def []byte) error {
		list = append(list, record.Row{Instrument: number, ID: string(def)})
		return nil
	}, func(r *record.Row) error {
		x := *r
		x.Bids, x.Asks = slices.Clone(r.Bids), slices.Clone(r.Asks)
		list = append(list, x)
		return nil
	})
	return list, err
}

func TestEncoder(t *testing.T) {
	t.Parallel()
	var e Encoder
	rows := []record.Row{
		{Kind: record.Trade, Instrument: 1, Position: 5, N: 1, Time: 3, At: 9e9, Latency: -1, Price: 7, Size: 8, ID: "x"},
		{Kind: record.BookUpdate, Instrument: 2, Position: 6, N: 1 << 40, Time: 4, At: 1, Latency: -1, Bids: []market.Level{{Price: 1, Size: 2}}},
		{Kind: record.Quote, Instrument: 2, Position: 7, N: 1, Time: 4, At: 1e18, Latency: -1, Bids: []market.Level{{Price: 1, Size: 2}}},
	}
	e.Define(1, []byte("one"))
	for i := range rows {
		if !e.Fits(&rows[i]) {
			t.Fatal("a row does not fit")
		}
		e.Append(&rows[i])
	}
	e.Source("f", 3)
	e.Source("f", 4)
	a := e.Group(4)
	if a.Prev != 4 || a.Last != 7 || !slices.Equal(a.Sources, []Source{{"f", 4}}) || e.Len() != 0 {
		t.Errorf("%+v", a)
	}
	far := record.Row{Kind: record.BookLost, Instrument: 2, Position: 1 << 33, Latency: -1, Reason: "r"}
	e.Define(2, []byte("two"))
	if e.Fits(&far) {
		t.Error("a row fits whose position is far from the definition before it")
	}
	b := e.Group(7)
	if b.Prev != 7 || b.Last != 7 {
		t.Errorf("%+v", b)
	}
	if !e.Fits(&far) {
		t.Error("the first row of a group does not fit")
	}
	got, err := collect(append(a.Data, b.Data...))
	want := []record.Row{{Instrument: 1, ID: "one"}, rows[0], rows[1], rows[2], {Instrument: 2, ID: "two"}}
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i := range want {
		if got[i].Position != want[i].Position || got[i].N != want[i].N || got[i].At != want[i].At || got[i].ID != want[i].ID ||
			!slices.Equal(got[i].Bids, want[i].Bids) || got[i].Price != want[i].Price {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func FuzzRecords(f *testing.F) {
	var e Encoder
	e.Define(1, []byte("{}"))
	e.Append(&record.Row{Kind: record.Trade, Instrument: 1, Position: 1, N: 1, Latency: -1, Price: 7, Size: 8, ID: "x"})
	e.Append(&record.Row{Kind: record.BookState, Instrument: 1, Position: 2, N: 1, Latency: -1, Asks: make([]market.Level, 3)})
	plain := e.Group(0).Data
	f.Add(plain)
	packed := append(make([]byte, pieceHead), s2.Encode(nil, plain[pieceHead:])...)
	binary.LittleEndian.PutUint64(packed, pieceCompressed|uint64(len(packed)-pieceHead))
	f.Add(packed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if plain, err := new(unpacker).group(data, 0, 2); err == nil {
			data = plain
		} else if !errors.Is(err, ErrBatch) {
			t.Fatal(err)
		}
		if _, err := collect(data); err != nil && !errors.Is(err, ErrBatch) {
			t.Fatal(err)
		}
	})
}

func BenchmarkEncoder(b *testing.B) {
	r := record.Row{Kind: record.BookUpdate, Instrument: 1, Latency: -1, Bids: []market.Level{{Price: 1, Size: 2}}}
	var e Encoder
	b.ReportAllocs()
	for i := range b.N {
		r.Position = uint64(i)
		e.Append(&r)
		if e.Len() > 64<<10 {
			e.Group(r.Position)
		}
	}
}

// TestCompressedRecords checks that records which are compressed are the same, that those which do
// not become smaller are not compressed, and that a piece cannot take much memory.
func TestCompressedRecords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows    int
		text    func(i int) string
		smaller bool
	}{
		"a few":             {3, func(int) string { return "x" }, false},
		"many":              {2000, func(i int) string { return strconv.Itoa(i) }, true},
		"more than a piece": {20_000, func(i int) string { return strings.Repeat("x", 100) }, false},
	} {
		var plain Encoder
		packed := Encoder{Compress: true}
		for range 2 { // the second group uses the memory of the first one
			for i := range c.rows {
				r := record.Row{Kind: record.Trade, Instrument: 1, Position: uint64(i + 1), N: 1, Latency: -1, Price: 7, Size: 8, ID: c.text(i)}
				plain.Append(&r)
				packed.Append(&r)
			}
			a, b := plain.Group(0), packed.Group(0)
			if packed.Len() != 0 || len(b.Data) < len(a.Data) != c.smaller || cap(b.Data) > len(b.Data)*5/4+64 {
				t.Errorf("%s: %d bytes of %d, with %d of memory, then %d", name, len(b.Data), len(a.Data), cap(b.Data), packed.Len())
			}
			want, err := collect(a.Data)
			unpacked, wrong := new(unpacker).group(b.Data, 0, uint64(c.rows))
			got, unread := collect(unpacked)
			if err := errors.Join(err, wrong, unread); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: other rows, %v", name, err)
			}
		}
	}
}

// TestUnpack requires an error for records that a node must not apply, within limited memory.
func TestUnpack(t *testing.T) {
	t.Parallel()
	packed := func(records []byte) []byte {
		x := s2.Encode(nil, records)
		return append(binary.LittleEndian.AppendUint64(nil, pieceCompressed|uint64(len(x))), append(make([]byte, pieceHead-8), x...)...)
	}
	rows := func(positions ...uint64) []byte {
		var e Encoder
		for _, p := range positions {
			e.Append(&record.Row{Kind: record.Trade, Instrument: 1, Position: p, N: 1, Latency: -1})
		}
		return e.Group(0).Data
	}
	good, bomb := rows(5, 6, 7), packed(make([]byte, maxGroup+1))
	var u unpacker
	for name, data := range map[string][]byte{
		"plain":                  good,
		"two pieces":             slices.Concat(rows(5), rows(6, 7)),
		"one of them compressed": slices.Concat(rows(5), packed(rows(6, 7)[pieceHead:])),
	} {
		if strings.Contains(name, "compressed") {
			copy(data[len(rows(5))+8:], rows(6)[8:pieceHead]) // the base
		}
		if _, err := u.group(data, 4, 7); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := u.group(nil, 7, 7); err != nil {
		t.Errorf("no rows: %v", err)
	}
	for name, data := range map[string][]byte{
		"no rows": nil, "a missing row": rows(5, 7), "a missing end": rows(5, 6), "a row twice": rows(5, 5, 6, 7),
		"a row too many": rows(5, 6, 7, 8), "another begin": rows(6, 7), "a cut record": good[:len(good)-8], "a cut head": good[:5],
		"a bomb": bomb, "many of them": bytes.Repeat(packed(make([]byte, 1<<20)), 20), "a part of a bomb": bomb[:len(bomb)-1], "no length": packed(nil)[:pieceHead],
		"too many bytes": make([]byte, maxGroup+pieceHead),
	} {
		if _, err := u.group(data, 4, 7); !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if cap(u.buf) > 2*maxGroup {
		t.Errorf("the buffer has %d bytes", cap(u.buf))
	}
}

// TestBatchOfVersion1 requires that a batch of an older program is read.
func TestBatchOfVersion1(t *testing.T) {
	t.Parallel()
	b := rowsBatch()
	older := AppendBatch(nil, &b)
	older[4] = 1
	binary.LittleEndian.PutUint32(older[8:], checksum(older))
	var got Batch
	if err := got.Decode("c", older); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, %v", got, err)
	}
}

func BenchmarkEncoderCompressed(b *testing.B) {
	var e Encoder
	e.Compress = true
	b.ReportAllocs()
	for i := range b.N {
		e.Append(&record.Row{Kind: record.BookUpdate, Instrument: 1, Position: uint64(i), Latency: -1, Bids: []market.Level{{Price: market.Price(i * i % 50), Size: market.Size(i * i % 7919)}}})
		if e.Len() > 64<<10 {
			e.Group(uint64(i))
		}
	}
}
