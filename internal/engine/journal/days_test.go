package journal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

func testEncoder(t testing.TB) *zstd.Encoder {
	t.Helper()
	enc, err := newEncoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { enc.Close() })
	return enc
}

const dayNanos = secondsOfDay * 1e9

// writeDays writes days days of rows rows.
func writeDays(t testing.TB, j *Journal, src *rowSource, days, rows int) {
	t.Helper()
	for d := range days {
		if d > 0 {
			src.at += dayNanos - src.at%dayNanos
		}
		src.write(j, rows, true)
	}
}

func TestDays(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 200_000
	src := newRowSource(11, 6)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 3, 8_000)
	checkAll(t, "before", j.Archive, src)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	checkAll(t, "closed", j.Archive, src)
	wantDays(t, j.Days(), src)
	for _, f := range segmentFiles(t, cfg.Folder) {
		packed := strings.HasSuffix(f, packedEnding)
		if live := strings.Contains(f, dateOf(j.day)); packed == live {
			t.Errorf("%s is packed: %v", f, packed)
		}
	}
	src.write(j, 1_000, true)
	checkAll(t, "gone on", j.Archive, src)
	for _, k := range []int{0, 5, 7_999, 8_000, 15_000, 23_999} {
		sameRows(t, "from a position", scanAll(t, j.Archive, ScanStart{Position: src.rows[k].Position}), src.rows[k+1:])
		sameRows(t, "from a time", scanAll(t, j.Archive, ScanStart{Time: src.rows[k].At}), src.rows[k:])
	}
	days := j.Days()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(t.Context(), cfg.Folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkAll(t, "reader", r.Archive, src)
	if got := r.Days(); !slices.Equal(got, days) {
		t.Errorf("days of a reader:\n got %+v\nwant %+v", got, days)
	}
	first := segmentFiles(t, cfg.Folder)[0]
	one, err := OpenReader(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	got := scanAll(t, one.Archive, ScanStart{})
	sameRows(t, "one packed segment", got, src.rows[:len(got)])
	if len(got) < 1000 {
		t.Errorf("%d rows in %s", len(got), first)
	}
	trades := of(got, src.numbers[2], int(Trades))
	sameRows(t, "trades of one packed segment", readAll(t, one.Archive, Series{Instrument: src.defs[2].ID}, Range{}), trades)
}

func wantDays(t *testing.T, days []Day, src *rowSource) {
	t.Helper()
	if len(days) != 3 {
		t.Fatalf("days: %+v", days)
	}
	rows := uint64(0)
	for i, d := range days {
		var in []Row
		for _, r := range src.rows {
			if dateOf(dayOf(r.At)) == d.Date {
				in = append(in, r)
			}
		}
		rows += d.Rows
		if d.Rows != uint64(len(in)) || d.From != in[0].At || d.To != in[len(in)-1].At || d.Complete != d.From || d.Bytes <= 0 ||
			d.Closed != (i < 2) || (d.Hash != "") != (i < 2) {
			t.Errorf("day %+v has %d rows", d, len(in))
		}
	}
	if rows != uint64(len(src.rows)) {
		t.Errorf("%d rows in days, %d written", rows, len(src.rows))
	}
}

// TestHash checks that equal rows have equal hashes, in all journals and with any commits.
func TestHash(t *testing.T) {
	var hashes []string
	for i, segment := range []int64{0, 60_000, 60_000} {
		cfg := testConfig(t)
		cfg.Segment = segment
		src := newRowSource(12, 4)
		j := begin(t, cfg, src)
		for k := range 6_000 {
			if k == 3_000 {
				src.at += dayNanos
			}
			r := src.next(true)
			if i == 2 && k == 2_000 {
				r.N++
			}
			j.Append(r)
			if k%(3+i) == 0 {
				j.Commit()
			}
		}
		j.Commit()
		if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
			t.Fatal(err)
		}
		whole, err := j.Hash(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, j.Days()[0].Hash+whole)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if hashes[0] != hashes[1] || hashes[0] == hashes[2] || len(hashes[0]) != 128 {
		t.Errorf("hashes: %v", hashes)
	}
}

// TestClosingBrokenLong ends the closing of a day after each of its steps, as a crash would, and
// opens the journal.
func TestClosingBrokenLong(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 50_000
	src := newRowSource(13, 4)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 2_000)
	before := copyFolder(t, cfg.Folder)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	after := copyFolder(t, cfg.Folder)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	date := dateOf(dayOf(start))
	files, err := os.ReadDir(filepath.Join(after, date))
	if err != nil {
		t.Fatal(err)
	}
	// First the index, then each segment; each also partly written under its temporary name.
	slices.SortFunc(files, func(x, y os.DirEntry) int { return strings.Compare(y.Name(), x.Name()) })
	slices.SortStableFunc(files[1:], func(x, y os.DirEntry) int { return strings.Compare(x.Name(), y.Name()) })
	if files[0].Name() != dayfile.Name || len(files) < 4 {
		t.Fatalf("files of a closed day: %v", files)
	}
	for i := range files {
		for _, step := range []string{"half", "named", "removed"} {
			work := copyFolder(t, before)
			for k, f := range files[:i+1] {
				b, err := os.ReadFile(filepath.Join(after, date, f.Name()))
				if err != nil {
					t.Fatal(err)
				}
				to := filepath.Join(work, date, f.Name())
				if k == i && step == "half" {
					b, to = b[:len(b)/2], to+disk.TempEnding
				}
				if err := os.WriteFile(to, b, 0o600); err != nil {
					t.Fatal(err)
				}
				if k > 0 && (k < i || step == "removed") {
					remove(t, strings.TrimSuffix(to, "z"))
				}
			}
			c := cfg
			c.Folder = work
			j := mustOpen(t, c)
			checkAll(t, "broken off", j.Archive, src)
			if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
				t.Fatal(err)
			}
			checkAll(t, "closed afterwards", j.Archive, src)
			if d := j.Days()[0]; !d.Closed || len(j.Damage()) > 0 {
				t.Errorf("%+v, %v", d, j.Damage())
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(work, "*", "*"+segmentEnding)); len(left) == 0 || strings.Contains(left[0], date) {
				t.Errorf("segments that are not packed: %v", left)
			}
		}
	}
}

