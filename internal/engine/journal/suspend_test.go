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

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// smallDisk is a disk of limited size.
type smallDisk struct {
	mu    sync.Mutex
	space int
}

func (d *smallDisk) grow() {
	d.mu.Lock()
	d.space = 1 << 30
	d.mu.Unlock()
}

func (d *smallDisk) write(f *os.File, b []byte) (int, error) {
	d.mu.Lock()
	n := min(d.space, len(b))
	d.space -= n
	d.mu.Unlock()
	n, err := f.Write(b[:n])
	if err == nil && n < len(b) {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// TestFullDisk fills the disk at many offsets: rows committed before are stored, rows are lost
// until there is space, then comes a gap, and all later rows are stored.
func TestFullDisk(t *testing.T) {
	for space := 100; space < 60_000; space += 60_000/soak(400) + 7 {
		cfg := testConfig(t)
		cfg.Logger = nil
		cfg.Segment = 30_000
		disk := &smallDisk{space: space}
		cfg.sys.Write = disk.write
		src := newRowSource(uint64(space), 3)
		j := begin(t, cfg, src)
		committed := 0
		for {
			_, err, ok := j.Suspended()
			if ok {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("suspended by %v", err)
				}
				break
			}
			committed = len(src.rows)
			src.write(j, 5, true)
		}
		src.write(j, 50, true) // lost
		if j.probe() == nil {
			t.Fatal("a full disk has space")
		}
		// If the beginning of a segment did not fit, the rows committed with it are lost too.
		before := scanAll(t, j.Archive, ScanStart{})
		if n := len(before); n < committed || n > committed+5 {
			t.Fatalf("space for %d bytes: %d rows, %d were committed", space, n, committed)
		}
		sameRows(t, "before", before, src.rows[:len(before)])
		copied := copyFolder(t, cfg.Folder)
		lost := src.position

		disk.grow()
		if err := j.probe(); err != nil {
			t.Fatal(err)
		}
		j.space.Store(true)
		j.Commit() // no new rows
		if _, err, ok := j.Suspended(); ok {
			t.Fatalf("there is space, and still: %v", err)
		}
		kept := len(src.rows)
		src.write(j, 500, true)
		wantGap(t, j.Archive, src, before, kept, lost)
		wantOldestAfter(t, j.Archive, src, kept)
		epoch := j.Epoch()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, cfg)
		if j.Epoch() != epoch {
			t.Error("it went on before the end, and the epoch is a new one")
		}
		wantGap(t, j.Archive, src, before, kept, lost)
		wantOldestAfter(t, j.Archive, src, kept)
		if _, rows := restoreAll(t, j); len(rows) > 500+1 {
			t.Errorf("%d rows are restored", len(rows))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		wantNewEpoch(t, cfg, copied, epoch)
	}
}

// wantNewEpoch opens the journal as after a kill while rows were lost.
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

func wantGap(t *testing.T, a *Archive, src *rowSource, before []Row, kept int, position uint64) {
	t.Helper()
	got := scanAll(t, a, ScanStart{})
	at := slices.IndexFunc(got, func(r Row) bool { return r.Kind == Gap })
	if at != len(before) {
		t.Fatalf("the gap is at row %d, want %d", at, len(before))
	}
	h := got[at]
	if h.Position != position || h.N != uint64(kept-len(before)) || h.Reason != "disk_full" || h.At != src.rows[kept-1].At {
		t.Errorf("gap %+v; %d rows up to %d are lost", h, kept-len(before), position)
	}
	sameRows(t, "before the gap", got[:at], before)
	sameRows(t, "after the gap", got[at+1:], src.rows[kept:])
	d := a.Days()[0]
	if d.Complete != max(h.At, d.From) || d.Rows != uint64(len(got)-1) {
		t.Errorf("day %+v with %d rows and a gap up to %d", d, len(got)-1, h.At)
	}
	// A reader that starts after a position in the gap gets the gap too.
	part := scanAll(t, a, ScanStart{Position: position - 1})
	if len(part) == 0 || part[0].Kind != Gap {
		t.Error("a scan that starts in the gap does not report it")
	}
}

func wantOldestAfter(t *testing.T, a *Archive, src *rowSource, kept int) {
	t.Helper()
	for i, def := range src.defs {
		for slot := range record.NumSlots - 1 {
			if rows := of(src.rows[kept:], src.numbers[i], slot); len(rows) > 0 {
				if got := a.Oldest(seriesOf(def.ID, slot)); got != rows[0].N {
					t.Errorf("%s, slot %d: complete from %d, want %d", def.ID, slot, got, rows[0].N)
				}
			}
		}
	}
}

// TestRunRecovers has Run find free space, and sync and close days.
func TestRunRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t)
		disk := &smallDisk{space: 20_000}
		cfg.sys.Write = disk.write
		src := newRowSource(19, 3)
		j := begin(t, cfg, src)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		src.write(j, 1_000, true)
		since, _, ok := j.Suspended()
		if !ok || time.Since(since) > time.Second {
			t.Fatalf("suspended: %v, since %v", ok, since)
		}
		time.Sleep(5 * time.Second)
		j.Commit()
		if _, _, ok := j.Suspended(); !ok {
			t.Fatal("there is no space yet")
		}
		disk.grow()
		time.Sleep(2 * time.Second)
		j.Commit()
		if _, err, ok := j.Suspended(); ok {
			t.Fatalf("there is space: %v", err)
		}
		src.at += dayNanos
		src.write(j, 100, true)
		src.at += dayNanos
		src.write(j, 100, true)
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

