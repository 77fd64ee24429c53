package flock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLock locks a file and a folder, each by two descriptors. The second lock fails until the
// first ends.
func TestLock(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "lock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, folder} {
		if info, err := os.Stat(name); err != nil || Owned(info) != Supported {
			t.Errorf("%s: owned by another user, %v", name, err)
		}
		one, two := open(t, name), open(t, name)
		if err := Lock(one); err != nil {
			t.Fatal(err)
		}
		if err := Lock(two); Supported && !errors.Is(err, ErrLocked) {
			t.Errorf("%s: locked twice: %v", name, err)
		}
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Lock(two); err != nil {
			t.Errorf("%s: locked after it was closed: %v", name, err)
		}
	}
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
