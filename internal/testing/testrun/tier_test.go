package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTiers checks which packages of a module each tier runs.
func TestTiers(t *testing.T) {
	files := map[string]string{
		"root_test.go":            "func TestRoot(t *testing.T) {\n}\n",
		"calm/calm_test.go":       "// go f()\nfunc TestLongLines(t *testing.T) {\n}\nfunc helperE2E() {\n}\nfunc Testify() {\n}\n",
		"busy/busy.go":            "func run() {\n\tgo func() {}()\n}\n",
		"busy/busy_test.go":       "func TestMain(m *testing.M) {\n}\nfunc TestStormLong(t *testing.T) {\n}\n",
		"program/x_test.go":       "func TestMain(m *testing.M) {\n}\nfunc TestKillE2E(t *testing.T) {\n\tgo wait()\n}\n",
		"none/none.go":            "func run() {\n\tgo func() {}()\n}\n",
		"other/go.mod":            "module other\n",
		"other/other_test.go":     "func TestOther(t *testing.T) {\n}\n",
		"calm/testdata/a_test.go": "func TestData(t *testing.T) {\n}\n",
		"letter/a_test.go":        "func TestÑandú(t *testing.T) {\n}\n",
		"letter2/a_test.go":       "func Testñandú(t *testing.T) {\n}\n",
	}
	var shared []string
	for i, text := range []string{
		"go (func() {})()", "go list[0]()", "f := func() { go f() }", "time.AfterFunc(0, f)", "context.AfterFunc(ctx, f)", "all.Go(work)", "t.Parallel()",
		"var m sync.RWMutex", "var n atomic.Int64", "other.AddInt64(&n, 1)", "httptest.NewTLSServer(nil)",
	} {
		folder := fmt.Sprintf("shared%02d", i)
		shared = append(shared, "./"+folder)
		files[folder+"/a_test.go"] = "import (\n\t\"sync\"\n\t\"sync/atomic\"\n\tother \"sync/atomic\"\n\t\"net/http/httptest\"\n)\nfunc TestA(t *testing.T) {\n\t" + text + "\n}\n"
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".go") {
			files[name] = "package p\n" + text
		}
	}
	root := writeFiles(t, files)
	for name, want := range map[string][]string{
		"quick": slices.Concat([]string{"./.", "./calm", "./letter"}, shared),
		"race":  slices.Concat([]string{"./busy"}, shared),
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
