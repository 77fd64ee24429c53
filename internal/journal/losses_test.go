package journal

import (
	"syscall"
	"testing"
)

// wantFloors wants every series to be complete from behind its last row among those that are
// lost, and the others to be as complete as they were.
func wantFloors(t *testing.T, j *Journal, tape *tape, lost []Row) {
	t.Helper()
	if got, want := j.Complete(), lost[len(lost)-1].Position; got != want {
		t.Errorf("complete behind position %d, want %d", got, want)
	}
	for i, def := range tape.defs {
		for slot := range numSlots {
			want := uint64(1)
			if rows := of(lost, tape.numbers[i], slot); len(rows) > 0 {
				want = rows[len(rows)-1].N + 1
			}
			if got := j.Oldest(seriesOf(def.ID, slot)); got != want {
				t.Errorf("%s, slot %d: complete from %d, want %d", def.ID, slot, got, want)
			}
		}
	}
}

// TestFloorsWhileSuspended has Oldest and Complete tell what is lost from the moment on that it
// is, whether it was appended before the disk failed, while it did, or after.
func TestFloorsWhileSuspended(t *testing.T) {
	for _, during := range []int{0, 3, 5_000} {
		for _, after := range []int{0, 1, 300} {
			cfg := testConfig(t)
			cfg.Logger = nil
			disk := newSlowDisk()
			cfg.write = disk.write
			tape := newTape(61, 4)
			j := begin(t, cfg, tape)
			tape.write(j, 2_000, true)
			kept := len(tape.rows)
			for range 4 {
				j.Append(tape.next(true))
			}
			finish := disk.startWrite(t, j)
			for range during {
				j.Append(tape.next(true))
			}
			finish(syscall.EIO)
			for range after {
				j.Append(tape.next(true))
			}
			wantFloors(t, j, tape, tape.rows[kept:])
			lost := len(tape.rows)
			j.space.Store(true)
			j.Commit()
			tape.write(j, 500, true)
			wantOldestAfter(t, j.Archive, tape, lost)
			if got, want := j.Complete(), tape.rows[lost-1].Position; got != want {
				t.Errorf("gone on, complete behind position %d, want %d", got, want)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFloorsOfOverflow has rows lost since too many wait for the disk, behind the head of the
// segment that ended the suspension before: that it is written does not make them found again.
func TestFloorsOfOverflow(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	cfg.Pending = 20_000
	disk := newSlowDisk()
	cfg.write = disk.write
	tape := newTape(62, 2)
	j := begin(t, cfg, tape)
	tape.write(j, 200, true)
	j.Append(tape.next(true))
	disk.startWrite(t, j)(syscall.EIO)
	j.space.Store(true)
	finish := disk.startWrite(t, j) // the head of the next segment
	for j.sus == nil {
		j.Append(tape.next(true))
	}
	for range 300 {
		j.Append(tape.next(true))
	}
	finish(nil)
	for i, def := range tape.defs {
		rows := of(tape.rows, tape.numbers[i], int(Trades))
		if got, want := j.Oldest(Series{Instrument: def.ID}), rows[len(rows)-1].N+1; got != want {
			t.Errorf("%s: complete from %d, want %d", def.ID, got, want)
		}
	}
	if got := j.Complete(); got != tape.position {
		t.Errorf("complete behind position %d, want %d", got, tape.position)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
