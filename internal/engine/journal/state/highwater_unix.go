//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ruedahq/rueda/internal/base/flock"
)

// SharedMemory is a folder of files in memory. Only Linux has it.
const SharedMemory = "/dev/shm"

// OpenHighWater opens or creates the file of the journal in a folder that this process has locked.
// It locks the file too, and fails if another process writes a copy of the journal. It also removes
// the files of journals that no longer exist.
func OpenHighWater(memory, folder string, journal [16]byte) (*HighWater, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("open high-water mark: %w", err)
	}
	path := highWaterPath(memory, journal)
	removeAbandoned(memory, path, folder)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open high-water mark: %w", err)
	}
	page, err := mapHighWater(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open high-water mark %s: %w", path, err), f.Close())
	}
	w := &HighWater{page: page, release: func() error { return errors.Join(syscall.Munmap(page), f.Close()) }}
	w.parse(journal)
	setFolder(page, mountNamespace()+folder)
	return w, nil
}

// mapHighWater maps the file if this user owns it and no other process uses it.
func mapHighWater(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !isOwnFile(info) {
		return nil, errors.New("another user owns the file")
	}
	if err := flock.Lock(f); err != nil {
		return nil, err
	}
	if info.Size() < highWaterSize {
		// Write it, so that its memory is allocated now.
		if _, err := f.WriteAt(make([]byte, highWaterSize), 0); err != nil {
			return nil, err
		}
	}
	return syscall.Mmap(int(f.Fd()), 0, highWaterSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// isOwnFile reports whether a file is a regular file of this user. Every user may write to the
// folder of shared memory.
func isOwnFile(info fs.FileInfo) bool {
	return flock.Owned(info) && info.Mode().IsRegular()
}

// mountNamespace identifies the mount namespace of this process. It ends with a colon.
func mountNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/mnt") // only Linux has it
	return name + ":"
}

// removeAbandoned removes the files of journals that no longer exist from memory: files that no
// process has locked and that name a folder without a journal, or folder, whose journal is the one
// of keep. Files of other mount namespaces and files that cannot be examined stay. A journal on a
// disk that is not mounted now begins a new epoch at its next start.
func removeAbandoned(memory, keep, folder string) {
	entries, err := os.ReadDir(memory)
	if err != nil {
		return // opening the file reports it
	}
	for _, e := range entries {
		path := filepath.Join(memory, e.Name())
		if len(e.Name()) == len(filepath.Base(keep)) && strings.HasPrefix(e.Name(), highWaterPrefix) && path != keep {
			removeIfAbandoned(path, folder)
		}
	}
}

func removeIfAbandoned(path, folder string) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	page := make([]byte, highWaterSize)
	if info, err := f.Stat(); err != nil || !isOwnFile(info) || info.Size() != highWaterSize {
		return
	}
	if _, err := f.ReadAt(page, 0); err != nil {
		return
	}
	named, ok := strings.CutPrefix(folderOf(page), mountNamespace())
	if !ok || !filepath.IsAbs(named) {
		return
	}
	if named != folder { // folder holds another journal now
		if _, err := os.Lstat(filepath.Join(named, stateName)); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if flock.Lock(f) == nil {
		_ = os.Remove(path) // otherwise the next start tries again
	}
}
