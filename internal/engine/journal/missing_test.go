package journal

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// TestMissingSegments removes, empties or cuts a segment between others. The epoch continues, and
// every reader says which rows are missing: those after the last one before the segment, up to the
// first one of the segment after it.
func TestMissingSegments(t *testing.T) {
	damage := damages()
	delete(damage, "zeros") // damage within a segment ends the epoch
	for what, do := range damage {
		t.Run(what, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Segment = 80_000
			src := newRowSource(3, 3)
			j := begin(t, cfg, src)
			src.write(j, 6_000, true)
			epoch := j.Epoch()
			check(t, j.Close())
			files := segmentFiles(t, cfg.Folder)
			if len(files) < 5 {
				t.Fatalf("segments %v", files)
			}
			before, err := OpenReader(t.Context(), files[2])
			check(t, err)
			from, to := before.Begins(), before.Newest() // the rows of the segment
			check(t, before.Close())
			do(t, files[2])
			if what == "cut" {
				left := mustRead(t, files[2])
				if from = left.Newest(); from >= to {
					t.Fatalf("nothing is cut: %d", from)
				}
			}

			j = begin(t, cfg, src)
			if j.Epoch() != epoch || j.Complete() != to {
				t.Errorf("epoch %s, was %s; complete from %d, want %d", j.Epoch(), epoch, j.Complete(), to)
			}
			if !slices.ContainsFunc(j.Damage(), func(d Damage) bool { return d.Reason == record.ReasonBefore && d.File == files[3] }) {
				t.Errorf("damage %v", j.Damage())
			}
			want := slices.Concat(src.rows[:from], []Row{{
				Kind: Gap, CheckpointFollows: true, Position: to, Time: src.rows[to].At, At: src.rows[to].At, Latency: -1, Reason: "missing_rows",
			}}, src.rows[to:])
			sameRows(t, "scan", scanAll(t, j.Archive, ScanStart{}), want)
			sameRows(t, "scan after them", scanAll(t, j.Archive, ScanStart{Position: to}), src.rows[to:])
			wantCompleteAfter(t, j.Archive, src, to)
			for _, r := range src.rows[from:to] {
				for _, def := range src.defs {
					if _, err := j.BookAt(t.Context(), def.ID, r.At, math.MaxInt64); !errors.Is(err, ErrNotKept) {
						t.Fatalf("book at position %d, which is lost: %v", r.Position, err)
					}
				}
			}
			wantBooks(t, j.Archive, src, to)
			check(t, j.Close())

			cfg.Copy = true
			if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrIncomplete) {
				t.Errorf("as a copy of a log: %v", err)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCompleteAfter checks that each series is complete from its first row after a position.
func wantCompleteAfter(t *testing.T, a *Archive, src *rowSource, lost uint64) {
	t.Helper()
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			if slot == record.SlotSummaries {
				continue // its N are those of trades too
			}
			want := uint64(1)
			for _, r := range of(src.rows[:lost], src.numbers[i], slot) {
				want = r.N + 1
			}
			if got := a.Oldest(seriesOf(def.ID, slot)); got != want {
				t.Errorf("%s, slot %d: complete from %d, want %d", def.ID, slot, got, want)
			}
		}
	}
}

// wantBooks checks that the book after lost rows is the right one or none, and that there is one
// soon.
func wantBooks(t *testing.T, a *Archive, src *rowSource, lost uint64) {
	t.Helper()
	all := newRowSource(0, len(src.defs))
	for i := range src.rows {
		r := &src.rows[i]
		all.follow(r)
		if r.Position <= lost || i%50 > 0 {
			continue
		}
		k := slices.Index(src.numbers, r.Instrument)
		got, err := a.BookAt(t.Context(), src.defs[k].ID, r.At, math.MaxInt64)
		switch {
		case r.Position < lost+600 && errors.Is(err, ErrNotKept):
		case !all.known[k] && errors.Is(err, ErrNoBook):
		case err != nil:
			t.Errorf("book at position %d: %v", r.Position, err)
		case !slices.Equal(got.Bids, all.books[k].Append(nil, 1, 0)) || !slices.Equal(got.Asks, all.books[k].Append(nil, 2, 0)):
			t.Errorf("another book at position %d", r.Position)
		}
	}
}
