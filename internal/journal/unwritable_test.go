package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// badDisk is a disk that refuses all writes while it fails, even of existing data.
type badDisk struct{ fails error }

func (d *badDisk) write(f *os.File, b []byte) (int, error) {
	if d.fails != nil {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: d.fails}
	}
	return f.Write(b)
}

// fail makes the disk refuse rows and the state.
func (d *badDisk) fail(t *testing.T, j *Journal, err error) {
	t.Helper()
	d.fails = err
	readOnly, e := os.Open(filepath.Join(j.cfg.Folder, stateName))
	if e := errors.Join(e, j.state.file.Close()); e != nil {
		t.Fatal(e)
	}
	j.state.file = readOnly // writes to it fail
}

// repair makes the disk accept everything again.
func (d *badDisk) repair(t *testing.T, j *Journal) {
	t.Helper()
	d.fails = nil
	file, e := os.OpenFile(filepath.Join(j.cfg.Folder, stateName), os.O_RDWR, 0)
	if e := errors.Join(e, j.state.file.Close()); e != nil {
		t.Fatal(e)
	}
	j.state.file = file
}

// TestNothingCanBeWritten streams rows while neither rows nor the state can be written: after a
// kill the same epoch does not use their N again.
func TestNothingCanBeWritten(t *testing.T) {
	for _, fails := range []error{syscall.EROFS, syscall.EIO, syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT} {
		t.Run(fails.Error(), func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Segment = 30_000
			disk := &badDisk{}
			cfg.write = disk.write
			src := newRowSource(77, 3)
			j := begin(t, cfg, src)
			src.write(j, 500, true)
			epoch := j.Epoch()
			healthy := copyFolder(t, cfg.Folder)

			disk.fail(t, j, fails)
			src.write(j, 1, true)
			if _, err, ok := j.Suspended(); !ok || !errors.Is(err, fails) {
				t.Fatalf("suspended: %v, %v", ok, err)
			}
			wantNewEpoch(t, cfg, afterKill(t, cfg, disk), epoch)
			src.write(j, 500, true)
			wantNewEpoch(t, cfg, afterKill(t, cfg, disk), epoch)

			// With free space the gap is on disk, and the epoch continues whatever happens.
			disk.repair(t, j)
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
// begins a new one if that is empty or ahead of this copy of the journal.
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
	mark := snapshotFiles(t, []string{highWaterPath(cfg.Memory, j.journal)})
	if _, err := openHighWater(cfg.Memory, cfg.Folder, j.journal); err == nil {
		t.Error("another process has the same mark")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(cfg.Memory); err != nil || len(left) > 0 {
		t.Errorf("after a clean end: %v, %v", left, err)
	}
	for _, c := range []struct {
		name   string
		folder string
		memory bool
		keeps  bool
	}{
		{"killed", killed, true, true},
		{"killed, memory emptied", killed, false, false},
		{"a backup from before", backup, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg.Folder = copyFolder(t, c.folder)
			if c.memory {
				mark()
			}
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
