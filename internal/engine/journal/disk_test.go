package journal

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
)

// lossyDisk simulates a disk below a folder that loses data without sync. After powerLoss a random
// part of the rest is lost: single pages of 4 KiB and entries of folders. While fails is set,
// nothing can be changed.
type lossyDisk struct {
	t   testing.TB
	rng *rand.Rand

	mu      sync.Mutex
	root    string
	fails   error
	names   map[string]*inode // current entries
	durable map[string]*inode // synced entries
}

// inode is a file or folder of any name.
type inode struct {
	folder  bool
	synced  []byte // of a file
	removed []byte // content when its last name was removed
}

func newLossyDisk(t testing.TB, rng *rand.Rand) *lossyDisk {
	return &lossyDisk{t: t, rng: rng, root: t.TempDir(), names: map[string]*inode{}, durable: map[string]*inode{}}
}

// use makes a journal use the disk.
func (d *lossyDisk) use(cfg *Config) {
	cfg.Folder = d.root
	cfg.sys = disk.System{Open: d.open, Write: d.write, WriteAt: d.writeAt, Truncate: d.truncate, Sync: d.sync, SyncFolder: d.syncFolder,
		Rename: d.rename, Remove: d.remove, RemoveAll: d.removeAll, Mkdir: d.mkdir}
}

// failure returns the error of a change; frees means that it needs no space.
func (d *lossyDisk) failure(op, name string, frees bool) error {
	if d.fails == nil || frees && errors.Is(d.fails, syscall.ENOSPC) {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: d.fails}
}

func (d *lossyDisk) open(name string, flag int) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("open", name, d.names[name] != nil); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, flag, 0o600)
	if err == nil && d.names[name] == nil {
		d.names[name] = &inode{}
	}
	return f, err
}

func (d *lossyDisk) write(f *os.File, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("write", f.Name(), false); err != nil {
		n := 0
		if errors.Is(err, syscall.ENOSPC) {
			n, _ = f.Write(b[:d.rng.IntN(len(b)+1)])
		}
		return n, err
	}
	return f.Write(b)
}

func (d *lossyDisk) writeAt(f *os.File, b []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("write", f.Name(), false); err != nil {
		return 0, err
	}
	return f.WriteAt(b, at)
}

func (d *lossyDisk) truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("truncate", name, true); err != nil {
		return err
	}
	return os.Truncate(name, size)
}

func (d *lossyDisk) sync(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("sync", f.Name(), true); err != nil {
		return err
	}
	b, err := os.ReadFile(f.Name())
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed: the content does not matter
	}
	if err != nil {
		return err
	}
	d.names[f.Name()].synced = b
	return nil
}

func (d *lossyDisk) syncFolder(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("sync", name, true); err != nil {
		return err
	}
	if _, err := os.Stat(name); err != nil {
		return err
	}
	maps.DeleteFunc(d.durable, func(path string, _ *inode) bool { return filepath.Dir(path) == name })
	for path, i := range d.names {
		if filepath.Dir(path) == name {
			d.durable[path] = i
		}
	}
	return nil
}

func (d *lossyDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("rename", from, false); err != nil {
		return err
	}
	if d.names[from].folder {
		d.t.Fatal("folders are not renamed here")
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *lossyDisk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure("remove", name, true); err != nil {
		return err
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		return err
	}
	d.names[name].removed = b
	delete(d.names, name)
	return nil
}

func (d *lossyDisk) removeAll(name string) error { return d.remove(name) }

func (d *lossyDisk) mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil {
		return nil
	}
	if err := d.failure("mkdir", name, false); err != nil {
		return err
	}
	d.names[name] = &inode{folder: true}
	return os.Mkdir(name, 0o700)
}

// powerLoss loses a random part of the data without sync.
func (d *lossyDisk) powerLoss() {
	d.t.Helper()
	root, rest := d.t.TempDir(), d.rng.Float64() // share that survives
	if d.rng.IntN(3) == 0 {
		rest = float64(d.rng.IntN(2))
	}
	next := map[string]*inode{}
	paths := slices.Sorted(maps.Keys(d.durable))
	for path := range d.names {
		if d.durable[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		i := d.durable[path]
		if d.rng.Float64() < rest {
			i = d.names[path]
		}
		to := filepath.Join(root, strings.TrimPrefix(path, d.root))
		if parent := filepath.Dir(to); i == nil || parent != root && next[parent] == nil {
			continue
		}
		next[to] = &inode{folder: i.folder}
		var err error
		if i.folder {
			err = os.Mkdir(to, 0o700)
		} else {
			next[to].synced = d.surviving(i, rest)
			err = os.WriteFile(to, next[to].synced, 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	d.root, d.names, d.durable, d.fails = root, next, maps.Clone(next), nil
}

// surviving returns what a power loss leaves of a file.
func (d *lossyDisk) surviving(i *inode, rest float64) []byte {
	is := i.removed
	for path, other := range d.names {
		if other == i {
			b, err := os.ReadFile(path)
			if err != nil {
				d.t.Fatal(err)
			}
			is = b
		}
	}
	size := len(i.synced)
	if d.rng.Float64() < rest {
		if size = len(is); d.rng.IntN(2) == 0 {
			size = min(len(is), len(i.synced)) + d.rng.IntN(1+max(len(is), len(i.synced))-min(len(is), len(i.synced)))
		}
	}
	b := make([]byte, size)
	for at := 0; at < size; at += 4096 {
		from := i.synced
		if d.rng.Float64() < rest {
			from = is
		}
		if at < len(from) {
			copy(b[at:min(size, at+4096)], from[at:])
		}
	}
	return b
}
