//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
)

// TestAbandonedHighWater checks which files of the machine's memory the start of a journal removes:
// those of journals that were killed and whose folder was removed or holds another journal now.
func TestAbandonedHighWater(t *testing.T) {
	var sys disk.System
	sys.Fill()
	memory, root := t.TempDir(), t.TempDir()
	journals := byte(0)
	// open opens a new journal in a folder.
	open := func(name string) (*HighWater, string) {
		t.Helper()
		folder := filepath.Join(root, name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		s, _, err := Open(folder, &sys)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		journals++
		id := [16]byte{journals}
		w, err := OpenHighWater(memory, folder, id)
		if err != nil {
			t.Fatal(err)
		}
		w.Begin(id, "epoch", 1)
		return w, highWaterPath(memory, id)
	}
	kill := func(w *HighWater) {
		t.Helper()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}

	w, removed := open("removed")
	kill(w)
	w, left := open("left")
	kill(w)
	w, replaced := open("replaced")
	kill(w)
	w, foreign := open("foreign")
	setFolder(w.page, "mnt:[1]:"+filepath.Join(root, "foreign"))
	kill(w)
	live, used := open("live")
	defer live.Close()
	for _, name := range []string{"removed", "replaced", "foreign", "live"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	// Files of other programs, and one of a version that did not write the folder.
	zeros := filepath.Join(memory, highWaterPrefix+"0123456789abcdef0123456789abcdef")
	short := filepath.Join(memory, highWaterPrefix+"00000000000000000000000000000000")
	link := filepath.Join(memory, highWaterPrefix+"11111111111111111111111111111111")
	text := filepath.Join(memory, highWaterPrefix+"notes")
	err := errors.Join(os.WriteFile(zeros, make([]byte, highWaterSize), 0o600), os.WriteFile(short, nil, 0o600),
		os.WriteFile(text, bytes.Repeat([]byte("/x"), highWaterSize/2), 0o600), os.Symlink(removed, link))
	if err != nil {
		t.Fatal(err)
	}

	own, mark := open("replaced")
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
