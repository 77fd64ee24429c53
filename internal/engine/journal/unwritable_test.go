package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/state"
)

// badDisk is a disk that refuses all writes while it fails, even of existing data.
type badDisk struct {
	fails error
	state string // a file that cannot be changed
}

func (d *badDisk) use(cfg *Config) { cfg.sys.Write, cfg.sys.WriteAt = d.write, d.writeAt }

func (d *badDisk) write(f *os.File, b []byte) (int, error) {
	if d.fails != nil {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: d.fails}
	}
	return f.Write(b)
}

func (d *badDisk) writeAt(f *os.File, b []byte, at int64) (int, error) {
	if f.Name() == d.state {
		return 0, &os.PathError{Op: "write", Path: d.state, Err: syscall.EIO}
	}
	return f.WriteAt(b, at)
}

// fail makes the disk refuse rows and the state of a journal.
func (d *badDisk) fail(j *Journal, err error) {
	d.fails, d.state = err, filepath.Join(j.cfg.Folder, stateName)
}

// repair makes the disk accept everything again.
func (d *badDisk) repair() { *d = badDisk{} }

// TestNothingCanBeWritten streams rows while neither rows nor the state can be written: after a
// kill the same epoch does not use their N again.
func TestNothingCanBeWritten(t *testing.T) {
	for _, fails := range []error{syscall.EROFS, syscall.EIO, syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT} {
		t.Run(fails.Error(), func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Segment = 30_000
			disk := &badDisk{}
			disk.use(&cfg)
			src := newRowSource(77, 3)
			j := begin(t, cfg, src)
			src.write(j, 500, true)
			epoch := j.Epoch()
			healthy := copyFolder(t, cfg.Folder)

			disk.fail(j, fails)
			src.write(j, 1, true)
			if _, err, ok := j.Suspended(); !ok || !errors.Is(err, fails) {
				t.Fatalf("suspended: %v, %v", ok, err)
			}
			wantNewEpoch(t, cfg, afterKill(t, cfg, disk), epoch)
			src.write(j, 500, true)
			wantNewEpoch(t, cfg, afterKill(t, cfg, disk), epoch)

			// With free space the gap is on disk, and the epoch continues whatever happens.
			disk.repair()
			j.space.Store(true)
			j.Commit()
			src.write(j, 10, true)
			wantSameEpoch(t, cfg, copyFolder(t, cfg.Folder), epoch)
			wantSameEpoch(t, cfg, healthy, epoch)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// afterKill returns a journal as after a kill, on a working disk.
func afterKill(t *testing.T, cfg Config, disk *badDisk) string {
	t.Helper()
	disk.fails = nil
	return copyFolder(t, cfg.Folder)
}

func wantSameEpoch(t *testing.T, cfg Config, folder, old string) {
	t.Helper()
	cfg.Folder = folder
	j := mustOpen(t, cfg)
	if j.Epoch() != old {
		t.Error("nothing was lost, and the epoch is a new one")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryOfTheMachine continues an epoch after a kill if shared memory has its position, and
// begins a new one if that is empty. It also begins a new one in a folder that is older than what
// shared memory has, or a copy of one that is in use, after a clean end too.
func TestMemoryOfTheMachine(t *testing.T) {
	cfg := testConfig(t)
	cfg.Memory = t.TempDir()
	src := newRowSource(78, 3)
	j := begin(t, cfg, src)
	src.write(j, 300, true)
	epoch := j.Epoch()
	backup := copyFolder(t, cfg.Folder)
	src.write(j, 1, true)
	killed := copyFolder(t, cfg.Folder)
	page := highWaterPath(cfg.Memory, j.journal)
	mark := snapshotFiles(t, []string{page})
	if _, err := state.OpenHighWater(cfg.Memory, cfg.Folder, j.journal); err == nil {
		t.Error("another process has the same mark")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, same := copyFolder(t, cfg.Folder), snapshotFiles(t, []string{page})
	j = begin(t, cfg, src)
	src.write(j, 1, true)
	copied := begin(t, Config{Folder: copyFolder(t, stopped), Memory: cfg.Memory, BootID: cfg.BootID, Logger: cfg.Logger}, src)
	if j.Epoch() != epoch || copied.Epoch() == epoch {
		t.Errorf("epoch %s continues as %s, and as %s in a copy beside it", epoch, j.Epoch(), copied.Epoch())
	}
	if err := errors.Join(copied.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	later := snapshotFiles(t, []string{page})
	j = mustOpen(t, cfg)
	if err := errors.Join(j.BeginEpoch("another", 7000), j.Close()); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg)
	if err := j.Close(); err != nil || j.Epoch() != "another" {
		t.Errorf("an epoch without rows does not continue: %s, %v", j.Epoch(), err)
	}
	another := snapshotFiles(t, []string{page})
	emptied := func() {
		if err := os.Remove(page); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		folder string
		memory func()
		keeps  bool
	}{
		{"killed", killed, mark, true},
		{"killed, memory emptied", killed, emptied, false},
		{"a backup from before", backup, mark, false},
		{"stopped", stopped, same, true},
		{"stopped, memory emptied", stopped, emptied, true},
		{"stopped, and older", stopped, later, false},
		{"stopped, in an earlier epoch", stopped, another, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg.Folder = copyFolder(t, c.folder)
			c.memory()
			j := mustOpen(t, cfg)
			if kept := j.Epoch() == epoch; kept != c.keeps {
				t.Errorf("epoch kept: %v, want %v", kept, c.keeps)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
