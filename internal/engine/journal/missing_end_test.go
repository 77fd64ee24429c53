package journal

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// TestMissingEnd removes, cuts or damages the newest segment of an epoch, before or after the next
// epoch has begun. From then on, every reader says that rows of the epoch are missing after the
// last stored one: at once, after days are closed, and after another start.
func TestMissingEnd(t *testing.T) {
	for name, x := range map[string]struct {
		damage string
		killed bool // else there was a clean end
		later  bool // the next epoch has begun before the damage
		memory bool // the page of the machine is lost
		power  bool // so was what the disk had not synced
	}{
		"removed": {damage: "removed"}, "empty": {damage: "empty"}, "cut": {damage: "cut"},
		"removed after a kill": {damage: "removed", killed: true}, "cut after a kill": {damage: "cut", killed: true},
		"removed, and another machine": {damage: "removed", memory: true},
		"removed later":                {damage: "removed", later: true},
		"zeros":                        {damage: "zero end"}, "zeros after a kill": {damage: "zero end", killed: true}, "zeros later": {damage: "zero end", later: true},
		"zeros after a loss of power": {damage: "zero end", killed: true, power: true},
		"cut after a loss of power":   {damage: "cut", killed: true, power: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Segment, cfg.Memory = 80_000, t.TempDir()
			src := newRowSource(3, 3)
			j := begin(t, cfg, src)
			src.write(j, 4_000, true)
			epoch, to := j.Epoch(), src.position
			if x.killed {
				cfg.Folder = copyFolder(t, cfg.Folder)
			}
			check(t, j.Close())
			if x.memory {
				cfg.Memory = t.TempDir()
			}
			files := segmentFiles(t, cfg.Folder)
			last := files[len(files)-1]
			if x.later {
				check(t, os.Remove(filepath.Join(cfg.Folder, stateName)))
				nextEpoch(t, cfg, src.at)
			}
			all := damages()
			all["zero end"] = zeroEnd
			all[x.damage](t, last)
			if x.power {
				cfg.BootID, cfg.Memory = "boot-2", t.TempDir()
			}
			from := mustRead(t, cfg.Folder)
			unknown := x.damage == "cut" && x.killed // only the page of the machine knows the end
			if !unknown && !slices.ContainsFunc(from.Damage(), func(d Damage) bool { return d.Reason == record.ReasonMissing && d.From > 0 }) {
				t.Errorf("a reader reports %v", from.Damage())
			}
			stored, gap := uint64(0), uint64(0)
			check(t, from.Scan(t.Context(), ScanStart{Epoch: epoch, Damaged: func(error) {}}, nil, allKinds, func(r *Row) bool {
				if r.Kind == Gap {
					gap = r.Position
				} else {
					stored = r.Position
				}
				return true
			}))
			if !unknown && gap != stored+1 {
				t.Errorf("a scan has a Gap at %d, want one after %d", gap, stored)
			}
			if stored == 0 || stored >= to {
				t.Fatalf("positions up to %d of %d are stored", stored, to)
			}
			if !unknown {
				wantEnd(t, from.Archive, src, epoch, stored)
			}

			for range 2 { // starts
				now := nextEpoch(t, cfg, src.at)
				if now == epoch {
					t.Fatal("the epoch continues")
				}
				r := mustRead(t, cfg.Folder)
				wantEnd(t, r.Archive, src, epoch, stored)
				if got := r.Epochs(); len(got) != 2 {
					t.Errorf("epochs %v", got)
				}
			}
			j = mustOpen(t, cfg)
			src.at += 2 * dayNanos
			next := newRowSource(4, 3)
			next.at = src.at
			next.define(j)
			next.write(j, 100, true)
			check(t, j.closeDays(t.Context(), testEncoder(t)))
			wantEnd(t, j.Archive, src, epoch, stored)
			check(t, j.Close())
			wantEnd(t, mustRead(t, cfg.Folder).Archive, src, epoch, stored)
		})
	}
}

// zeroEnd overwrites the second half of a file.
func zeroEnd(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	check(t, err)
	clear(b[len(b)/2:])
	check(t, os.WriteFile(name, b, 0o600))
}

// TestMissingBeginning removes the first segment of an epoch that is not the oldest one. Its first
// rows are missing, and not removed with the oldest days.
func TestMissingBeginning(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 80_000
	nextEpoch(t, cfg, start)
	files := len(segmentFiles(t, cfg.Folder))
	check(t, os.Remove(filepath.Join(cfg.Folder, stateName)))
	src := newRowSource(3, 3)
	src.at = start + 7_200_000_000_000
	j := begin(t, cfg, src)
	src.write(j, 4_000, true)
	epoch := j.Epoch()
	check(t, j.Close())
	check(t, os.Remove(segmentFiles(t, cfg.Folder)[files]))
	r := mustRead(t, cfg.Folder)
	first := uint64(0)
	check(t, r.Scan(t.Context(), ScanStart{Epoch: epoch}, nil, allKinds, func(row *Row) bool {
		first = row.Position
		return row.Kind == Gap
	}))
	lost := map[uint64]bool{}
	for n := range first - 1 {
		lost[n+1] = true
	}
	if len(lost) < 100 {
		t.Fatalf("the first position is %d", first)
	}
	wantLost(t, r.Archive, src, lost)
}

// nextEpoch opens a journal, writes rows an hour after a time, and returns their epoch.
func nextEpoch(t *testing.T, cfg Config, at int64) string {
	t.Helper()
	src := newRowSource(5, 3)
	src.at = at + 3_600_000_000_000
	j := begin(t, cfg, src)
	defer func() { check(t, j.Close()) }()
	src.position = lastPosition(j.views(j.Epoch()))
	src.write(j, 50, true)
	return j.Epoch()
}

// wantEnd checks that each series of an epoch says that rows are missing after the last stored one.
func wantEnd(t *testing.T, a *Archive, src *rowSource, epoch string, stored uint64) {
	t.Helper()
	if !a.Incomplete() {
		t.Error("the journal counts as complete")
	}
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			if slot == record.SlotSummaries {
				continue
			}
			f, err := a.Find(seriesOf(def.ID, slot), epoch)
			check(t, err)
			n := uint64(0)
			for _, r := range of(src.rows[:stored], src.numbers[i], slot) {
				n = r.N
			}
			got, err := f.Lost(t.Context(), Range{Epoch: epoch})
			check(t, err)
			if n > 0 && (len(got) != 1 || got[0].From != n+1 || got[0].To != 0) {
				t.Errorf("%s, slot %d: %+v, want one range from %d", def.ID, slot, got, n+1)
			}
			if lost := of(src.rows[stored:], src.numbers[i], slot); n > 0 && len(lost) > 0 {
				at := lost[len(lost)-1].Time
				if got, err = f.Lost(t.Context(), Range{Epoch: epoch, Start: at, End: at + 1}); err != nil || len(got) != 1 {
					t.Errorf("%s, slot %d, at the time of a missing row: %+v, %v", def.ID, slot, got, err)
				}
			}
			f.Close()
		}
		at := src.rows[len(src.rows)-1].At
		if _, err := a.BookAt(t.Context(), def.ID, at, math.MaxInt64); !errors.Is(err, ErrNotKept) && !errors.Is(err, ErrNoBook) {
			t.Errorf("%s: a book after the missing rows: %v", def.ID, err)
		}
	}
}
