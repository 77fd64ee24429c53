// Package asyncapi checks the AsyncAPI document with the tools of npm that client authors use: the
// linter Spectral, and the parser of viewers and generators.
package asyncapi

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
)

// npmPatience is the longest time for the download of the packages, or for a tool.
const npmPatience = 10 * time.Minute

// without skips a test because something is missing, or fails it if everything is required.
func without(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("%s, so Spectral and the parser of AsyncAPI are not tested: %v", what, err)
}

// run runs a program in a folder, and returns what it prints.
func run(t *testing.T, folder, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), npmPatience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = folder
	out, err := c.CombinedOutput()
	return string(out), err
}

// install copies the scripts to a temporary folder, with the document, and installs the packages of
// their lock file.
func install(t *testing.T, document []byte) (folder, node string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		without(t, "Node.js is not installed", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		without(t, "npm is not installed", err)
	}
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Logf("%s", out)
		without(t, "the packages cannot be installed", err)
	}
	write(t, folder, document)
	return folder, node
}

func write(t *testing.T, folder string, document []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "asyncapi.json"), document, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestToolsE2E lints the document with Spectral and opens it with the parser. Both must notice an
// operation that neither sends nor receives.
func TestToolsE2E(t *testing.T) {
	document := asyncapi.Document()
	folder, node := install(t, document)
	spectral := filepath.Join(folder, "node_modules", "@stoplight", "spectral-cli", "dist", "index.js")
	lint := func() (string, error) {
		return run(t, folder, node, spectral, "lint", "--fail-severity", "warn", "asyncapi.json")
	}
	parse := func() (string, error) { return run(t, folder, node, "parse.mjs") }
	if out, err := lint(); err != nil {
		t.Errorf("Spectral: %v\n%s", err, out)
	}
	if out, err := parse(); err != nil || !strings.HasPrefix(out, "28 messages, 10 operations, 1 channel") {
		t.Errorf("the parser: %v\n%s", err, out)
	}
	broken := bytes.Replace(document, []byte(`"action": "receive"`), []byte(`"action": "take"`), 1)
	if bytes.Equal(broken, document) {
		t.Fatal("the document has no operation that receives")
	}
	write(t, folder, broken)
	if out, err := lint(); err == nil {
		t.Errorf("Spectral accepts a wrong operation\n%s", out)
	}
	if out, err := parse(); err == nil {
		t.Errorf("the parser accepts a wrong operation\n%s", out)
	}
}
