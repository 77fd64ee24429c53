package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
	"github.com/ruedahq/rueda/market"
)

// copyFolder copies a journal, as after a crash.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// segmentFiles returns the segments of a folder, oldest first.
func segmentFiles(t testing.TB, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "*", "*.seg*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(x, y string) int { return strings.Compare(filepath.Base(x), filepath.Base(y)) })
	return list
}

// restoreAll returns what a hub gets after a restart: the rows of the checkpoint, and the messages
// after it.
func restoreAll(t testing.TB, j *Journal) (checkpoint, rows []Row) {
	t.Helper()
	err := j.Restore(func(r *Row) error {
		if r.Checkpoint {
			checkpoint = append(checkpoint, cloneRow(r))
		} else {
			rows = append(rows, cloneRow(r))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint, rows
}

// TestRestore checks that the counters of the checkpoint and the rows after it result in the state
// of the source.
func TestRestore(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 150_000
	src := newRowSource(5, 8)
	j := begin(t, cfg, src)
	for round := range 4 {
		src.write(j, 5_000, true)
		epoch := j.Epoch()
		if round%2 == 0 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			cfg.Folder = copyFolder(t, cfg.Folder) // as after a kill
			j.Close()
		}
		j = mustOpen(t, cfg)
		if j.Epoch() != epoch {
			t.Fatalf("round %d: a new epoch", round)
		}
		checkpoint, rows := restoreAll(t, j)
		if len(checkpoint) < len(src.defs) || len(rows) == len(src.rows) {
			t.Fatalf("round %d: %d rows of a checkpoint, %d behind it", round, len(checkpoint), len(rows))
		}
		sameRows(t, "rows behind the checkpoint", rows, src.rows[len(src.rows)-len(rows):])
		wantCounts(t, src, checkpoint, rows)
		if err := j.Start(src.checkpoint); err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(src.numbers)
		src.define(j)
		if !slices.Equal(before, src.numbers) {
			t.Fatalf("round %d: other numbers: %v, %v before", round, src.numbers, before)
		}
	}
	checkAll(t, "after all", j.Archive, src)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantCounts applies rows to the counters of a checkpoint.
func wantCounts(t *testing.T, src *rowSource, checkpoint, rows []Row) {
	t.Helper()
	counts := map[uint32]*Counts{}
	for _, r := range checkpoint {
		if r.Kind == Numbers {
			c := r.Counts
			counts[r.Instrument] = &c
		}
	}
	for _, r := range rows {
		c := counts[r.Instrument]
		switch r.Kind {
		case Trade, Cancel, Correct:
			c.N[Trades] = r.N
			c.N[Summaries]++
		case Status:
			c.N[Statuses] = r.N
		case Quote:
			c.N[Quotes] = r.N
		case Bar:
			c.Bars[r.Bar.Interval] = r.N
		case Reference:
			c.N[Summaries] = r.N
		default:
			c.N[Books] = r.N
		}
	}
	for i, n := range src.numbers {
		if *counts[n] != src.counts[i] {
			t.Fatalf("instrument %d stands at %+v, want %+v", n, *counts[n], src.counts[i])
		}
	}
}

// writeSmall writes a journal of one segment and returns the number of rows committed at each of
// its lengths.
func writeSmall(t *testing.T, cfg Config, src *rowSource, commits, rows int) (file string, at map[int64]int) {
	t.Helper()
	j := begin(t, cfg, src)
	at = map[int64]int{}
	for range commits {
		for range 1 + src.rng.IntN(rows) {
			j.Append(src.next(true))
		}
		j.Commit()
		at[j.at] = len(src.rows)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files := segmentFiles(t, cfg.Folder)
	if len(files) != 1 {
		t.Fatalf("segments: %v", files)
	}
	return files[0], at
}

// unclean makes a closed journal look as after a kill.
func unclean(t testing.TB, folder string) {
	t.Helper()
	s, _, err := state.Open(folder, realSystem())
	if err != nil {
		t.Fatal(err)
	}
	s.Clean = false
	w, err := state.OpenHighWater(folder, folder, s.Journal)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(s.Journal, s.Epoch, 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Save(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// snapshotFolder returns a function that restores the state of a folder and its high-water mark.
func snapshotFolder(t testing.TB, folder string) func() {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(folder, highWaterPrefix+"*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("high-water marks: %v, %v", marks, err)
	}
	return snapshotFiles(t, append(marks, filepath.Join(folder, stateName)))
}

// snapshotFiles is snapshotFolder for files.
func snapshotFiles(t testing.TB, names []string) func() {
	t.Helper()
	left := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		left[name] = b
	}
	return func() {
		t.Helper()
		for name, b := range left {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCutAtEveryByteLong truncates the journal at every byte of its last block: all rows committed
// before are stored, the epoch stays, and writing continues.
func TestCutAtEveryByteLong(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	src := newRowSource(6, 3)
	src.step = 300_000_000 // blocks end after 4.3 s
	file, at := writeSmall(t, cfg, src, 100, 1)
	unclean(t, cfg.Folder)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	killed := snapshotFolder(t, cfg.Folder)
	first := lastBlock(t, file)
	for at[first] == 0 {
		first-- // end of a commit
	}
	epoch, step := "", int64(1)
	if testing.Short() {
		step = 16
	}
	for n := first; n <= int64(len(whole)); n += step {
		if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		killed()
		good := n
		for at[good] == 0 {
			good--
		}
		j := mustOpen(t, cfg)
		if epoch == "" {
			epoch = j.Epoch()
		}
		if j.Epoch() != epoch {
			t.Fatalf("cut at %d: a new epoch", n)
		}
		sameRows(t, "cut", scanAll(t, j.Archive, ScanStart{}), src.rows[:at[good]])
		if d := j.Damage(); len(d) > 0 {
			t.Fatalf("cut at %d: %v", n, d)
		}
		if info, err := os.Stat(file); err != nil || info.Size() != good {
			t.Fatalf("cut at %d: %v bytes are left, %v; want %d", n, info, err, good)
		}
		if (n-first)%16 == 0 {
			continueWriting(t, j, src, at[good])
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		for _, f := range segmentFiles(t, cfg.Folder)[1:] {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lastBlock returns the offset of the last block of a segment.
func lastBlock(t *testing.T, file string) int64 {
	t.Helper()
	r, err := OpenReader(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.views("")[0].last.offset
}

// continueWriting writes a row after the stored ones.
func continueWriting(t *testing.T, j *Journal, src *rowSource, rows int) {
	t.Helper()
	if err := j.Start(src.checkpoint); err != nil {
		t.Fatal(err)
	}
	r := src.rows[len(src.rows)-1]
	r.Position, r.Instrument = src.position+1, j.Define(src.defs[0])
	j.Append(&r)
	j.Commit()
	sameRows(t, "gone on", scanAll(t, j.Archive, ScanStart{}), append(slices.Clip(src.rows[:rows]), r))
}

// TestEveryByteChangedLong changes each byte of a block: the change is detected, with its offset,
// the rows before it and after the next block are stored, and the epoch ends because rows are lost.
func TestEveryByteChangedLong(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	src := newRowSource(7, 2)
	src.step = 300_000_000 // blocks end after 4.3 s
	file, at := writeSmall(t, cfg, src, 30, 4)
	unclean(t, cfg.Folder)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	killed := snapshotFolder(t, cfg.Folder)
	last := int(lastBlock(t, file))
	for n := range whole {
		switch {
		case testing.Short() && n%41 != 0 && (n > record.HeaderSize || n%7 != 0):
			continue
		case n > record.HeaderSize && n < last && soak(20) == 1 && n%9 != 0 && !testing.Short():
			continue // the header and one block are enough
		}
		patch(t, file, int64(n), whole[n]^1<<(n%8))
		reader, err := OpenReader(t.Context(), cfg.Folder)
		if err != nil {
			t.Fatal(err)
		}
		checkDamaged(t, n, reader, src, at)
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		if n%41 == 0 {
			opened(t, cfg, killed, n < record.HeaderSize || reader.epoch == "", reader.epoch)
		}
		patch(t, file, int64(n), whole[n])
	}
}

// opened checks that a journal with lost rows begins an epoch.
func opened(t *testing.T, cfg Config, killed func(), empty bool, old string) {
	t.Helper()
	killed()
	j := mustOpen(t, cfg)
	if !empty && j.Epoch() == old {
		t.Fatal("a byte is changed and the epoch goes on")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range segmentFiles(t, cfg.Folder)[1:] { // says that rows are missing at the end
		remove(t, name)
	}
}

// patch changes one byte of a file.
func patch(t *testing.T, file string, at int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{b}, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// checkDamaged checks that at most the rows of the changed block are missing.
func checkDamaged(t *testing.T, n int, r *Reader, src *rowSource, at map[int64]int) {
	t.Helper()
	damage := r.Damage()
	if len(damage) != 1 {
		t.Fatalf("byte %d is changed: %v", n, damage)
	}
	d := damage[0]
	if n < record.HeaderSize {
		if d.Reason != record.ReasonHeader || len(r.Epochs()) != 0 {
			t.Fatalf("byte %d of the header is changed: %v, epochs %v", n, d, r.Epochs())
		}
		return
	}
	if int64(n) < d.Offset || int64(n) >= d.Offset+d.Bytes {
		t.Fatalf("byte %d is changed, damage is reported at %d, %d bytes", n, d.Offset, d.Bytes)
	}
	got := scanAll(t, r.Archive, ScanStart{})
	if k := slices.IndexFunc(got, func(r Row) bool { return r.Kind == Gap }); k >= 0 && k+1 < len(got) {
		if got[k].Position+1 != got[k+1].Position {
			t.Fatalf("byte %d is changed: rows are missing up to %d, before %d", n, got[k].Position, got[k+1].Position)
		}
		got = slices.Delete(got, k, k+1)
	} else if len(got) > 0 && len(got) < len(src.rows) && got[len(got)-1].Position == src.position {
		t.Fatalf("byte %d is changed, and no Gap says that rows are missing", n)
	}
	from, to := 0, len(src.rows) // rows committed before the damage, and up to its end
	for end, rows := range at {
		if end <= d.Offset {
			from = max(from, rows)
		}
		if end >= d.Offset+d.Bytes {
			to = min(to, rows)
		}
	}
	for from < len(got) && got[from].Position == src.rows[from].Position {
		from++ // frames of the same commit
	}
	sameRows(t, "before the damage", got[:from], src.rows[:from])
	sameRows(t, "behind the damage", got[from:], src.rows[len(src.rows)-len(got)+from:])
	if lost := len(src.rows) - len(got); lost > to {
		t.Fatalf("byte %d is changed: %d rows are lost", n, lost)
	}
	for _, def := range src.defs {
		for slot := range record.NumSlots {
			readAll(t, r.Archive, seriesOf(def.ID, slot), Range{})
		}
	}
}

func TestEpochs(t *testing.T) {
	cases := []struct {
		name  string
		edit  func(t *testing.T, cfg *Config)
		keeps bool
	}{
		{"clean end", func(*testing.T, *Config) {}, true},
		{"clean end, machine started again", func(_ *testing.T, c *Config) { c.BootID = "boot-2" }, true},
		{"killed", func(t *testing.T, c *Config) { unclean(t, c.Folder) }, true},
		{"machine crashed", func(t *testing.T, c *Config) { unclean(t, c.Folder); c.BootID = "boot-2" }, false},
		{"state lost", func(t *testing.T, c *Config) { remove(t, filepath.Join(c.Folder, stateName)) }, false},
		{"state damaged", func(t *testing.T, c *Config) {
			if err := os.WriteFile(filepath.Join(c.Folder, stateName), make([]byte, 2*stateSlot), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"segment lost", func(t *testing.T, c *Config) { remove(t, segmentFiles(t, c.Folder)[1]) }, false},
		{"killed, segment lost", func(t *testing.T, c *Config) {
			unclean(t, c.Folder)
			remove(t, segmentFiles(t, c.Folder)[1])
		}, false},
		{"clean end, then cut", func(t *testing.T, c *Config) {
			file := segmentFiles(t, c.Folder)[1]
			info, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, info.Size()-8)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Segment = 50_000
			src := newRowSource(8, 3)
			j := begin(t, cfg, src)
			src.write(j, 1200, false)
			epoch := j.Epoch()
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if n := len(segmentFiles(t, cfg.Folder)); n != 2 {
				t.Fatalf("%d segments", n)
			}
			c.edit(t, &cfg)
			j = mustOpen(t, cfg)
			defer j.Close()
			if kept := j.Epoch() == epoch; kept != c.keeps {
				t.Errorf("epoch kept: %v, want %v", kept, c.keeps)
			}
			if !c.keeps {
				if checkpoint, rows := restoreAll(t, j); len(checkpoint)+len(rows) > 0 {
					t.Errorf("a new epoch restores %d and %d rows", len(checkpoint), len(rows))
				}
				if got := j.Oldest(Series{Instrument: src.defs[0].ID}); got != 1 {
					t.Errorf("a new epoch is complete from %d", got)
				}
			}
		})
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestLock(t *testing.T) {
	cfg := testConfig(t)
	j := mustOpen(t, cfg)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStrangeFiles puts foreign files into the folder.
func TestStrangeFiles(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 50_000
	src := newRowSource(9, 3)
	j := begin(t, cfg, src)
	src.write(j, 5_000, true)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files := segmentFiles(t, cfg.Folder)
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Two are exchanged, one is duplicated, one is of another journal, and some are invalid.
	rename(files[1], files[1]+".x")
	rename(files[2], files[1])
	rename(files[1]+".x", files[2])
	twin, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	put("90000000.seg", twin)
	other := testConfig(t)
	k := begin(t, other, newRowSource(10, 3))
	newRowSource(10, 3).write(k, 500, false)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(segmentFiles(t, other.Folder)[0])
	if err != nil {
		t.Fatal(err)
	}
	put("00000050.seg", foreign)
	put("00000051.seg", []byte(strings.Repeat("no segment ", 100)))
	put("notes.txt", []byte("hello"))
	put("00000052.seg.tmp", []byte("half"))

	j = mustOpen(t, cfg)
	defer j.Close()
	checkAll(t, "strange files", j.Archive, src)
	reasons := map[string]int{}
	for _, d := range j.Damage() {
		reasons[d.Reason]++
	}
	if len(reasons) != 3 || reasons[record.ReasonTwice] != 1 || reasons[record.ReasonForeign] != 1 || reasons[record.ReasonHeader] != 1 {
		t.Errorf("left out: %v", j.Damage())
	}
	if err := j.Start(src.checkpoint); err != nil {
		t.Fatal(err)
	}
	src.write(j, 2_000, true)
	checkAll(t, "gone on", j.Archive, src)
}

// TestDefinitions adds an instrument during a day and changes another.
func TestDefinitions(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 30_000
	src := newRowSource(25, 2)
	j := begin(t, cfg, src)
	src.write(j, 1_000, true)
	changed := src.defs[0]
	changed.Name, changed.Ticks = "Another name", append(slices.Clip(changed.Ticks), market.Tick{From: 5, Step: 7})
	if n := j.Define(changed); n != src.numbers[0] {
		t.Errorf("a changed definition has number %d, was %d", n, src.numbers[0])
	}
	late := testInstrument(99)
	number := j.Define(late)
	j.Append(&Row{Kind: Trade, Instrument: number, Position: src.position + 1, N: 1, Time: src.at, At: src.at, Price: 5, Size: 6})
	j.Commit()
	check := func(what string, a *Archive) {
		t.Helper()
		if in, ok := a.Instrument(src.numbers[0]); !ok || !reflect.DeepEqual(in, changed) {
			t.Errorf("%s: %+v, want %+v", what, in, changed)
		}
		if n, ok := a.Lookup(late.ID); !ok || n != number {
			t.Errorf("%s: the late one has number %d, want %d", what, n, number)
		}
		if rows := readAll(t, a, Series{Instrument: late.ID}, Range{}); len(rows) != 1 || rows[0].Price != 5 {
			t.Errorf("%s: rows of the late one: %+v", what, rows)
		}
	}
	check("written", j.Archive)
	one, err := OpenReader(t.Context(), segmentFiles(t, cfg.Folder)[len(segmentFiles(t, cfg.Folder))-1])
	if err != nil {
		t.Fatal(err)
	}
	check("one segment", one.Archive)
	one.Close()
	folder := copyFolder(t, cfg.Folder)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Folder = folder
	j = mustOpen(t, cfg)
	check("killed", j.Archive)
	if n := j.Define(testInstrument(100)); n != number+1 {
		t.Errorf("the next one has number %d", n)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
