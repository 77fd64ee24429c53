package journal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestBookAt compares books at many times with those of a reader that applies all rows from the
// beginning.
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
			want, ok := bookOf(src.rows, src.numbers[i], at)
			got, err := j.BookAt(t.Context(), src.defs[i].ID, at)
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
	if _, err := j.BookAt(t.Context(), id, start-1); !errors.Is(err, ErrNotKept) {
		t.Errorf("before everything: %v", err)
	}
	id.Symbol = "NOPE"
	if _, err := j.BookAt(t.Context(), id, start); !errors.Is(err, market.ErrUnknownInstrument) {
		t.Errorf("an instrument that is not there: %v", err)
	}
}

// bookOf applies all rows up to a time.
func bookOf(rows []Row, number uint32, until int64) (s BookSnapshot, known bool) {
	var b market.Book
	for i := range rows {
		r := &rows[i]
		if r.At > until || r.Instrument != number || !bookKinds.Has(r.Kind) {
			continue
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
