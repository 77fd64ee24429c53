package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCopyFiles copies a folder that changes meanwhile. The newest day comes first. A segment that
// is compressed is copied in one of its forms. A day that is removed is left out with all days
// before it.
func TestCopyFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"state", "lock", ".gone-2026-11-16/00000001.segz", "2026-11-17/00000002.segz", "2026-11-17/day.idx", "2026-11-18/00000003.segz", "2026-11-18/day.idx",
		"2026-11-19/00000004.segz", "2026-11-19/00000004.seg", "2026-11-19/day.idx.tmp", "2026-11-20/00000005.seg", "2026-11-20/00000006.seg",
	} {
		write(name)
	}
	var names []string
	err := CopyFiles(t.Context(), folder, func(name string, from *os.File) error {
		if len(names) == 0 { // the journal goes on
			write("2026-11-20/00000007.seg")
			if err := os.Rename(filepath.Join(folder, "2026-11-19/00000004.segz"), filepath.Join(folder, "2026-11-19/00000004.tmp")); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(folder, "2026-11-18"), filepath.Join(folder, ".gone-2026-11-18")); err != nil {
				return err
			}
		}
		names = append(names, name)
		return nil
	})
	want := []string{"2026-11-20/00000005.seg", "2026-11-20/00000006.seg", "2026-11-19/00000004.seg"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("copied %v, %v, want %v", names, err, want)
	}
}

// TestLockFolder checks that a journal is not opened while its folder is locked.
func TestLockFolder(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	lock, err := Lock(cfg.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); err == nil {
		t.Error("a locked journal was opened")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	j, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
