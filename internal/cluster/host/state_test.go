package host

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
)

// TestStateCannotBeWritten checks that a node survives a disk that takes no regular state, as a
// full one, and not one that must be stored.
func TestStateCannotBeWritten(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	folder := t.TempDir()
	h := &Host{cfg: Config{Setup: &Setup{folder: folder}}, log: slog.New(slog.NewTextHandler(&logged, nil))}
	if err := os.Mkdir(statePath(folder)+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	state := cluster.State{Position: 7}
	for range 3 {
		if err := h.perform(t.Context(), cluster.Save{State: state, Regular: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.perform(t.Context(), cluster.Save{State: state}); err == nil || !strings.Contains(err.Error(), "store the state of the node") {
		t.Errorf("a state that must be stored: %v", err)
	}
	if err := os.Remove(statePath(folder) + ".new"); err != nil {
		t.Fatal(err)
	}
	if err := h.perform(t.Context(), cluster.Save{State: state, Regular: true}); err != nil {
		t.Fatal(err)
	}
	if s, err := readState(folder); err != nil || s.Position != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if text := logged.String(); strings.Count(text, "cannot be stored") != 1 || strings.Count(text, "stored again") != 1 {
		t.Error(text)
	}
}

// TestEmptyState checks that a state without content, which the loss of power can leave, is none.
func TestEmptyState(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(statePath(folder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := readState(folder); err != nil || s.History.Epoch != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.WriteFile(statePath(folder), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(folder); err == nil {
		t.Error("a damaged state was read")
	}
}
