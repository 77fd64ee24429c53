//go:build unix

package auth_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeyFileIsAPipe checks that a named pipe is refused and not opened: no process would ever
// write to it.
func TestKeyFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(t, path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
