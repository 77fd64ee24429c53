package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/market"
)

// TestRecorded checks which instruments have rows: in closed days, in open ones, in days whose
// index is missing, and after a day was removed. Instruments with rows of books alone count, and
// those of which a book was only lost do not.
func TestRecorded(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(1, 6)
	j := begin(t, cfg, src) // the instruments have the numbers 1 to 6
	rows := []Row{
		{Kind: Trade, Instrument: 1}, {Kind: BookUpdate, Instrument: 2}, {Kind: BookLost, Instrument: 3},
		{Kind: BookState, Instrument: 4, At: dayNanos},
		{Kind: Status, Instrument: 5, Phase: market.Halt, At: 2 * dayNanos}, {Kind: BookState, Instrument: 2, At: 2 * dayNanos},
	}
	for i, r := range rows {
		r.Position, r.N, r.At = uint64(i+1), 1, r.At+start
		r.Time = r.At
		j.Append(&r)
		j.Commit()
	}
	for j.CheckpointPending() {
		j.Commit()
	}
	reopen := func(what string, want ...uint32) {
		t.Helper()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, cfg)
		if got := j.Recorded(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	reopen("open days", 2, 5, 4, 1)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	reopen("closed days", 2, 5, 4, 1)
	if d := j.Days(); len(d) != 3 || !d[0].Closed || !d[1].Closed || d[2].Closed {
		t.Fatalf("%+v", d)
	}
	if err := os.Remove(filepath.Join(j.days[1].folder, dayfile.Name)); err != nil {
		t.Fatal(err)
	}
	reopen("a day without index", 2, 5, 4, 1)
	if err := os.RemoveAll(j.days[0].folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cfg.Folder, "state")); err != nil {
		t.Fatal(err)
	}
	reopen("a day less, in a new epoch", 2, 5, 4)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
