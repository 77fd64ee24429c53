package journal

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// splitJournal is a journal of six days whose first four were moved away, as if it were that of a
// new node of a cluster.
type splitJournal struct {
	cfg    Config
	staged string // folder of the first four days
	days   []Day  // all six
	series Series // trades of the first instrument
	trades []Row
}

func newSplit(t *testing.T) splitJournal {
	t.Helper()
	cfg := testConfig(t)
	cfg.Folder, cfg.Segment, cfg.Days, cfg.Copy, cfg.Epoch = filepath.Join(t.TempDir(), "journal"), 100_000, 100, true, "e1"
	src := newRowSource(16, 3)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 6, 4_000)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	days := j.Days()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(filepath.Dir(cfg.Folder), "staged")
	if err := os.MkdirAll(staged, 0o700); err != nil {
		t.Fatal(err)
	}
	var list []EarlierDay
	for _, d := range days[:4] {
		list = append(list, EarlierDay{d.Date, d.Hash, d.Latest})
		if err := os.Rename(filepath.Join(cfg.Folder, d.Date), filepath.Join(staged, d.Date)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(EarlierDays{From: "a", Days: list, Next: days[4].Date})
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.Folder, EarlierName), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return splitJournal{cfg, staged, days, Series{Instrument: src.defs[0].ID}, of(src.rows, src.numbers[0], int(Trades))}
}

// mustHave checks that the journal has the trades from a day on, and knows where they begin.
func (x *splitJournal) mustHave(t *testing.T, j *Journal, first int) {
	t.Helper()
	days, s, want := x.days[first:], x.series, x.trades
	i := slices.IndexFunc(want, func(r Row) bool { return r.At >= days[0].From })
	var got []Row
	if err := j.Read(t.Context(), s, Range{}, func(_ string, r *Row) bool { got = append(got, *r); return true }); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "from "+days[0].Date, got, want[i:])
	if n := j.Oldest(s); n != want[i].N {
		t.Errorf("complete from %d, want %d", n, want[i].N)
	}
	if have := j.Days(); !slices.Equal(have, days) {
		t.Errorf("days\n%+v, want\n%+v", have, days)
	}
	if j.Complete() != j.Begins() {
		t.Errorf("complete after %d, begins after %d", j.Complete(), j.Begins())
	}
}

