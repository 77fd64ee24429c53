package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// zero overwrites a page in the middle of a file.
func zero(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	check(t, err)
	info, err := f.Stat()
	check(t, err)
	_, err = f.WriteAt(make([]byte, 4096), info.Size()/2&^4095)
	check(t, err)
	check(t, f.Close())
}

// damages are damages of a segment between others.
func damages() map[string]func(t *testing.T, name string) {
	return map[string]func(t *testing.T, name string){
		"removed": func(t *testing.T, name string) { t.Helper(); check(t, os.Remove(name)) },
		"empty":   func(t *testing.T, name string) { t.Helper(); check(t, os.Truncate(name, record.HeaderSize)) },
		"cut":     func(t *testing.T, name string) { t.Helper(); check(t, os.Truncate(name, 30_001)) },
		"zeros":   zero,
	}
}

// TestLostRows damages a segment between others. Scans and reads have all other rows, and say which
// are missing.
func TestLostRows(t *testing.T) {
	for what, do := range damages() {
		for name, x := range map[string]struct{ closed, later, old bool }{
			" of an open day": {}, " of a closed day": {closed: true}, " while it is open": {later: true}, " after an old index": {old: true},
		} {
			if x.old && what != "removed" {
				continue // other damage is not between segments
			}
			if x.later && (what == "zeros" || what == "cut") {
				continue // a read has more rows than a scan: it reads by offset, and does not verify again
			}
			t.Run(what+name, func(t *testing.T) {
				cfg := testConfig(t)
				cfg.Segment = 80_000
				src := newRowSource(3, 3)
				j := begin(t, cfg, src)
				writeDays(t, j, src, 2, 3_000)
				if x.closed || x.old {
					check(t, j.closeDays(t.Context(), testEncoder(t)))
				}
				first := j.Days()[0].Date
				check(t, j.Close())
				file := segmentFiles(t, cfg.Folder)[1]
				if x.old {
					ageIndex(t, filepath.Join(cfg.Folder, first, dayfile.Name))
					k := slices.IndexFunc(segmentFiles(t, cfg.Folder), func(s string) bool { return filepath.Base(filepath.Dir(s)) != first })
					file = segmentFiles(t, cfg.Folder)[k]
				}
				if !x.later {
					do(t, file)
				}
				r, err := OpenReader(t.Context(), cfg.Folder)
				check(t, err)
				defer r.Close()
				if x.later {
					do(t, file)
				}
				if x.old && !slices.ContainsFunc(r.Damage(), func(d Damage) bool { return d.Reason == record.ReasonBefore }) {
					t.Error("it is not noticed")
				}
				lost := wantScan(t, r.Archive, src)
				if x.closed && what != "removed" {
					lost = nil // the index of the day has all rows
				}
				wantLost(t, r.Archive, src, lost)
			})
		}
	}
}

// wantScan checks that a scan has the rows of a source, or else a Gap. It returns the missing ones.
func wantScan(t *testing.T, a *Archive, src *rowSource) (lost map[uint64]bool) {
	t.Helper()
	lost = map[uint64]bool{}
	next := uint64(1)
	err := a.Scan(t.Context(), ScanStart{Damaged: func(error) {}}, nil, allKinds, func(r *Row) bool {
		switch {
		case r.Kind == Gap:
			for ; next <= r.Position; next++ {
				lost[next] = true
			}
		case !equalRows(r, &src.rows[next-1]):
			t.Fatalf("row of position %d:\n got %+v\nwant %+v", next, r, src.rows[next-1])
		default:
			next++
		}
		return true
	})
	check(t, err)
	if len(lost) < 20 || len(lost) > 2_000 || next != src.position+1 {
		t.Fatalf("%d rows are missing; the last position is %d", len(lost), next-1)
	}
	return lost
}

