package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// commitAsBefore commits as the programs before 0.2.0 did: a block may begin with a frame that has
// no other record.
func commitAsBefore(j *Journal) {
	if len(j.sources.changed) > 0 && j.seg != nil {
		j.frameFor(record.Base{Position: j.position, At: j.newest})
	}
	j.Commit()
}

// TestBlocks compares rows with those that were written, by index, by file and by place: after
// restarts, after days are closed, and in another process. Commits of all sizes end at the border
// of a block.
func TestBlocks(t *testing.T) {
	for _, w := range []struct {
		name   string
		commit func(*Journal)
		empty  bool // some blocks begin with a frame that has no other record
	}{{"today", (*Journal).Commit, false}, {"before", commitAsBefore, true}} {
		for _, rows := range []int{1, 3, 14} {
			t.Run(fmt.Sprintf("%s/%d rows", w.name, rows), func(t *testing.T) {
				t.Parallel()
				cfg := testConfig(t)
				cfg.Segment = 300_000
				src := newRowSource(uint64(rows), 2)
				for process := range 6 {
					if process > 0 && process%2 == 0 {
						src.at += dayNanos - src.at%dayNanos
					}
					writeBlocks(t, cfg, src, rows, w.commit)
				}
				j := begin(t, cfg, src)
				checkAll(t, "opened again", j.Archive, src)
				if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
					t.Fatal(err)
				}
				checkAll(t, "closed", j.Archive, src)
				wantDays(t, j.Days(), src)
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				r := mustRead(t, cfg.Folder)
				checkAll(t, "read", r.Archive, src)
				checkPlaces(t, r.Archive, src)
				if n := emptyBlocks(t, r.Archive); n > 0 != (w.empty && rows < 14) {
					t.Errorf("%d blocks begin with a frame that has no other record", n)
				}
			})
		}
	}
}

// writeBlocks writes rows in one process.
func writeBlocks(t *testing.T, cfg Config, src *rowSource, rows int, commit func(*Journal)) {
	t.Helper()
	j := begin(t, cfg, src)
	if len(src.rows) > 0 && (j.Epoch() != j.Epochs()[0] || len(j.Damage()) > 0) {
		t.Fatalf("epochs %v, %v, damage %v", j.Epochs(), j.Epoch(), j.Damage())
	}
	checkPlaces(t, j.Archive, src)
	for i := range 3_000 {
		j.Append(src.next(true))
		if i%rows == 0 {
			commit(j)
		}
	}
	commit(j)
	checkPlaces(t, j.Archive, src)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// mustRead opens a journal for reading until the test ends.
func mustRead(t *testing.T, folder string) *Reader {
	t.Helper()
	r, err := OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestOldIndexes opens days whose indexes have version 1 and too low bounds. Rows are right, also
// while one day after the other is closed again.
func TestOldIndexes(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 200_000
	src := newRowSource(5, 3)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 3, 4_000)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	renamed := &src.defs[0]
	renamed.Name = "Another name"
	j.Define(*renamed) // in the last day
	src.write(j, 10, true)
	days, newest := j.Days(), j.Newest()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range days[:2] {
		ageIndex(t, filepath.Join(cfg.Folder, d.Date, dayfile.Name))
	}
	r := mustRead(t, cfg.Folder)
	checkAll(t, "a reader", r.Archive, src)
	checkPlaces(t, r.Archive, src)

	j = begin(t, cfg, src)
	defer j.Close()
	for k := 1; k >= 0; k-- {
		checkAll(t, "old", j.Archive, src)
		checkPlaces(t, j.Archive, src)
		if !j.days[k].index.Old() {
			t.Errorf("%s has a new index", days[k].Date)
		}
		j.renew(j.days[k])
		if def, _ := j.Instrument(src.numbers[0]); def.Name != renamed.Name {
			t.Errorf("the definition is that of %q", def.Name)
		}
		checkAll(t, "read again", j.Archive, src)
		checkPlaces(t, j.Archive, src)
	}
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	got := j.Days()
	for i := range got {
		if off := got[i].Bytes - days[i].Bytes; off > -100 && off < 100 { // descriptions differ
			got[i].Bytes = days[i].Bytes
		}
	}
	if !slices.Equal(got, days) || j.Newest() != newest {
		t.Errorf("days:\n got %+v\nwant %+v", got, days)
	}
	for _, d := range days[:2] {
		if index, err := dayfile.Open(filepath.Join(cfg.Folder, d.Date, dayfile.Name), j.unpack); err != nil || index.Old() || index.Close() != nil {
			t.Errorf("index of %s: %v", d.Date, err)
		}
	}
}

// ageIndex makes the index of a day one of version 1, with bounds that are too low.
func ageIndex(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const sections, spans = 4, 3
	end := len(text) - sections*24 - 16
	text, foot := text[:end:end], text[end:]
	section := func(i int) []byte {
		at := record.Word(foot, 3*i)
		return slices.Clone(text[at : at+record.Word(foot, 3*i+1)])
	}
	replace := func(i int, b []byte) {
		copy(foot[24*i:], record.AppendWords(nil, uint64(len(text)), uint64(len(b)), uint64(record.Checksum(b))))
		text = append(text, b...)
	}
	var meta dayfile.Meta
	if err := json.Unmarshal(section(0), &meta); err != nil {
		t.Fatal(err)
	}
	meta.Version = 1
	for i := range meta.Segments {
		s := &meta.Segments[i]
		s.Last, s.To, s.Most = s.First, s.From, s.Least
	}
	changed, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	replace(0, changed)
	list := section(spans)
	for at := 24; at < len(list); at += 32 {
		clear(list[at : at+8])
	}
	replace(spans, list)
	copy(foot[sections*24:], record.AppendWords(nil, uint64(record.Checksum(foot[:sections*24]))))
	if err := os.WriteFile(name, append(text, foot...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkPlaces checks the next rows, of a few blocks, from many positions and times.
func checkPlaces(t *testing.T, a *Archive, src *rowSource) {
	t.Helper()
	const most = 1_500
	for k := 0; k < len(src.rows); k += 701 {
		after, since := src.rows[k+1:], src.rows[k:]
		sameRows(t, "from a position", scanSome(t, a, ScanStart{Position: src.rows[k].Position}, most), after[:min(most, len(after))])
		sameRows(t, "from a time", scanSome(t, a, ScanStart{Time: src.rows[k].At}, most), since[:min(most, len(since))])
	}
	for i := range src.rows {
		if src.rows[i].Position != uint64(i)+1 {
			t.Fatalf("row %d has position %d", i, src.rows[i].Position)
		}
	}
}

// emptyBlocks returns the number of blocks of all days that begin with a frame without another
// record.
func emptyBlocks(t *testing.T, a *Archive) (n int) {
	t.Helper()
	for _, d := range a.Days() {
		k, err := a.EmptyBlocks(t.Context(), d.Date)
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	return n
}
