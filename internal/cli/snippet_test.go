package cli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ruedahq/rueda/internal/cli/command"
)

// TestSnippetGoE2E compiles the program that snippet prints, and runs it.
func TestSnippetGoE2E(t *testing.T) {
	t.Parallel()
	_, url := startMarket(t, "--speed", "20")
	status, text, talk := execute(t, "snippet", "go", "AL30|BYMA|CI", "--url", url)
	if status != command.ExitOK {
		t.Fatalf("ended with %d: %s", status, talk)
	}
	folder := t.TempDir()
	source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "snippet")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, pattern := range []string{`^quote [\d.]+ [\d.]+$`, `^trade \d+ [\d.]+ \d+$`, `^trade \d+ [\d.]+ \d+$`} {
		if !lines.Scan() || !regexp.MustCompile(pattern).MatchString(lines.Text()) {
			t.Errorf("printed %q, want %s", lines.Text(), pattern)
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
}
