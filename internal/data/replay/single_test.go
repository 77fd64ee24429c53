package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// typed is a file with a record of every type, each at a time of its own.
type typed struct {
	name  string
	data  []byte
	books string
	at    int64    // time of the first record
	types []string // of the records, each a microsecond later, and what it publishes: b, t, q, s, r
}

func typedITCH() *typed {
	x := &typed{name: "ITCH", at: opening}
	w := replaytest.ITCH{}
	w.System(1, 'O')
	w.Directory(2, 1, "SYM0")
	next := func(what string) int64 {
		x.types = append(x.types, what)
		return opening - midnight + int64(len(x.types)-1)*1000
	}
	w.Add(next("A b"), 1, 1, 'B', 300, "SYM0", 1_000_000, "")
	w.Add(next("F b"), 1, 2, 'S', 300, "SYM0", 1_010_000, "GSCO")
	w.Execute(next("E bt"), 1, 1, 10, 1)
	w.ExecuteAt(next("C printed bt"), 1, 1, 10, 2, 'Y', 1_000_000)
	w.ExecuteAt(next("C not printed b"), 1, 1, 10, 3, 'N', 1_000_000)
	w.Cancel(next("X b"), 1, 1, 10)
	w.Replace(next("U, another price b"), 1, 1, 3, 200, 1_005_000)
	w.Replace(next("U, the same price b"), 1, 3, 4, 100, 1_005_000)
	w.Delete(next("D b"), 1, 4)
	w.Trade(next("P t"), 1, 10, "SYM0", 1_000_000, 4)
	w.Cross(next("Q t"), 1, 10, "SYM0", 1_000_000, 5, 'O')
	w.Broken(next("B t"), 1, 5)
	w.Action(next("H s"), 1, "SYM0", 'T', "")
	w.Halt(next("h s"), 1, "SYM0", 'Q', 'H')
	w.System(next("S s"), 'Q')
	for _, kind := range "RLVWYKJINO" {
		size := map[rune]int{'R': 39, 'L': 26, 'V': 35, 'W': 12, 'Y': 20, 'K': 28, 'J': 35, 'I': 50, 'N': 20, 'O': 48}[kind]
		if at := next(string(kind) + " "); kind == 'R' {
			w.Directory(at, 1, "SYM0")
		} else {
			w.Other(at, 1, byte(kind), size)
		}
	}
	x.data = w.Bytes
	return x
}

func typedLOBSTER(depth int) *typed {
	x := &typed{name: fmt.Sprintf("LOBSTER of %d levels", depth), at: opening}
	w := replaytest.LOBSTER{Depth: depth}
	var b market.Book
	next := func(what string, kind int, id uint64, size uint32, price int64, bid market.Size) {
		at := opening - midnight + int64(len(x.types))*1000
		x.types = append(x.types, what)
		if w.Line(at, kind, id, size, price, 1); depth > 0 {
			b.Set(market.Buy, market.Level{Price: 100 * market.Scale, Size: bid * market.Scale})
			w.Book(&b)
		}
	}
	next("1 b", 1, 1, 300, 1_000_000, 300)
	next("2 b", 2, 1, 100, 1_000_000, 200)
	next("4 bt", 4, 1, 100, 1_000_000, 100)
	next("5 t", 5, 0, 100, 1_000_000, 100)
	next("6 t", 6, 0, 100, 1_000_000, 100)
	next("7 s", 7, 0, 0, -1, 100)
	next("3 b", 3, 1, 100, 1_000_000, 0)
	x.data, x.books = w.Messages, string(w.Books)
	return x
}

func typedMBO() *typed {
	x := &typed{name: "MBO", at: opening}
	w := dbnHeader(replaytest.SchemaMBO)
	next := func(what string, action byte, id uint64, price int64, size uint32, flags byte) {
		at := opening + int64(len(x.types))*1000
		x.types = append(x.types, what)
		w.MBO(&replaytest.Record{Instrument: 100, Time: at, Receive: at, Action: action, Side: 'B', OrderID: id, Price: price * 1e9, Size: size, Flags: flags | replaytest.Last})
	}
	next("R b", 'R', 0, 0, 0, 0)
	next("A b", 'A', 1, 100, 300, 0)
	next("M, another price b", 'M', 1, 101, 300, 0)
	next("M of a new order b", 'M', 2, 99, 10, 0)
	next("T t", 'T', 0, 101, 10, 0)
	next("F ", 'F', 1, 101, 10, 0)
	next("N ", 'N', 0, 0, 0, 0)
	next("C of a part b", 'C', 1, 101, 10, 0)
	next("C b", 'C', 2, 99, 10, 0)
	next("A of a snapshot b", 'A', 5, 90, 1, replaytest.Snapshot)
	next("R b", 'R', 0, 0, 0, 0)
	x.data = w.Bytes
	return x
}

