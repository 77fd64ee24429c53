package bars

import "testing"

// TestFullLogsKeepFewTrades checks that when all logs together are full, each keeps a few trades
// instead of a chunk, and knows from when on it is complete.
func TestFullLogsKeepFewTrades(t *testing.T) {
	var l tradeLog
	kept := 0
	for n := range 4 * chunkTrades {
		late := int64(0)
		if n%7 == 0 {
			late = 5
		}
		kept += l.add(Trade{N: uint64(n + 1), At: int64(n) - late, Size: 1}, n >= chunkTrades/2)
		if l.len() != kept || n > chunkTrades && kept >= 2*minTrades || kept < min(n+1, minTrades) {
			t.Fatalf("deal %d: %d are kept, said to be %d", n, l.len(), kept)
		}
		got, _ := l.count(l.complete, int64(n)+1)
		want := 0
		for k := range n + 1 {
			at := int64(k)
			if k%7 == 0 {
				at -= 5
			}
			if at >= l.complete {
				want++
			}
		}
		if int(got.Trades) != want {
			t.Fatalf("deal %d: %d deals from %d on, want %d", n, got.Trades, l.complete, want)
		}
	}
}
