package journal

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// manyDays returns a journal of six days, five of them closed, of which retain keeps two, and its
// first instrument's trades.
func manyDays(t *testing.T) (j *Journal, cfg Config, s Series, want []Row) {
	t.Helper()
	cfg = testConfig(t)
	cfg.Segment = 100_000
	cfg.Days = 2
	src := newRowSource(16, 3)
	j = begin(t, cfg, src)
	writeDays(t, j, src, 6, 4_000)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	return j, cfg, Series{Instrument: src.defs[0].ID}, of(src.rows, src.numbers[0], int(Trades))
}

// TestRemovedMeanwhile reads rows of days that are all removed meanwhile, and checks that their
// files are closed afterwards.
func TestRemovedMeanwhile(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		j, _, s, want := manyDays(t)
		if reverse {
			slices.Reverse(want)
		}
		first := j.days[0].index
		var got []Row
		err := j.Read(t.Context(), s, Range{Reverse: reverse}, func(_ string, r *Row) bool {
			got = append(got, *r)
			if len(got) == 3 {
				if err := j.retain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
		if err != nil {
			t.Errorf("backwards %v: %v", reverse, err)
		}
		sameRows(t, "removed while they were read", got, want)
		if d := j.Days(); len(d) != 3 {
			t.Errorf("kept: %+v", d)
		}
		if _, err := first.Spans(0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("the file of a day that is gone and not read any more: %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemovedAfterFind finds rows and reads them after their days are removed and the journal is
// closed.
func TestRemovedAfterFind(t *testing.T) {
	j, _, s, want := manyDays(t)
	f, err := j.Find(s, "")
	if err != nil {
		t.Fatal(err)
	}
	first, second := j.days[0].index, j.days[4].index
	if err := j.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got []Row
		if err := f.Read(t.Context(), Range{}, func(_ string, r *Row) bool { got = append(got, *r); return true }); err != nil {
			t.Fatal(err)
		}
		sameRows(t, "removed when they were found", got, want)
	}
	f.Close()
	if _, err := first.Spans(0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the file of a day that is gone: %v", err)
	}
	if _, err := second.Spans(0); err != nil {
		t.Errorf("the file of a day that is kept: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Spans(0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the file of a day when the journal is closed: %v", err)
	}
}

// TestReadersOfRemovedDays reads while days are removed. Each reader gets all rows from some day,
// and Oldest promises no more than that.
func TestReadersOfRemovedDays(t *testing.T) {
	j, cfg, s, want := manyDays(t)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg) // has not read the lists of its days
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-over:
					done = true
				default:
				}
				f, err := j.Find(s, "")
				if err != nil {
					t.Error(err)
					return
				}
				whole := j.Oldest(s)
				var got []uint64
				err = f.Read(t.Context(), Range{}, func(_ string, r *Row) bool { got = append(got, r.N); return true })
				f.Close()
				last := want[len(want)-1].N
				if err != nil || len(got) == 0 || got[0] > whole || got[len(got)-1] != last || uint64(len(got)) != last-got[0]+1 {
					t.Errorf("%d rows, said to be complete from %d: %v", len(got), whole, err)
					return
				}
			}
		})
	}
	if err := j.retain(t.Context()); err != nil {
		t.Error(err)
	}
	close(over)
	readers.Wait()
	if d := j.Days(); len(d) != 3 {
		t.Errorf("kept: %+v", d)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestScanOfRemovedDay checks for ErrNotKept.
func TestScanOfRemovedDay(t *testing.T) {
	j, _, _, _ := manyDays(t)
	views := j.views("")
	if err := j.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := j.walk(t.Context(), &views[0], walkAll, func(*record.Cursor, []byte) (bool, error) { return true, nil })
	if !errors.Is(err, ErrNotKept) {
		t.Errorf("a segment of a day that is gone: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