// TestAddDay adds the earlier days of a journal while its rows are read, with a new start in
// between.
func TestAddDay(t *testing.T) {
	x := newSplit(t)
	cfg, staged, days, s := x.cfg, x.staged, x.days, x.series
	j := mustOpen(t, cfg)
	if !j.Whole() || len(j.Earlier()) != 4 {
		t.Fatalf("whole %v, earlier %+v", j.Whole(), j.Earlier())
	}
	x.mustHave(t, j, 4)
	for i := 3; i >= 0; i-- {
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				last := uint64(0)
				err := j.Read(t.Context(), s, Range{}, func(_ string, r *Row) bool {
					if last > 0 && r.N != last+1 {
						t.Errorf("row %d follows row %d", r.N, last)
					}
					last = r.N
					return true
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := AddDay(j, filepath.Join(staged, days[i].Date)); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
		x.mustHave(t, j, i)
		if len(j.Earlier()) != i {
			t.Errorf("%d days are left, want %d", len(j.Earlier()), i)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // as if the process had been killed after the move of a day
			if err := os.Rename(filepath.Join(staged, days[0].Date), filepath.Join(cfg.Folder, days[0].Date)); err != nil {
				t.Fatal(err)
			}
			i--
		}
		j = mustOpen(t, cfg)
		x.mustHave(t, j, i)
		if len(j.Earlier()) != i {
			t.Errorf("%d days are left after a start, want %d", len(j.Earlier()), i)
		}
	}
	if _, err := os.Stat(filepath.Join(cfg.Folder, EarlierName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the list is still there: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAddWrongDay checks that a day which does not belong before the first one is refused, and that
// the journal stays as it is.
func TestAddWrongDay(t *testing.T) {
	x, foreign := newSplit(t), newSplit(t).staged
	cfg, staged, days := x.cfg, x.staged, x.days
	j := mustOpen(t, cfg)
	right := filepath.Join(staged, days[3].Date)
	for name, c := range map[string]struct {
		folder string
		want   error
	}{
		"not the next one":    {filepath.Join(staged, days[2].Date), ErrWrongDay},
		"of another journal":  {filepath.Join(foreign, days[3].Date), ErrWrongDay},
		"a folder of nothing": {filepath.Join(staged, "2020-01-01"), os.ErrNotExist},
	} {
		if err := AddDay(j, c.folder); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		x.mustHave(t, j, 4)
	}
	segments, err := filepath.Glob(filepath.Join(right, "*.segz"))
	if err != nil || len(segments) < 2 {
		t.Fatal(segments, err)
	}
	if err := os.Rename(segments[0], segments[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if err := AddDay(j, right); err == nil {
		t.Error("a day without a segment was added")
	}
	x.mustHave(t, j, 4)
	if left, err := filepath.Glob(filepath.Join(cfg.Folder, "*"+days[3].Date)); err != nil || len(left) > 0 {
		t.Errorf("left in the journal: %v, %v", left, err)
	}
	if err := ForgetEarlier(j); err != nil || j.Earlier() != nil {
		t.Errorf("%v, %+v", err, j.Earlier())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRetainEarlier checks that earlier days are given up when the first day of the journal is
// removed: they would leave a gap.
func TestRetainEarlier(t *testing.T) {
	x := newSplit(t)
	cfg, staged, days := x.cfg, x.staged, x.days
	cfg.Bytes = 1000
	j := mustOpen(t, cfg)
	if err := j.retain(t.Context()); err != nil || len(j.Days()) != 1 || j.Earlier() != nil {
		t.Errorf("%v, days %+v, earlier %+v", err, j.Days(), j.Earlier())
	}
	if err := AddDay(j, filepath.Join(staged, days[3].Date)); !errors.Is(err, ErrWrongDay) {
		t.Errorf("added before a gap: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGapBeforeEarlier checks that earlier days are given up at a start if a day after them is
// missing, and that a list which cannot be read is an error that names the file.
func TestGapBeforeEarlier(t *testing.T) {
	x := newSplit(t)
	cfg, days := x.cfg, x.days
	if err := os.RemoveAll(filepath.Join(cfg.Folder, days[4].Date)); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, cfg)
	if j.Earlier() != nil {
		t.Errorf("earlier %+v", j.Earlier())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[", `[{"Date":"2026-11-20"}]`} {
		if err := os.WriteFile(filepath.Join(cfg.Folder, EarlierName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), EarlierName) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestEarlierUntil checks before which time rows may be missing.
func TestEarlierUntil(t *testing.T) {
	a := &Archive{}
	if a.EarlierUntil(false) != 0 || a.EarlierUntil(true) != 0 {
		t.Error("rows are missing without earlier days")
	}
	a.earlier.Store(&EarlierDays{Days: []EarlierDay{{Latest: 70}, {Latest: 90}, {Latest: 80}}})
	if got := a.EarlierUntil(false); got != 91 {
		t.Errorf("until %d", got)
	}
	if a.EarlierUntil(true) != math.MaxInt64 {
		t.Error("a virtual clock has a limit")
	}
	a.earlier.Store(&EarlierDays{Days: []EarlierDay{{Latest: 70}, {}}})
	if got := a.EarlierUntil(false); got != math.MaxInt64 {
		t.Errorf("of an older program: until %d", got)
	}
}

// TestSpaceForDays checks that days above the limits of a journal are not wanted.
func TestSpaceForDays(t *testing.T) {
	x := newSplit(t)
	cfg, days := x.cfg, x.days
	for _, c := range []struct {
		days  int
		bytes int64
		want  bool
	}{{100, 1 << 40, true}, {2, 1 << 40, true}, {1, 1 << 40, false}, {100, days[4].Bytes + 10, true}, {100, days[4].Bytes + 9, false}} {
		cfg.Days, cfg.Bytes = c.days, c.bytes
		j := mustOpen(t, cfg)
		if got := HasSpace(j, 10); got != c.want {
			t.Errorf("%d days, %d bytes: %v", c.days, c.bytes, got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
