package oauth

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// npmPatience is the longest time for the download of the packages, which are small.
const npmPatience = 3 * time.Minute

// without skips a test because something is missing, or fails it if everything is required.
func without(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("%s, so the libraries of Node.js are not tested: %v", what, err)
}

// TestNode runs the scripts of node/ with the packages of its lock file, which it installs into a
// temporary folder.
func TestNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		without(t, "Node.js is not installed", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		without(t, "npm is not installed", err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), npmPatience)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		without(t, "the packages cannot be installed", err)
	}
	scripts, err := filepath.Glob(filepath.Join(folder, "*.mjs"))
	if err != nil || len(scripts) != 2 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), npmPatience)
			defer cancel()
			run := exec.CommandContext(ctx, node, script)
			run.Dir = folder
			run.Env = append(os.Environ(), "RUEDA_URL="+start(t), "RUEDA_USER="+username, "RUEDA_PASSWORD="+password)
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