// wantLost checks that reads of each series have its rows and say which are missing: all, and those
// of ranges that begin or end in the missing ones.
func wantLost(t *testing.T, a *Archive, src *rowSource, lost map[uint64]bool) {
	t.Helper()
	found := 0
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			if slot == record.SlotSummaries {
				continue
			}
			series := seriesOf(def.ID, slot)
			all := of(src.rows, src.numbers[i], slot)
			want := lostIn(all, lost, a.Epoch())
			found += len(want)
			stored := slices.DeleteFunc(slices.Clone(all), func(r Row) bool { return lost[r.Position] })
			f, err := a.Find(series, a.Epoch())
			check(t, err)
			for _, reverse := range []bool{false, true} {
				var got []Row
				check(t, f.Read(t.Context(), Range{Reverse: reverse, SkipDamage: true}, func(_ string, r *Row) bool {
					got = append(got, cloneRow(r))
					return true
				}))
				if reverse {
					slices.Reverse(got)
				}
				sameRows(t, "read", got, stored)
			}
			sameLost(t, f, Range{}, want)
			for _, l := range want {
				if l.From > 1 {
					sameLost(t, f, Range{ToN: l.From - 1}, before(want, l.From))
				}
				part := l
				part.From = min(l.From+1, l.To)
				if l.From < l.To {
					sameLost(t, f, Range{AfterN: l.From, ToN: l.To}, []Lost{part})
				}
				if at := all[l.From-1].Time; l.Start < at && at < l.End {
					sameLost(t, f, Range{Start: at, End: at + 1}, []Lost{l})
				}
			}
			f.Close()
		}
	}
	if found < 5 && lost != nil {
		t.Errorf("%d ranges are missing", found)
	}
}

// before returns the ranges before an N.
func before(list []Lost, n uint64) []Lost {
	return list[:slices.IndexFunc(list, func(l Lost) bool { return l.From == n })]
}

// lostIn returns the ranges of a series of which the positions are missing.
func lostIn(all []Row, lost map[uint64]bool, epoch string) (list []Lost) {
	for i := 0; i < len(all); i++ {
		if !lost[all[i].Position] {
			continue
		}
		l := Lost{Epoch: epoch, From: all[i].N}
		if i > 0 {
			l.Start = all[i-1].Time
		}
		for ; i < len(all) && lost[all[i].Position]; i++ {
			l.To = all[i].N
		}
		if i < len(all) {
			l.End, l.Position, l.At = all[i].Time, all[i].Position, all[i].At
		}
		list = append(list, l)
	}
	return list
}

func sameLost(t *testing.T, f *Found, r Range, want []Lost) {
	t.Helper()
	r.Epoch = f.archive.Epoch()
	got, err := f.Lost(t.Context(), r)
	check(t, err)
	for i := range got {
		if got[i].End == 0 { // no row follows
			got[i].Position, got[i].At = 0, 0
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v of %+v:\n got %+v\nwant %+v", f.series, r, got, want)
	}
}

// TestLostAtTheBeginning damages the first rows of a journal, and removes the first day of another
// one, of which a segment is missing too. Series whose first row comes later say what is missing,
// but not what was removed with the day.
func TestLostAtTheBeginning(t *testing.T) {
	for _, removed := range []bool{false, true} {
		cfg := testConfig(t)
		cfg.Segment = 80_000
		src := newRowSource(3, 3)
		j := begin(t, cfg, src)
		writeDays(t, j, src, 3, 3_000)
		days := j.Days()
		check(t, j.Close())
		files := segmentFiles(t, cfg.Folder)
		if removed {
			check(t, os.RemoveAll(filepath.Join(cfg.Folder, days[0].Date)))
			k := slices.IndexFunc(files, func(s string) bool { return filepath.Base(filepath.Dir(s)) == days[1].Date })
			check(t, os.Remove(files[k+1]))
		} else {
			b, err := os.ReadFile(files[0])
			check(t, err)
			clear(b[record.HeaderSize:20_000])
			check(t, os.WriteFile(files[0], b, 0o600))
		}
		r := mustRead(t, cfg.Folder)
		lost := map[uint64]bool{}
		next := uint64(1)
		if removed {
			next = r.Begins() + 1
		}
		check(t, r.Scan(t.Context(), ScanStart{}, nil, allKinds, func(row *Row) bool {
			for ; next < row.Position; next++ {
				lost[next] = true
			}
			if row.Kind != Gap {
				next++
			}
			return true
		}))
		series := 0
		for i, def := range src.defs {
			for slot := range record.NumSlots {
				if slot == record.SlotSummaries {
					continue
				}
				all := of(src.rows, src.numbers[i], slot)
				want := lostIn(all, lost, r.Epoch())
				for k := range want {
					if want[k].Start != 0 && all[want[k].From-2].Position <= r.Begins() {
						want[k].Start = 0 // the row before was removed
						series++
					}
				}
				f, err := r.Find(seriesOf(def.ID, slot), r.Epoch())
				check(t, err)
				sameLost(t, f, Range{}, want)
				f.Close()
			}
		}
		if removed && series == 0 || len(lost) < 100 {
			t.Errorf("%d rows are missing; of %d series before the first one", len(lost), series)
		}
	}
}
