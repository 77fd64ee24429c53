package host

import (
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestPendingNumbers checks that new instruments get consecutive numbers while the following hub
// defines those that have come back, and that the first definition of each and changed ones go to
// the log.
func TestPendingNumbers(t *testing.T) {
	j := openJournal(t)
	def := func(i, decimals int) market.Instrument {
		return market.Instrument{ID: market.InstrumentID{Symbol: fmt.Sprint("S", i), Market: "M", Term: "CI"}, PriceDecimals: decimals}
	}
	j.Define(def(1, 2)) // of an earlier leader
	l := newPendingRows(j, 0)
	l.enc.Compress = false
	came := map[uint32]int{}
	deliver := func() {
		for _, g := range l.take() {
			var r cluster.Records
			if err := r.Each(g.Data, func(number uint32, _ []byte) error { came[number]++; return nil }, func(*journal.Row) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := 1; i <= 6; i++ {
		if n := l.Define(def(i, 2)); n != uint32(i) {
			t.Errorf("instrument %d got the number %d", i, n)
		}
		if i%2 == 0 { // it comes back
			deliver()
			for k := i - 1; k <= i; k++ {
				if n := j.Define(def(k, 2)); n != uint32(k) {
					t.Errorf("instrument %d has the number %d in the journal", k, n)
				}
			}
		}
	}
	for i := 1; i <= 6; i++ {
		l.Define(def(i, 2)) // unchanged
	}
	l.Define(def(3, 4))
	deliver()
	for i := uint32(1); i <= 6; i++ {
		want := 1
		if i == 3 {
			want = 2
		}
		if came[i] != want {
			t.Errorf("the log got the definition of instrument %d %d times, want %d", i, came[i], want)
		}
	}
}

// TestPendingWaits checks that a feed waits while too many rows wait for the log. At the end of the
// leadership, pending rows are dropped, and feeds continue.
func TestPendingWaits(t *testing.T) {
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same", Copy: true, Epoch: "log"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	l := newPendingRows(j, 10)
	l.Define(market.Instrument{ID: market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}})
	l.Append(&journal.Row{Kind: journal.Trade, Instrument: 1, Position: 11, N: 1, Latency: -1})
	groups := l.take()
	if len(groups) != 1 || groups[0].Prev != 10 || groups[0].Last != 11 {
		t.Fatalf("groups %+v", groups)
	}
	l.await() // nothing waits
	l.setQueued(maxWaiting + 1)
	waited := make(chan struct{})
	go func() {
		l.await()
		close(waited)
	}()
	select {
	case <-waited:
		t.Error("a feed does not wait")
	default:
	}
	l.close()
	<-waited
	l.Append(&journal.Row{Kind: journal.Trade, Instrument: 1, Position: 12, N: 2, Latency: -1})
	if groups := l.take(); len(groups) != 0 {
		t.Errorf("closed pending rows have %d groups", len(groups))
	}
}

// TestPendingGroups checks that rows which wait become groups of about 64 KiB before compression,
// and that all of them count as waiting.
func TestPendingGroups(t *testing.T) {
	l := newPendingRows(openJournal(t), 0)
	const rows = 5000
	for i := range uint64(rows) {
		l.Append(&journal.Row{Kind: journal.BookUpdate, Instrument: 1, Position: i + 1, N: i + 1, Bids: []market.Level{{Price: 1, Size: market.Size(i + 1), Orders: 1}}})
	}
	waiting := l.setQueued(0)
	groups, bytes, last := l.take(), 0, uint64(0)
	const rowBytes = 48 // of such a row
	for i, g := range groups {
		if n := (g.Last - g.Prev) * rowBytes; n > 64<<10 || i < len(groups)-1 && n < 60<<10 {
			t.Errorf("group %d of %d has %d bytes", i, len(groups), n)
		}
		if n := len(g.Data); n > 32<<10 {
			t.Errorf("group %d of %d has %d bytes after compression", i, len(groups), n)
		}
		if g.Prev != last || g.Last <= g.Prev {
			t.Errorf("group %d goes from %d to %d, after %d", i, g.Prev, g.Last, last)
		}
		bytes, last = bytes+len(g.Data), g.Last
	}
	if last != rows || waiting < bytes || waiting > bytes+fullGroup {
		t.Errorf("the groups end at %d and have %d bytes, %d bytes waited", last, bytes, waiting)
	}
	if n := l.setQueued(bytes); n != bytes {
		t.Errorf("%d bytes wait after the node has taken %d", n, bytes)
	}
}

// openJournal returns an empty journal.
func openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same", Copy: true, Epoch: "log"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}
