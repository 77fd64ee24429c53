package state

import (
	"context"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestFillWithoutMemory checks that rows for which there is no memory count as dropped.
func TestFillWithoutMemory(t *testing.T) {
	read := func(_ context.Context, _ journal.Series, r journal.Range, yield func(*journal.Row) bool) error {
		for n := r.AfterN + 1; n <= r.ToN; n++ {
			if !yield(&journal.Row{Kind: journal.Trade, N: n, Position: n}) {
				break
			}
		}
		return nil
	}
	for _, x := range []struct {
		n           uint64
		space, kept int
	}{{0, 5, 0}, {2, 0, 0}, {2, 1, 1}, {2, 5, 2}} {
		in, shared := New(market.Instrument{}), NewShared(1<<20)
		in.SetClock(bars.NewClock(time.UTC, false))
		in.Sequences[wire.Trades].N = x.n
		l := Loader{Read: read, Shared: &shared, Kept: 100, Position: x.n, until: int64(2 * x.space)}
		if err := l.fill(t.Context(), &in, wire.Trades); err != nil {
			t.Fatal(err)
		}
		got := in.Trades
		if got.Last != x.n || got.Stored != x.kept || (got.Dropped == 0) != (uint64(x.kept) == x.n) || shared.Rows != int64(x.kept) {
			t.Errorf("%+v: %+v, %d rows are counted", x, got, shared.Rows)
		}
	}
}