func typedLevels(depth int, schema uint16) *typed {
	x := &typed{name: fmt.Sprintf("MBP of %d levels, schema %d", depth, schema), at: opening}
	w := dbnHeader(schema)
	what := map[int]string{1: "q", 10: "b"}[depth]
	next := func(what string, action byte, flags byte, bid int64) {
		at := opening + int64(len(x.types))*1000
		x.types = append(x.types, what)
		w.Levels(&replaytest.Record{Instrument: 100, Time: at, Receive: at, Action: action, Side: 'B', Price: 105e9, Size: 1, Flags: flags},
			depth, replaytest.Pair{Bid: bid * 1e9, BidSize: 1, Ask: 105e9, AskSize: 1})
	}
	if depth == 0 {
		next("T t", 'T', replaytest.Last, 98)
		x.data = w.Bytes
		return x
	}
	next("A "+what, 'A', replaytest.Last, 100)
	next("M "+what, 'M', replaytest.Last, 101)
	next("C "+what, 'C', replaytest.Last, 99)
	next("T "+what+"t", 'T', replaytest.Last, 98)
	next("A without F_LAST "+what, 'A', 0, 97)
	next("R "+what, 'R', replaytest.Last, 96)
	at := opening + int64(len(x.types))*1000
	w.Status(&replaytest.Record{Instrument: 100, Time: at, Receive: at}, 7, 0)
	x.types = append(x.types, "status s")
	x.data = w.Bytes
	return x
}

func typedIEX(protocol uint16) *typed {
	x := &typed{name: map[uint16]string{replaytest.TOPS: "TOPS", replaytest.DEEP: "DEEP"}[protocol], at: opening}
	w := replaytest.IEX{Protocol: protocol}
	c := replaytest.Capture{Nano: true}
	c.Head()
	next := func(what string, write func(at int64)) {
		at := opening + int64(len(x.types))*1000
		x.types = append(x.types, what)
		write(at)
		c.Datagram(at, w.Segment(at))
	}
	next("D r", func(at int64) { w.Directory(at, "SYM0", 1_000_000) })
	next("S s", func(at int64) { w.System(at, 'S') })
	next("H s", func(at int64) { w.Status(at, "SYM0", 'T', "") })
	next("O s", func(at int64) { w.Operational(at, "SYM0", 'O') })
	next("T t", func(at int64) { w.Trade(at, "SYM0", 'T', 0, 1, 1_000_000, 1) })
	next("B t", func(at int64) { w.Trade(at, "SYM0", 'B', 0, 1, 1_000_000, 1) })
	next("X r", func(at int64) { w.Official(at, "SYM0", 'M', 1_000_000) })
	for _, kind := range "IPEA" {
		next(string(kind)+" ", func(at int64) { w.Other(at, "SYM0", byte(kind), 80) })
	}
	if protocol == replaytest.TOPS {
		next("Q q", func(at int64) { w.Quote(at, "SYM0", 1, 1_000_000, 1_010_000, 1) })
	} else {
		next("8 b", func(at int64) { w.Level(at, "SYM0", '8', 1, 1, 1_000_000) })
		next("5 b", func(at int64) { w.Level(at, "SYM0", '5', 1, 1, 1_010_000) })
		next("5 within an event ", func(at int64) { w.Level(at, "SYM0", '5', 0, 0, 1_010_000) })
		next("5 at its end b", func(at int64) { w.Level(at, "SYM0", '5', 1, 1, 1_020_000) })
	}
	x.data = c.Bytes
	return x
}

// TestSingle checks what a record of each type publishes: at most one change of a book, or one
// quote. Otherwise clients would get books and quotes that never existed.
func TestSingle(t *testing.T) {
	for _, x := range []*typed{typedITCH(), typedLOBSTER(0), typedLOBSTER(5), typedMBO(), typedLevels(1, replaytest.SchemaMBP1),
		typedLevels(1, replaytest.SchemaTBBO), typedLevels(10, replaytest.SchemaMBP10), typedLevels(0, replaytest.SchemaTrades), typedIEX(replaytest.TOPS), typedIEX(replaytest.DEEP)} {
		t.Run(x.name, func(t *testing.T) {
			path := (&sample{data: x.data}).save(t, nil)
			if x.books != "" {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), strings.Replace(filepath.Base(path), "message", "orderbook", 1)), []byte(x.books), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var r feedtest.Recorder
			if err := open(t, path, Config{Speed: -1, FromName: true}).Run(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
			got := make([]string, len(x.types))
			for _, e := range r.Events() {
				i := int(e.Time-x.at) / 1000
				if e.Time < x.at {
					continue // before the records
				}
				switch {
				case replaytest.ChangesBook(e.Kind):
					got[i] += "b"
				case e.Kind == market.KindTrade, e.Kind == market.KindCancel:
					got[i] += "t"
				case e.Kind == market.KindQuote:
					got[i] += "q"
				case e.Kind == market.KindStatus:
					got[i] += "s"
				case e.Kind == market.KindReference:
					got[i] += "r"
				}
			}
			for i, what := range x.types {
				name, want := what[:strings.LastIndexByte(what, ' ')], what[strings.LastIndexByte(what, ' ')+1:]
				if letters(got[i]) != letters(want) {
					t.Errorf("%s publishes %q, want %q", name, got[i], want)
				}
			}
		})
	}
}

// letters returns the letters of a text, sorted.
func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}
