package hub_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
)

// TestVirtualListing checks that the first status of an instrument with a virtual clock has the
// time of that clock, and is in the folder of its day. That time is in the definition, or is that
// of earlier events of the market, or of the first one.
func TestVirtualListing(t *testing.T) {
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	begin := time.Date(2024, 8, 8, 12, 0, 0, 0, time.UTC).UnixNano()
	define := func(symbol string, listed int64) market.Handle {
		in := market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "M", Term: "CI"}, VirtualClock: true, StartsEmpty: true, Listed: listed}
		handle, err := h.Define(in)
		if err != nil {
			t.Fatal(err)
		}
		return handle
	}
	a := define("A", 0)
	define("B", 0)
	define("C", begin-5)
	define("B", begin-2) // its listing is known now
	if err := h.Publish([]market.Event{{Kind: market.KindTrade, Handle: a, Time: begin, Price: market.Scale, Size: market.Scale}}); err != nil {
		t.Fatal(err)
	}
	define("D", 0)
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	type first struct{ status, book int64 }
	got := map[string]first{}
	err = r.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Status, journal.BookState), func(row *journal.Row) bool {
		def, _ := r.Instrument(row.Instrument)
		times := got[def.ID.Symbol]
		if row.N != 1 || row.Checkpoint {
			t.Errorf("%s: %+v", def.ID, row)
		}
		if row.Kind == journal.Status {
			times.status = row.Time
		} else {
			times.book = row.Time
		}
		got[def.ID.Symbol] = times
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for symbol, want := range map[string]int64{"A": begin, "B": begin - 2, "C": begin - 5, "D": begin} {
		if got[symbol] != (first{want, want}) {
			t.Errorf("%s: %+v, want %d", symbol, got[symbol], want)
		}
	}
	if days := r.Days(); len(days) != 1 || days[0].Date != "2024-08-08" {
		t.Errorf("days %v", days)
	}
}

// TestVirtualCheckpoint removes the first day of a journal with a virtual clock. The checkpoint of
// the second day has times of that clock, so the book is known from the start of that day.
func TestVirtualCheckpoint(t *testing.T) {
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}
	handle, err := h.Define(market.Instrument{ID: id, VirtualClock: true})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2024, 8, 8, 12, 0, 0, 0, time.UTC).UnixNano()
	next := begin + int64(24*time.Hour)
	level := func(price int64) []market.Level { return []market.Level{streamtest.Level(price, 1)} }
	events := []market.Event{
		{Kind: market.KindStatus, Time: begin, Phase: market.Halt},
		{Kind: market.KindSnapshot, Time: begin, Bids: level(100), Asks: level(101)},
	}
	for i := range int64(9) { // the checkpoint comes with one of them
		events = append(events, market.Event{Kind: market.KindTrade, Time: next + i, Price: market.Scale, Size: market.Scale})
	}
	for _, e := range append(events, market.Event{Kind: market.KindUpdate, Time: next + 9, Bids: level(99)}) {
		e.Handle = handle
		if err := h.Publish([]market.Event{e}); err != nil {
			t.Fatal(err)
		}
		j.Commit()
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(folder, "2024-08-08")); err != nil {
		t.Fatal(err)
	}
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for at, n := range map[int64]uint64{next + 8: 1, next + 9: 2} {
		for _, published := range []int64{at, math.MaxInt64} {
			if book, err := r.BookAt(t.Context(), id, published, at); err != nil || book.N != n || len(book.Bids) != int(n) {
				t.Errorf("published until %d, at %d: %+v, %v", published, at, book, err)
			}
		}
	}
	var kinds []journal.Kind
	err = r.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Status, journal.Quote, journal.BookState)|journal.Checkpoints, func(row *journal.Row) bool {
		if row.Checkpoint {
			kinds = append(kinds, row.Kind)
			if row.At < next || row.At > next+8 || row.Time > row.At {
				t.Errorf("a %v of the checkpoint has T %d and was published at %d", row.Kind, row.Time, row.At)
			}
		}
		return true
	})
	if want := []journal.Kind{journal.Status, journal.Quote, journal.BookState}; err != nil || !slices.Equal(kinds, want) {
		t.Errorf("the checkpoint has %v, want %v: %v", kinds, want, err)
	}
}
