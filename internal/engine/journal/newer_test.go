package journal

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
)

// TestNewerFormat checks that a journal of a newer program is refused and not changed: with a newer
// state, and with a newer segment without a state, as a restored backup has it.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, folder string) string{
		"state": func(t *testing.T, folder string) string {
			path := filepath.Join(folder, "state")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint32(b[8:], record.Version+1)
			binary.LittleEndian.PutUint32(b[4096+8:], record.Version+1)
			rewrite(t, path, b)
			return path
		},
		"segment": func(t *testing.T, folder string) string {
			if err := os.Remove(filepath.Join(folder, "state")); err != nil {
				t.Fatal(err)
			}
			list, err := filepath.Glob(filepath.Join(folder, "*", "*.seg"))
			if err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			b, err := os.ReadFile(list[0])
			if err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint32(b[8:], record.Version+1)
			binary.LittleEndian.PutUint32(b[60:], record.Checksum(b[8:60]))
			rewrite(t, list[0], b)
			return list[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			j, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			src := newRowSource(26, 3)
			if err := j.Start(src.checkpoint); err != nil {
				t.Fatal(err)
			}
			src.define(j)
			src.write(j, 10, true)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			path := spoil(t, cfg.Folder)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), cfg); !errors.Is(err, state.ErrNewer) {
				t.Errorf("opened: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("%s was changed: %v", path, err)
			}
		})
	}
}

func rewrite(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
