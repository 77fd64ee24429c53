package cli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestSnippetGoE2E compiles the program that snippet prints in a module of its own, with the
// commands in its comment and this tree as the clone, and runs it.
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
	tree, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^//\t(go mod .+)$`).FindAllStringSubmatch(text, -1)
	if len(lines) != 3 {
		t.Fatalf("the comment has the commands %q", lines)
	}
	for _, line := range append(lines, []string{"", "go vet ."}, []string{"", "go build -o " + program + " ."}) {
		args := strings.Fields(strings.ReplaceAll(line[1], "../rueda", tree))
		command := exec.Command(args[0], args[1:]...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line[1], err, out)
		}
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
	printed := bufio.NewScanner(out)
	for _, pattern := range []string{`^quote [\d.]+ [\d.]+$`, `^trade \d+ [\d.]+ \d+$`, `^trade \d+ [\d.]+ \d+$`} {
		if !printed.Scan() || !regexp.MustCompile(pattern).MatchString(printed.Text()) {
			t.Errorf("printed %q, want %s", printed.Text(), pattern)
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
}
