package state

import (
	"context"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestStatusOfLostRow checks that a status has the time of its publication if its row is lost, or
// not in memory.
func TestStatusOfLostRow(t *testing.T) {
	id, _ := market.ParseInstrumentID("GGAL|BYMA|24hs")
	at := time.Date(2026, 11, 20, 14, 32, 0, 0, time.UTC).UnixNano()
	lost := func(context.Context, journal.Series, journal.Range, func(*journal.Row) bool) error { return nil }
	for _, space := range []int64{0, 100} {
		in, shared := New(market.Instrument{ID: id}), NewShared(1<<20)
		in.SetClock(bars.NewClock(time.UTC, false))
		in.Restore(&journal.Row{Kind: journal.Numbers, Counts: journal.Counts{N: [journal.NumChannels]uint64{journal.Statuses: 17}}}, false)
		in.Restore(&journal.Row{Kind: journal.Status, Checkpoint: true, N: 17, At: at, Time: at, Phase: market.Halt}, false)
		l := Loader{Read: lost, Shared: &shared, Kept: 100, Position: 30, until: space}
		if err := l.fill(t.Context(), &in, wire.Status); err != nil {
			t.Fatal(err)
		}
		got := string(in.AppendStatus(nil, in.Phase, "", 0))
		if want := `{"type":"H","S":"GGAL","I":"GGAL|BYMA|24hs","N":17,"T":"2026-11-20T14:32:00.000000000Z","R":true,"E":"halt"}`; got != want {
			t.Errorf("memory for %d rows: %s, want %s", space, got, want)
		}
	}
}

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
