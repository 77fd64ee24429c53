//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestAbandonedHighWater checks which files of the machine's memory the start of a journal removes:
// those of journals that were killed and whose folder was removed or holds another journal now.
func TestAbandonedHighWater(t *testing.T) {
	cfg := testConfig(t)
	cfg.Memory = t.TempDir()
	open := func(folder string) (*Journal, string) {
		t.Helper()
		cfg.Folder = folder
		j := mustOpen(t, cfg)
		return j, highWaterPath(cfg.Memory, j.journal)
	}
	kill := func(j *Journal) {
		t.Helper()
		if err := errors.Join(j.highWater.close(false), j.Close()); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	folder := func(name string) string { return filepath.Join(root, name) }

	j, removed := open(folder("removed"))
	kill(j)
	j, left := open(folder("left"))
	kill(j)
	j, replaced := open(folder("replaced"))
	kill(j)
	j, foreign := open(folder("foreign"))
	setFolder(j.highWater.page, "mnt:[1]:"+folder("foreign"))
	kill(j)
	live, used := open(folder("live"))
	defer live.Close()
	for _, name := range []string{"removed", "replaced", "foreign", "live"} {
		if err := os.RemoveAll(folder(name)); err != nil {
			t.Fatal(err)
		}
	}
	// Files of other programs, and one of a version that did not write the folder.
	zeros := filepath.Join(cfg.Memory, highWaterPrefix+"0123456789abcdef0123456789abcdef")
	short := filepath.Join(cfg.Memory, highWaterPrefix+"00000000000000000000000000000000")
	link := filepath.Join(cfg.Memory, highWaterPrefix+"11111111111111111111111111111111")
	text := filepath.Join(cfg.Memory, highWaterPrefix+"notes")
	err := errors.Join(os.WriteFile(zeros, make([]byte, highWaterSize), 0o600), os.WriteFile(short, nil, 0o600),
		os.WriteFile(text, bytes.Repeat([]byte("/x"), highWaterSize/2), 0o600), os.Symlink(removed, link))
	if err != nil {
		t.Fatal(err)
	}

	own, mark := open(folder("replaced"))
	defer own.Close()
	for _, path := range []string{left, foreign, used, zeros, short, text, link, mark} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
	for _, path := range []string{removed, replaced} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}
