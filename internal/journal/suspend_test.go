package journal

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// smallDisk is a disk that takes so many bytes.
type smallDisk struct {
	mu   sync.Mutex
	room int
}

func (d *smallDisk) grow() {
	d.mu.Lock()
	d.room = 1 << 30
	d.mu.Unlock()
}

func (d *smallDisk) write(f *os.File, b []byte) (int, error) {
	d.mu.Lock()
	n := min(d.room, len(b))
	d.room -= n
	d.mu.Unlock()
	n, err := f.Write(b[:n])
	if err == nil && n < len(b) {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// TestFullDisk fills the disk at many places: what was committed before is there, rows are lost
// until there is room, then comes a hole, and all behind it is there again.
func TestFullDisk(t *testing.T) {
	for room := 100; room < 60_000; room += 60_000/soak(400) + 7 {
		cfg := testConfig(t)
		cfg.Logger = nil
		cfg.Segment = 30_000
		disk := &smallDisk{room: room}
		cfg.write = disk.write
		tape := newTape(uint64(room), 3)
		j := begin(t, cfg, tape)
		committed := 0
		for {
			_, err, ok := j.Suspended()
			if ok {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("suspended by %v", err)
				}
				break
			}
			committed = len(tape.rows)
			tape.write(j, 5, true)
		}
		tape.write(j, 50, true) // lost
		if j.probe() == nil {
			t.Fatal("a full disk has room")
		}
		// Where the head of a segment did not fit, rows that were committed with it did.
		before := scanAll(t, j.Archive, Place{})
		if n := len(before); n < committed || n > committed+5 {
			t.Fatalf("room for %d bytes: %d rows, %d were committed", room, n, committed)
		}
		sameRows(t, "before", before, tape.rows[:len(before)])
		copied := copyFolder(t, cfg.Folder)
		lost := tape.position

		disk.grow()
		if err := j.probe(); err != nil {
			t.Fatal(err)
		}
		j.space.Store(true)
		j.Commit() // a hub that has nothing new
		if _, err, ok := j.Suspended(); ok {
			t.Fatalf("there is room, and still: %v", err)
		}
		kept := len(tape.rows)
		tape.write(j, 500, true)
		wantHole(t, j.Archive, tape, before, kept, lost)
		wantOldestAfter(t, j.Archive, tape, kept)
		epoch := j.Epoch()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, cfg)
		if j.Epoch() != epoch {
			t.Error("it went on before the end, and the epoch is a new one")
		}
		wantHole(t, j.Archive, tape, before, kept, lost)
		wantOldestAfter(t, j.Archive, tape, kept)
		if _, rows := restoreAll(t, j); len(rows) > 500+1 {
			t.Errorf("%d rows are restored", len(rows))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		wantNewEpoch(t, cfg, copied, epoch)
	}
}

// wantNewEpoch opens what a kill would have left while rows were being lost.
func wantNewEpoch(t *testing.T, cfg Config, folder, old string) {
	t.Helper()
	cfg.Folder = folder
	j := mustOpen(t, cfg)
	if j.Epoch() == old {
		t.Error("rows were lost before the kill, and the epoch goes on")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantHole(t *testing.T, a *Archive, tape *tape, before []Row, kept int, position uint64) {
	t.Helper()
	got := scanAll(t, a, Place{})
	at := slices.IndexFunc(got, func(r Row) bool { return r.Kind == Hole })
	if at != len(before) {
		t.Fatalf("the hole is at row %d, want %d", at, len(before))
	}
	h := got[at]
	if h.Position != position || h.N != uint64(kept-len(before)) || h.Reason != "disk_full" || h.At != tape.rows[kept-1].At {
		t.Errorf("hole %+v; %d rows up to %d are lost", h, kept-len(before), position)
	}
	sameRows(t, "before the hole", got[:at], before)
	sameRows(t, "behind the hole", got[at+1:], tape.rows[kept:])
	d := a.Days()[0]
	if d.Complete != max(h.At, d.From) || d.Rows != uint64(len(got)-1) {
		t.Errorf("day %+v with %d rows and a hole up to %d", d, len(got)-1, h.At)
	}
	// Who asks for what comes behind a place in the hole is told of it too.
	part := scanAll(t, a, Place{Position: position - 1})
	if len(part) == 0 || part[0].Kind != Hole {
		t.Error("a scan from within the hole does not tell it")
	}
}

func wantOldestAfter(t *testing.T, a *Archive, tape *tape, kept int) {
	t.Helper()
	for i, def := range tape.defs {
		for slot := range numSlots - 1 {
			if rows := of(tape.rows[kept:], tape.numbers[i], slot); len(rows) > 0 {
				if got := a.Oldest(seriesOf(def.ID, slot)); got != rows[0].N {
					t.Errorf("%s, slot %d: complete from %d, want %d", def.ID, slot, got, rows[0].N)
				}
			}
		}
	}
}

// TestRunRecovers has Run find out that there is room again, and sync and close days besides.
func TestRunRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t)
		disk := &smallDisk{room: 20_000}
		cfg.write = disk.write
		tape := newTape(19, 3)
		j := begin(t, cfg, tape)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		tape.write(j, 1_000, true)
		since, _, ok := j.Suspended()
		if !ok || time.Since(since) > time.Second {
			t.Fatalf("suspended: %v, since %v", ok, since)
		}
		time.Sleep(5 * time.Second)
		j.Commit()
		if _, _, ok := j.Suspended(); !ok {
			t.Fatal("there is no room yet")
		}
		disk.grow()
		time.Sleep(2 * time.Second)
		j.Commit()
		if _, err, ok := j.Suspended(); ok {
			t.Fatalf("there is room: %v", err)
		}
		tape.at += dayNanos
		tape.write(j, 100, true)
		tape.at += dayNanos
		tape.write(j, 100, true)
		time.Sleep(2 * time.Second)
		if d := j.Days(); len(d) != 3 || !d[0].Closed || !d[1].Closed || d[2].Closed {
			t.Errorf("days: %+v", d)
		}
		stop()
		if err := errors.Join(<-done, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFailingSync has the disk lose what it took: that is no journal to go on with.
func TestFailingSync(t *testing.T) {
	cfg := testConfig(t)
	tape := newTape(23, 2)
	j := begin(t, cfg, tape)
	tape.write(j, 100, true)
	before := len(tape.rows)
	failed := error(&os.PathError{Op: "sync", Path: "x", Err: syscall.EIO})
	j.fault.Store(&failed)
	j.Commit()
	if _, err, ok := j.Suspended(); !ok || !errors.Is(err, syscall.EIO) {
		t.Fatalf("suspended: %v, %v", ok, err)
	}
	tape.write(j, 10, true)
	j.space.Store(true)
	j.Commit()
	if _, _, ok := j.Suspended(); ok {
		t.Fatal("it does not go on")
	}
	tape.write(j, 100, true)
	wantHole(t, j.Archive, tape, tape.rows[:before], before+10, tape.rows[before+9].Position)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSyncIsVerified has the kernel give other bytes for rows that a sync failed to bring to the disk: who reads them,
// by their place or in order, gets an error and not another price.
func TestFailedSyncIsVerified(t *testing.T) {
	cfg := testConfig(t)
	tape := newTape(24, 2)
	j := begin(t, cfg, tape)
	tape.write(j, 2_000, true)
	name := segmentFiles(t, cfg.Folder)[0]
	broken, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	j.duty.Lock()
	live := j.live
	j.live = broken // its sync fails
	j.duty.Unlock()
	if err := j.syncFiles(); err == nil {
		t.Fatal("a closed file was synced")
	}
	j.duty.Lock()
	j.live = live
	j.duty.Unlock()
	checkAll(t, "nothing was forgotten", j.Archive, tape)

	trades := Series{Instrument: tape.defs[0].ID}
	places := j.days[0].segments[0].series[seriesKey{tape.numbers[0], uint8(Trades)}].chunks[0].places
	at := int64(places[5])*8 + headSize
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, name, at, b[at]^1) // of a price
	var d *Damage
	if err := j.Read(t.Context(), trades, Range{}, func(string, *Row) bool { return true }); !errors.As(err, &d) {
		t.Errorf("read by place: %v", err)
	}
	if err := j.Scan(t.Context(), Place{}, nil, allKinds, func(*Row) bool { return true }); !errors.As(err, &d) {
		t.Errorf("scanned: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
