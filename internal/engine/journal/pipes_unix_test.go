//go:build unix

package journal

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
)

// TestThreat48NamedPipes checks that a named pipe in the place of a file of a journal is not
// opened, which would wait for a writer, and which no signal ends.
func TestThreat48NamedPipes(t *testing.T) {
	for _, of := range []string{"segment", "index"} {
		t.Run(of, func(t *testing.T) {
			cfg := testConfig(t)
			file, _ := writeSmall(t, cfg, newRowSource(7, 2), 3, 10)
			name := filepath.Join(filepath.Dir(file), dayfile.Name)
			if of == "segment" {
				name = file
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Mkfifo(name, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := OpenReader(t.Context(), cfg.Folder)
			// Segments have everything that an index has.
			if of == "segment" && (err == nil || !strings.Contains(err.Error(), name+": not a file")) || of == "index" && err != nil {
				t.Errorf("a reader: %v", err)
			}
			if err == nil {
				_ = r.Close()
			}
			err = CopyFiles(context.Background(), cfg.Folder, func(string, *os.File) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "not a file") {
				t.Errorf("a copy: %v", err)
			}
		})
	}
}
