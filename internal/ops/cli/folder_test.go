package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestFolderErrors checks that the commands name a folder that they cannot use, and the next step.
func TestFolderErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(t.TempDir(), "used")
	startDev(t, "--data", used)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(file, "x")}, "Choose a folder that this user can create and write (--data)."},
		{[]string{"user", "add", "ana", "--rights", "all", "--password-stdin", "--data", file}, "Choose a folder that this user can create and write (--data)."},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--data", used}, "Stop that gateway, or choose another folder (--data)."},
	} {
		talk := &transcript{}
		status := run(t.Context(), tt.args, command.Streams{In: strings.NewReader("a long enough password\n"), Out: io.Discard, Err: talk})
		text := talk.String()
		if folder := tt.args[len(tt.args)-1]; status != command.ExitError || !strings.Contains(text, folder) || !strings.Contains(text, tt.want) {
			t.Errorf("%v: status %d:\n%s", tt.args, status, text)
		}
	}
}
