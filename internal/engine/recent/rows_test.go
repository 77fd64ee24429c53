package recent

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestRowsModel compares Rows with a list of all rows, of which it has the end.
func TestRowsModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var tp Rows
	var all []Row
	pos, kept := uint64(0), 0
	for n := range 12 * ChunkRows {
		pos += 1 + rng.Uint64N(3)
		r := Row{Pos: pos, At: int64(n), ID: fmt.Sprint(rng.IntN(4 * ChunkRows)), Kind: market.KindTrade}
		if rng.IntN(5) == 0 {
			r.Kind = market.KindCancel
		}
		all = append(all, r)
		kept += tp.Add(r, 3*ChunkRows, rng.IntN(4*ChunkRows) == 0)
		if tp.Last != uint64(len(all)) || tp.LastAt != r.At || tp.Stored != kept || kept == 0 || kept > 4*ChunkRows {
			t.Fatalf("%d rows of %d kept, up to %d; grew to %d", tp.Stored, len(all), tp.Last, kept)
		}
		gone := len(all) - kept
		if gone > 0 && tp.Dropped != all[gone-1].Pos || gone == 0 && tp.Dropped != 0 {
			t.Fatalf("%d are gone, dropped up to position %d", gone, tp.Dropped)
		}
		if n%97 == 0 {
			checkRows(t, &tp, all, rng)
		}
	}
}

// checkRows compares the answers to random queries with the list.
func checkRows(t *testing.T, tp *Rows, all []Row, rng *rand.Rand) {
	t.Helper()
	gone := len(all) - tp.Stored
	n := gone + rng.IntN(tp.Stored+1)
	var got []Row
	for _, rows := range tp.After(uint64(n)) {
		got = append(got, rows...)
	}
	if len(got) != len(all)-n || len(got) > 0 && !reflect.DeepEqual(got, all[n:]) {
		t.Fatalf("%d rows after %d of %d", len(got), n, len(all))
	}
	pos := rng.Uint64N(tp.chunks[len(tp.chunks)-1][0].Pos + 2*ChunkRows)
	want := gone
	for want < len(all) && all[want].Pos <= pos {
		want++
	}
	if got := tp.Seek(pos); got != uint64(want) {
		t.Fatalf("position %d is at %d, want %d", pos, got, want)
	}
	id, last := fmt.Sprint(rng.IntN(4*ChunkRows)), 0
	for i := gone; i < len(all); i++ {
		if all[i].ID == id && all[i].Kind == market.KindTrade {
			last = i + 1
		}
	}
	if got := tp.Find(id); got != uint64(last) {
		t.Fatalf("trade %s is %d, want %d", id, got, last)
	}
	r, at := tp.Newest(func(r *Row) bool { return r.ID == id && r.Kind == market.KindTrade })
	if (r != nil) != (last > 0) || at != uint64(last) {
		t.Fatalf("newest of %s is %d, want %d", id, at, last)
	}
}

// TestViewsStayValid checks that the result of After does not change when rows are dropped and
// added.
func TestViewsStayValid(t *testing.T) {
	var tp Rows
	add := func(n int) {
		for range n {
			tp.Add(Row{Pos: tp.Last + 1}, ChunkRows, false)
		}
	}
	add(ChunkRows + ChunkRows/2)
	views := tp.After(3)
	add(4 * ChunkRows)
	pos := uint64(4)
	for _, rows := range views {
		for i := range rows {
			if rows[i].Pos != pos {
				t.Fatalf("row %d has become %d", pos, rows[i].Pos)
			}
			pos++
		}
	}
	if pos != ChunkRows+ChunkRows/2+1 || tp.First() <= pos {
		t.Errorf("viewed up to %d, the tape begins at %d", pos-1, tp.First())
	}
}

