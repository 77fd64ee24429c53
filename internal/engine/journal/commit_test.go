package journal

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
)

// slowDisk stalls each write until it is released.
type slowDisk struct {
	came    chan struct{} // a write has begun
	proceed chan error    // ends it with this error
	mu      sync.Mutex
	active  bool
}

func newSlowDisk() *slowDisk {
	return &slowDisk{came: make(chan struct{}), proceed: make(chan error)}
}

func (d *slowDisk) stall(on bool) {
	d.mu.Lock()
	d.active = on
	d.mu.Unlock()
}

func (d *slowDisk) write(f *os.File, b []byte) (int, error) {
	d.mu.Lock()
	active := d.active
	d.mu.Unlock()
	if active {
		d.came <- struct{}{}
		if err := <-d.proceed; err != nil {
			n, _ := f.Write(b[:len(b)/2]) // a partial write
			return n, err
		}
	}
	return f.Write(b)
}

// startWrite begins a commit whose first write stalls, and returns a function that ends it.
func (d *slowDisk) startWrite(t *testing.T, j *Journal) (finish func(error)) {
	t.Helper()
	b := j.Take()
	if b == nil {
		t.Fatal("there is nothing to write")
	}
	d.stall(true)
	done := make(chan struct{})
	go func() {
		j.Write(b)
		close(done)
	}()
	<-d.came
	d.stall(false)
	return func(err error) {
		d.proceed <- err
		<-done
		j.Done(b)
	}
}

// TestAppendWhileWriting appends rows, some of which begin segments, while the disk does not
// respond.
func TestAppendWhileWriting(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 30_000
	disk := newSlowDisk()
	cfg.sys.Write = disk.write
	src := newRowSource(31, 3)
	j := begin(t, cfg, src)
	for range 6 {
		j.Append(src.next(true))
		finish := disk.startWrite(t, j)
		committed := len(scanAll(t, j.Archive, ScanStart{}))
		for range 700 {
			j.Append(src.next(true))
		}
		if j.Take() != nil {
			t.Fatal("a second batch while the first is written")
		}
		if n := len(scanAll(t, j.Archive, ScanStart{})); n != committed || !j.Pending() {
			t.Fatalf("%d rows are read, %d were committed; pending: %v", n, committed, j.Pending())
		}
		finish(nil)
		j.Commit()
		if j.Pending() {
			t.Fatal("rows wait behind a commit")
		}
	}
	sameRows(t, "live", scanAll(t, j.Archive, ScanStart{}), src.rows)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg)
	sameRows(t, "opened again", scanAll(t, j.Archive, ScanStart{}), src.rows)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFailsDuringAppends has a write fail while rows are appended: the gap contains all of
// them and no earlier row.
func TestWriteFailsDuringAppends(t *testing.T) {
	for _, during := range []int{0, 1, 5_000} {
		cfg := testConfig(t)
		cfg.Segment = 30_000
		disk := newSlowDisk()
		cfg.sys.Write = disk.write
		src := newRowSource(32, 3)
		j := begin(t, cfg, src)
		src.write(j, 2_000, true)
		before := len(src.rows)
		j.Append(src.next(true))
		finish := disk.startWrite(t, j)
		for range during {
			j.Append(src.next(true))
		}
		finish(syscall.EIO)
		if _, err, ok := j.Suspended(); !ok || !errors.Is(err, syscall.EIO) || j.Pending() {
			t.Fatalf("suspended: %v, %v; pending: %v", ok, err, j.Pending())
		}
		wantNewEpoch(t, cfg, copyFolder(t, cfg.Folder), j.Epoch())
		src.write(j, 10, true)
		kept := len(src.rows)
		j.space.Store(true)
		j.Commit()
		if _, err, ok := j.Suspended(); ok {
			t.Fatalf("there is space, and still: %v", err)
		}
		src.write(j, 100, true)
		wantGap(t, j.Archive, src, src.rows[:before], kept, src.rows[kept-1].Position)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResumeFails has the first write after a suspension fail while rows are appended: rows are
// still lost, and each is counted once.
func TestResumeFails(t *testing.T) {
	cfg := testConfig(t)
	disk := newSlowDisk()
	cfg.sys.Write = disk.write
	src := newRowSource(33, 3)
	j := begin(t, cfg, src)
	src.write(j, 500, true)
	before := len(src.rows)
	j.Append(src.next(true))
	disk.startWrite(t, j)(syscall.ENOSPC)
	src.write(j, 20, true)
	j.space.Store(true)
	finish := disk.startWrite(t, j)
	for range 30 {
		j.Append(src.next(true))
	}
	finish(syscall.ENOSPC)
	if _, _, ok := j.Suspended(); !ok {
		t.Fatal("not suspended any more")
	}
	src.write(j, 40, true)
	kept := len(src.rows)
	j.space.Store(true)
	j.Commit()
	src.write(j, 100, true)
	wantGap(t, j.Archive, src, src.rows[:before], kept, src.rows[kept-1].Position)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPendingLimit appends more than may wait for the disk: the rest is lost and reported, and
// waiting rows are stored.
func TestPendingLimit(t *testing.T) {
	cfg := testConfig(t)
	cfg.Pending, cfg.Segment = 200_000, 60_000
	disk := newSlowDisk()
	cfg.sys.Write = disk.write
	src := newRowSource(34, 3)
	j := begin(t, cfg, src)
	src.write(j, 100, true)
	j.Append(src.next(true))
	finish := disk.startWrite(t, j)
	fits := 0
	for range 10_000 {
		if j.Append(src.next(true)); j.sus == nil {
			fits = len(src.rows)
		}
	}
	if lost := len(src.rows) - fits; lost < 1_000 || fits < 2_000 {
		t.Fatalf("%d rows wait, %d are lost", fits, lost)
	}
	if bytes := j.rows + j.batch.rows; bytes < cfg.Pending || bytes > cfg.Pending+1_000 || !j.Full() {
		t.Fatalf("%d bytes wait; full: %v", bytes, j.Full())
	}
	finish(nil)
	if !j.Pending() {
		t.Fatal("nothing waits, though the state does not say yet that rows are lost")
	}
	j.Commit()
	if _, err, ok := j.Suspended(); !ok || !errors.Is(err, errDiskSlow) || j.Pending() || j.Full() {
		t.Fatalf("suspended: %v, %v; pending: %v", ok, err, j.Pending())
	}
	sameRows(t, "what waited", scanAll(t, j.Archive, ScanStart{}), src.rows[:fits])
	wantNewEpoch(t, cfg, copyFolder(t, cfg.Folder), j.Epoch())
	kept := len(src.rows)
	j.space.Store(true)
	j.Commit()
	src.write(j, 100, true)
	wantGap(t, j.Archive, src, src.rows[:fits], kept, src.rows[kept-1].Position)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
