package maintenance

import (
	"strings"
	"testing"
	"unicode"

	"github.com/ruedahq/rueda/internal/ops/backup"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestThreat43HostileManifest checks that the text of a manifest cannot control a terminal.
func TestThreat43HostileManifest(t *testing.T) {
	t.Parallel()
	m := &backup.Manifest{Journal: &backup.Journal{Epoch: "e\x1b]0;owned\x07\u009b2J"}}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		if err := (&options{json: asJSON}).print(command.Streams{Out: &out}, m, "is complete", "folder"); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "owned") || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unicode.IsControl) {
			t.Errorf("JSON %v: printed %q", asJSON, text)
		}
	}
}