// TestMessageOfRow checks that a Row keeps all that its message shows of a row of the journal.
func TestMessageOfRow(t *testing.T) {
	ident := wire.MakeIdent(market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"})
	zone := time.FixedZone("", 9*3600)
	for want, j := range map[string]journal.Row{
		`{"type":"T","S":"A","I":"A|M|CI","N":3,"T":"1970-01-01T00:00:00.000000005Z","D":1,"P":12,"Z":4,"X":"a","G":"B"}`:                              {Kind: journal.Trade, Position: 9, N: 3, Time: 5, At: 6, Latency: 1, Price: 12e8, Size: 4e8, Side: market.Buy, ID: "a"},
		`{"type":"T","S":"A","I":"A|M|CI","N":3,"T":"1970-01-01T00:00:00.000000005Z","P":12,"Z":4,"C":["odd_lot"]}`:                                    {Kind: journal.Trade, Position: 9, N: 3, Time: 5, At: 6, Latency: -1, Price: 12e8, Size: 4e8, TradeDetails: market.TradeDetails{Conditions: []string{"odd_lot"}}},
		`{"type":"X","S":"A","I":"A|M|CI","N":3,"T":"1970-01-01T00:00:00.000000005Z","D":1,"X":"a","P":0,"Z":0,"XN":2}`:                                {Kind: journal.Cancel, Position: 9, N: 3, Time: 5, At: 6, Latency: 1, ID: "a", OldPrice: 12e8, OldSize: 4e8, RefN: 2},
		`{"type":"C","S":"A","I":"A|M|CI","N":3,"T":"1970-01-01T00:00:00.000000005Z","D":1,"X":"a","P":13,"Z":5,"XP":12,"XZ":4,"XN":2}`:                {Kind: journal.Correct, Position: 9, N: 3, Time: 5, At: 6, Latency: 1, Price: 13e8, Size: 5e8, ID: "a", OldPrice: 12e8, OldSize: 4e8, RefN: 2},
		`{"type":"K","S":"A","I":"A|M|CI","N":3,"T":"2026-11-23T15:00:00.000000000Z","D":1,"IV":"1d","TD":"2026-11-24","TV":0,"EV":0,"TC":0,"R":true}`: {Kind: journal.Bar, Position: 9, N: 3, Time: 1795446000e9, At: 6, Latency: 1, Bar: journal.BarRow{Interval: market.Day, Revised: true}},
	} {
		r := RowOf(&j, zone)
		if got := string(r.Message(nil, ident, j.N)); got != want || r.Pos != j.Position || r.At != j.At {
			t.Errorf("row %+v with message\n%s, want\n%s", r, got, want)
		}
	}
}

// TestBeforeIsExact checks that whole chunks are skipped and a late trade is still found.
func TestBeforeIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	tp := &Rows{}
	at := int64(1000)
	for range 20 * ChunkRows {
		at += rng.Int64N(3)
		r := Row{Time: at}
		if rng.IntN(700) == 0 {
			r.Time -= rng.Int64N(9000)
		}
		tp.Add(r, 12*ChunkRows, false)
	}
	for from := int64(0); from < at+10; from += 7 {
		want, had := tp.First()-1, false
		for i := len(tp.chunks) - 1; i >= 0 && !had; i-- {
			for j := len(tp.chunks[i]) - 1; j >= 0 && !had; j-- {
				if had = tp.chunks[i][j].Time < from; had {
					want = tp.First() + uint64(j)
					for _, c := range tp.chunks[:i] {
						want += uint64(len(c))
					}
				}
			}
		}
		if n, found := tp.Before(from); n != want || found != had {
			t.Fatalf("before %d is %d, %v; want %d, %v", from, n, found, want, had)
		}
	}
}

// TestFullRowsKeepFew checks that when the memory of all Rows is full, each keeps a few rows
// instead of a chunk.
func TestFullRowsKeepFew(t *testing.T) {
	var tp Rows
	kept := 0
	for n := range 4 * ChunkRows {
		kept += tp.Add(Row{Pos: tp.Last + 1, Time: int64(n)}, ChunkRows, n >= ChunkRows/2)
		if tp.Stored != kept || n > ChunkRows && kept >= 2*minRows || kept < min(n+1, minRows) {
			t.Fatalf("row %d: %d are kept, said to be %d", n, kept, tp.Stored)
		}
		if n, found := tp.Before(int64(tp.First() - 1)); n != tp.First()-1 || found {
			t.Fatalf("before the first of %d kept is %d, %v", kept, n, found)
		}
		if tp.Last > uint64(kept) && tp.Dropped != tp.First()-1 {
			t.Fatalf("dropped up to %d, the first is %d", tp.Dropped, tp.First())
		}
	}
	before := tp.After(tp.First() - 1)
	pos := before[0][0].Pos
	for range ChunkRows {
		tp.Add(Row{Pos: tp.Last + 1}, ChunkRows, true)
	}
	if before[0][0].Pos != pos {
		t.Error("a view changed")
	}
}