// TestFailingSync has the disk lose what it accepted: the epoch cannot continue.
func TestFailingSync(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(23, 2)
	j := begin(t, cfg, src)
	src.write(j, 100, true)
	before := len(src.rows)
	failed := error(&os.PathError{Op: "sync", Path: "x", Err: syscall.EIO})
	j.syncErr.Store(&failed)
	j.Commit()
	if _, err, ok := j.Suspended(); !ok || !errors.Is(err, syscall.EIO) {
		t.Fatalf("suspended: %v, %v", ok, err)
	}
	src.write(j, 10, true)
	j.space.Store(true)
	j.Commit()
	if _, _, ok := j.Suspended(); ok {
		t.Fatal("it does not go on")
	}
	src.write(j, 100, true)
	wantGap(t, j.Archive, src, src.rows[:before], before+10, src.rows[before+9].Position)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSyncIsVerified has the kernel return other bytes for rows of a failed sync: reads, by
// offset or in order, return an error and not another price.
func TestFailedSyncIsVerified(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(24, 2)
	j := begin(t, cfg, src)
	src.write(j, 2_000, true)
	name := segmentFiles(t, cfg.Folder)[0]
	broken, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	j.syncMu.Lock()
	live := j.activeFile
	j.activeFile = broken // its sync fails
	j.syncMu.Unlock()
	if err := j.syncFiles(); err == nil {
		t.Fatal("a closed file was synced")
	}
	j.syncMu.Lock()
	j.activeFile = live
	j.syncMu.Unlock()
	checkAll(t, "nothing was forgotten", j.Archive, src)

	trades := Series{Instrument: src.defs[0].ID}
	places := j.days[0].segments[0].series[record.SeriesKey{Instrument: src.numbers[0], Slot: uint8(Trades)}].chunks[0].places
	at := int64(places[5])*8 + record.HeadSize
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, name, at, b[at]^1) // in a price
	var d *Damage
	if err := j.Read(t.Context(), trades, Range{}, func(string, *Row) bool { return true }); !errors.As(err, &d) {
		t.Errorf("read by place: %v", err)
	}
	if err := j.Scan(t.Context(), ScanStart{}, nil, allKinds, func(*Row) bool { return true }); !errors.As(err, &d) {
		t.Errorf("scanned: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