// TestDamagedDayFile reads a closed day with a damaged index from its segments, and closes it
// again.
func TestDamagedDayFile(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(14, 4)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 4_000)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	hash := j.Days()[0].Hash
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.Folder, dateOf(dayOf(start)), dayfile.Name)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{len(whole) - 20, len(whole) / 2, 100, 0} {
		if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, cfg)
		checkAll(t, "without the index", j.Archive, src)
		if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
			t.Fatal(err)
		}
		checkAll(t, "closed again", j.Archive, src)
		if d := j.Days()[0]; d.Hash != hash {
			t.Errorf("closed again, the hash is %s; it was %s", d.Hash, hash)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryByteOfDayFileLong changes each byte of an index: reads return the right rows, or an
// error with the damaged part of the file.
func TestEveryByteOfDayFileLong(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	src := newRowSource(15, 2)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 120)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dayfile.Name, "00000001" + packedEnding} {
		file := filepath.Join(cfg.Folder, dateOf(dayOf(start)), name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		if soak(20) == 1 {
			step = 11
		}
		if testing.Short() {
			step *= 11
		}
		for n := 0; n < len(whole); n += step {
			patch(t, file, int64(n), whole[n]^0x20)
			r, err := OpenReader(t.Context(), cfg.Folder)
			if err != nil {
				t.Fatalf("byte %d of %s: %v", n, name, err)
			}
			for i, def := range src.defs {
				for slot := range record.NumSlots {
					rightOrDamaged(t, r, seriesOf(def.ID, slot), of(src.rows, src.numbers[i], slot))
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			patch(t, file, int64(n), whole[n])
		}
	}
}

func rightOrDamaged(t *testing.T, r *Reader, s Series, want []Row) {
	t.Helper()
	i := 0
	err := r.Read(context.Background(), s, Range{}, func(_ string, row *Row) bool {
		for i < len(want) && want[i].N != row.N {
			if len(r.Damage()) == 0 {
				t.Fatalf("a row is left out in silence: N %d", want[i].N)
			}
			i++
		}
		if i == len(want) {
			t.Fatalf("a row that was not written: %+v", row)
		}
		sameRows(t, "row", []Row{*row}, want[i:i+1])
		i++
		return true
	})
	if err == nil && i < len(want) && len(r.Damage()) == 0 {
		t.Fatalf("%d rows of %d, and no error", i, len(want))
	}
}

func TestRetention(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 100_000
	cfg.Days = 2
	src := newRowSource(16, 3)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 6, 4_000)
	epoch := j.Epoch()
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := j.Days(); len(d) != 3 || d[0].Date != dateOf(dayOf(start)+3) {
		t.Fatalf("days: %+v", d)
	}
	src.rows = slices.DeleteFunc(src.rows, func(r Row) bool { return dayOf(r.At) < dayOf(start)+3 })
	checkAll(t, "what is kept", j.Archive, src)
	wantOldest(t, j.Archive, src)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(cfg.Folder); err != nil || len(left) != 3+3 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	// The removal was interrupted.
	gone := filepath.Join(cfg.Folder, removedPrefix+"2025-11-20")
	if err := os.MkdirAll(filepath.Join(gone, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Bytes = 1
	j = mustOpen(t, cfg)
	wantOldest(t, j.Archive, src)
	if err := j.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := j.Days(); len(d) != 1 || j.Epoch() != epoch {
		t.Errorf("days for one byte: %+v, epoch kept: %v", d, j.Epoch() == epoch)
	}
	src.rows = slices.DeleteFunc(src.rows, func(r Row) bool { return dayOf(r.At) < dayOf(start)+5 })
	wantOldest(t, j.Archive, src)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(cfg.Folder); err != nil || len(left) != 1+3 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// wantOldest checks that every series is complete from the first stored row.
func wantOldest(t *testing.T, a *Archive, src *rowSource) {
	t.Helper()
	for i, def := range src.defs {
		for slot := range record.NumSlots - 1 {
			want := countOf(&src.counts[i], slot) + 1
			if rows := of(src.rows, src.numbers[i], slot); len(rows) > 0 {
				want = rows[0].N
			}
			if got := a.Oldest(seriesOf(def.ID, slot)); got != want {
				t.Errorf("%s, slot %d is complete from %d, want %d", def.ID, slot, got, want)
			}
		}
		for _, r := range src.rows {
			if r.Instrument == src.numbers[i] && bookKinds.Has(r.Kind) {
				if got := a.Oldest(Series{Instrument: def.ID, Channel: Books}); got != r.N {
					t.Errorf("the book of %s is complete from %d, want %d", def.ID, got, r.N)
				}
				break
			}
		}
	}
}

// countOf returns the counter of a slot.
func countOf(c *Counts, slot int) uint64 {
	if slot >= record.SlotBars {
		return c.Bars[slot-record.SlotBars]
	}
	return c.N[slot]
}

// TestClockGoesBack files rows under the newest day.
func TestClockGoesBack(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(17, 3)
	j := begin(t, cfg, src)
	src.write(j, 1_000, true)
	src.at += dayNanos
	src.write(j, 1_000, true)
	src.at -= 2 * dayNanos
	src.write(j, 1_000, true)
	src.at += 10
	src.write(j, 1_000, true)
	for _, what := range []string{"written", "opened again"} {
		checkAll(t, what, j.Archive, src)
		var dates []string
		for _, d := range j.Days() {
			dates = append(dates, d.Date)
		}
		if want := []string{"2025-11-21", "2025-11-22"}; !slices.Equal(dates, want) {
			t.Fatalf("%s: days %v", what, dates)
		}
		var got []Row
		from := src.rows[1_200].At
		for _, r := range src.rows {
			if r.At >= from {
				got = append(got, r)
			}
		}
		sameRows(t, "from a time", scanAll(t, j.Archive, ScanStart{Time: from}), got)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, cfg)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
