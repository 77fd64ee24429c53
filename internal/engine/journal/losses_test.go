package journal

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// wantMinSeqs checks that every series with lost rows is complete after its last lost row, and the
// others as before.
func wantMinSeqs(t *testing.T, j *Journal, src *rowSource, lost []Row) {
	t.Helper()
	if got, want := j.Complete(), lost[len(lost)-1].Position; got != want {
		t.Errorf("complete behind position %d, want %d", got, want)
	}
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			want := uint64(1)
			if rows := of(lost, src.numbers[i], slot); len(rows) > 0 {
				want = rows[len(rows)-1].N + 1
			}
			if got := j.Oldest(seriesOf(def.ID, slot)); got != want {
				t.Errorf("%s, slot %d: complete from %d, want %d", def.ID, slot, got, want)
			}
		}
	}
}

// TestMinSeqsWhileSuspended checks that Oldest and Complete include lost rows immediately, whether
// they were appended before, during or after the failure.
func TestMinSeqsWhileSuspended(t *testing.T) {
	for _, during := range []int{0, 3, 5_000} {
		for _, after := range []int{0, 1, 300} {
			cfg := testConfig(t)
			cfg.Logger = nil
			disk := newSlowDisk()
			cfg.sys.Write = disk.write
			src := newRowSource(61, 4)
			j := begin(t, cfg, src)
			src.write(j, 2_000, true)
			kept := len(src.rows)
			for range 4 {
				j.Append(src.next(true))
			}
			finish := disk.startWrite(t, j)
			for range during {
				j.Append(src.next(true))
			}
			finish(syscall.EIO)
			for range after {
				j.Append(src.next(true))
			}
			wantMinSeqs(t, j, src, src.rows[kept:])
			lost := len(src.rows)
			j.space.Store(true)
			j.Commit()
			src.write(j, 500, true)
			wantOldestAfter(t, j.Archive, src, lost)
			if got, want := j.Complete(), src.rows[lost-1].Position; got != want {
				t.Errorf("gone on, complete behind position %d, want %d", got, want)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLostWhileSuspended asks for rows that are being lost: by N, by time, and for the book. They
// are missing, also for a reader of another process, and after the end of this one.
func TestLostWhileSuspended(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	disk := newSlowDisk()
	cfg.sys.Write = disk.write
	src := newRowSource(63, 3)
	j := begin(t, cfg, src)
	src.write(j, 2_000, true)
	kept := len(src.rows)
	for range 4 {
		j.Append(src.next(true))
	}
	disk.startWrite(t, j)(syscall.EIO)
	for range 2_000 {
		j.Append(src.next(true))
	}
	epoch, last := j.Epoch(), src.position
	wantEnd(t, mustRead(t, cfg.Folder).Archive, src, epoch, uint64(kept))
	for i, def := range src.defs {
		for slot := range record.NumSlots {
			lost := of(src.rows[kept:], src.numbers[i], slot)
			if slot == record.SlotSummaries || len(lost) == 0 {
				continue
			}
			f, err := j.Find(seriesOf(def.ID, slot), epoch)
			check(t, err)
			middle := lost[len(lost)/2].Time
			for _, r := range []Range{{}, {AfterN: lost[0].N - 1}, {Start: lost[0].Time}, {Start: middle, End: middle + 1}} {
				r.Epoch = epoch
				got, err := f.Lost(t.Context(), r)
				if err != nil || len(got) != 1 || got[0].From != lost[0].N || got[0].To != lost[len(lost)-1].N || got[0].Position != last || got[0].At != src.at {
					t.Errorf("%s, slot %d, %+v: %+v, %v", def.ID, slot, r, got, err)
				}
			}
			f.Close()
		}
		if _, err := j.BookAt(t.Context(), def.ID, src.rows[kept].At, math.MaxInt64); !errors.Is(err, ErrNotKept) {
			t.Errorf("%s: the book while rows are lost: %v", def.ID, err)
		}
		if _, err := j.BookAt(t.Context(), def.ID, src.rows[kept-1].At, math.MaxInt64); err != nil {
			t.Errorf("%s: the book before: %v", def.ID, err)
		}
	}
	check(t, j.Close())
	cfg.sys.Write = nil
	if now := nextEpoch(t, cfg, src.at); now == epoch {
		t.Fatal("the epoch continues")
	}
	wantEnd(t, mustRead(t, cfg.Folder).Archive, src, epoch, uint64(kept))
}

// TestMinSeqsOfOverflow loses rows because too many wait for the disk, after the first segment that
// ended an earlier suspension: writing that segment does not make them complete again.
func TestMinSeqsOfOverflow(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	cfg.Pending = 20_000
	disk := newSlowDisk()
	cfg.sys.Write = disk.write
	src := newRowSource(62, 2)
	j := begin(t, cfg, src)
	src.write(j, 200, true)
	j.Append(src.next(true))
	disk.startWrite(t, j)(syscall.EIO)
	j.space.Store(true)
	finish := disk.startWrite(t, j) // first write of the next segment
	for j.sus == nil {
		j.Append(src.next(true))
	}
	for range 300 {
		j.Append(src.next(true))
	}
	finish(nil)
	for i, def := range src.defs {
		rows := of(src.rows, src.numbers[i], int(Trades))
		if got, want := j.Oldest(Series{Instrument: def.ID}), rows[len(rows)-1].N+1; got != want {
			t.Errorf("%s: complete from %d, want %d", def.ID, got, want)
		}
	}
	if got := j.Complete(); got != src.position {
		t.Errorf("complete behind position %d, want %d", got, src.position)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
