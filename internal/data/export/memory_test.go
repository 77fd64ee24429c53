package export

import (
	"os"
	"runtime"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestMemoryE2E writes a day of 26 million rows of books without repeated prices and checks that
// the memory of a table does not grow with its rows. Without RUEDA_SOAK it writes a twentieth of
// that, only as Parquet, because the other formats keep almost nothing.
func TestMemoryE2E(t *testing.T) {
	rows, bound, formats := 26_000_000/20, uint64(400<<20), Formats()[:1]
	if os.Getenv("RUEDA_SOAK") != "" {
		rows, formats = 20*rows, Formats()
	}
	some := benchRows(Depth, 100_000)
	for _, format := range formats {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		before, most := m.HeapAlloc, uint64(0)
		var out counter
		table := newTable(&out, &Request{Type: Depth, Format: format})
		for i := range rows {
			r := some[i%len(some)]
			row := journal.Row{Kind: journal.BookUpdate, N: uint64(i), Time: r.row.Time + int64(i), At: r.row.At + int64(i),
				Bids: []market.Level{{Price: r.row.Bids[0].Price + market.Price(i), Size: market.Size(i + 1)}}}
			if err := table.put(r.in, "e7k2", &row, false); err != nil {
				t.Fatal(err)
			}
			if i%(rows/40) == 0 {
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
		if err := table.close(nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("figure: %d rows of depth as %s: %d MB of heap at most, %.1f bytes a row", rows, format, int64(most-before)>>20, float64(out.n)/float64(rows))
		if most > before+bound {
			t.Errorf("%s needs %d MB", format, (most-before)>>20)
		}
	}
}
