package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTiers checks which packages of a module each tier runs.
func TestTiers(t *testing.T) {
	root := writeFiles(t, map[string]string{
		"root_test.go":            "package p\nfunc TestRoot(t *testing.T) {\n}\n",
		"calm/calm_test.go":       "func TestLongLines(t *testing.T) {\n}\nfunc helperE2E() {\n}\n",
		"busy/busy.go":            "func run() {\n\tgo func() {}()\n}\n",
		"busy/busy_test.go":       "func TestMain(m *testing.M) {\n}\nfunc TestStormLong(t *testing.T) {\n}\n",
		"group/group_test.go":     "func TestGroup(t *testing.T) {\n\tall.Go(work)\n}\n",
		"program/x_test.go":       "func TestMain(m *testing.M) {\n}\nfunc TestKillE2E(t *testing.T) {\n\tgo wait()\n}\n",
		"none/none.go":            "func run() {\n\tgo func() {}()\n}\n",
		"other/go.mod":            "module other\n",
		"other/other_test.go":     "func TestOther(t *testing.T) {\n}\n",
		"calm/testdata/a_test.go": "func TestData(t *testing.T) {\n}\n",
	})
	for name, want := range map[string][]string{
		"quick": {"./.", "./calm", "./group"},
		"race":  {"./busy", "./group"},
		"e2e":   {"./busy", "./program"},
	} {
		r := tiers()[name]
		if got, err := r.packages(root); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s runs %q, %v; want %q", name, got, err, want)
		}
	}
}

// writeFiles writes files to a new folder and returns it.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
