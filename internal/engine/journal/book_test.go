package journal

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestBookAt compares books at many times with those of a reader that applies all rows from the
// beginning: by publication, and by T, which is up to 50 ms earlier and does not always increase.
func TestBookAt(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 150_000
	src := newRowSource(21, 4)
	j := begin(t, cfg, src)
	defer j.Close()
	writeDays(t, j, src, 3, 8_000)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, what := range []string{"open", "closed"} {
		known, unknown := 0, 0
		for range 150 {
			k := rng.IntN(len(src.rows))
			at := src.rows[k].At + rng.Int64N(2)
			i := rng.IntN(len(src.defs))
			for n := k; k%2 == 0 && n < len(src.rows); n++ {
				if r := &src.rows[n]; r.Kind == BookLost {
					i, at = int(r.Instrument)-1, r.At
					break
				}
			}
			want, ok := bookOf(src.rows, src.numbers[i], at, math.MaxInt64)
			got, err := j.BookAt(t.Context(), src.defs[i].ID, at, math.MaxInt64)
			if k%3 == 0 {
				at = src.rows[k].Time + rng.Int64N(2)
				want, ok = bookOf(src.rows, src.numbers[i], at+int64(time.Hour), at)
				got, err = j.BookAt(t.Context(), src.defs[i].ID, at+int64(time.Hour), at)
			}
			if !ok {
				unknown++
				if !errors.Is(err, ErrNoBook) {
					t.Fatalf("%s: a book that is not known: %+v, %v", what, got, err)
				}
				continue
			}
			known++
			if err != nil {
				t.Fatalf("%s: row %d: %v", what, k, err)
			}
			if got.N != want.N || got.Epoch != j.Epoch() || !slices.Equal(got.Bids, want.Bids) || !slices.Equal(got.Asks, want.Asks) {
				t.Fatalf("%s: at %d:\n got %+v\nwant %+v", what, at, got, want)
			}
		}
		if known < 50 || unknown < 5 {
			t.Errorf("%s: %d books known, %d not", what, known, unknown)
		}
		if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
			t.Fatal(err)
		}
	}
	id := src.defs[0].ID
	if _, err := j.BookAt(t.Context(), id, start-1, math.MaxInt64); !errors.Is(err, ErrNotKept) {
		t.Errorf("before everything: %v", err)
	}
	id.Symbol = "NOPE"
	if _, err := j.BookAt(t.Context(), id, start, math.MaxInt64); !errors.Is(err, market.ErrUnknownInstrument) {
		t.Errorf("an instrument that is not there: %v", err)
	}
}

// bookOf applies all rows that were published up to a time, before the first one with a later T.
func bookOf(rows []Row, number uint32, until, event int64) (s BookSnapshot, known bool) {
	var b market.Book
	for i := range rows {
		r := &rows[i]
		if r.At > until || r.Instrument != number || !bookKinds.Has(r.Kind) {
			continue
		}
		if r.Time > event {
			break
		}
		if known = known && r.Kind != BookLost || r.Kind == BookState; !known {
			continue
		}
		if r.Kind == BookState {
			b.Reset()
		}
		for _, l := range r.Bids {
			b.Set(market.Buy, l)
		}
		for _, l := range r.Asks {
			b.Set(market.Sell, l)
		}
		s.N = r.N
	}
	s.Bids, s.Asks = b.Append(nil, market.Buy, 0), b.Append(nil, market.Sell, 0)
	return s, known
}

// TestBookAtOfTwoClocks reads books of a journal whose rows alternate between the clock of this
// machine and a virtual one of a year before, so that every segment begins before every time.
func TestBookAtOfTwoClocks(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 20_000
	src := newRowSource(1, 2)
	src.defs[1].VirtualClock = true
	newest := make([]*Row, 2)
	j := mustOpen(t, cfg)
	defer j.Close()
	if err := j.Restore(func(*Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := j.Start(func(number uint32, emit func(*Row)) {
		if r := newest[number-1]; r != nil {
			s := *r
			s.At = 0
			emit(&s)
		}
	}); err != nil {
		t.Fatal(err)
	}
	src.define(j)
	clocks := []int64{start, start - 365*dayNanos}
	for k := range uint64(2_000) {
		i := int(k % 2)
		at := clocks[i] + int64(k)*int64(time.Second)
		newest[i] = &Row{
			Kind: BookState, Instrument: src.numbers[i], Position: k + 1, N: k/2 + 1, Time: at, At: at, Latency: -1,
			Bids: []market.Level{{Price: market.Scale, Size: market.Size(k+1) * market.Scale, Orders: 1}},
		}
		r := cloneRow(newest[i])
		j.Append(&r)
		j.Commit()
	}
	if n := len(segmentFiles(t, cfg.Folder)); n < 4 {
		t.Fatalf("%d segments", n)
	}
	for k := uint64(0); k < 2_000; k += 7 {
		i := int(k % 2)
		at := clocks[i] + int64(k)*int64(time.Second)
		for _, event := range []int64{at, math.MaxInt64} {
			published := at
			if event == at {
				published += int64(time.Hour)
			}
			got, err := j.BookAt(t.Context(), src.defs[i].ID, published, event)
			if err != nil || got.N != k/2+1 || got.Time != at || len(got.Bids) != 1 || got.Bids[0].Size != market.Size(k+1)*market.Scale {
				t.Fatalf("%s at %d, published %v: got %+v, %v; want N %d", src.defs[i].ID, at, event != at, got, err, k/2+1)
			}
		}
	}
}
