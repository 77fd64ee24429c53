package docsite

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGeneratedPages checks that the pages of conversations and metrics have each conversation that
// is executed, and each metric that the sources name.
func TestGeneratedPages(t *testing.T) {
	site := New(Options{})
	page := func(name string) string {
		body, err := site.read(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	talks := page("conversations.md") + page("faults.md")
	files, err := filepath.Glob("../../engine/session/testdata/*.talk")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d conversations, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rule, lines, _ := strings.Cut(string(text), "\n")
		name := strings.TrimSuffix(filepath.Base(file), ".talk")
		want := strings.TrimPrefix(rule, "# ") + " (`" + name + "`)\n\n```text\n" + strings.TrimRight(lines, "\n") + "\n```\n"
		if n := strings.Count(talks, want); n == 0 {
			t.Errorf("no page has the conversation %s", name)
		}
	}
	var names [][][]byte
	for _, file := range []string{"families.go", "market.go", "cluster.go"} {
		text, err := os.ReadFile("../../base/metrics/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, regexp.MustCompile(`"(rueda_[a-z_]+)"`).FindAllSubmatch(text, -1)...)
	}
	if len(names) < 60 {
		t.Fatalf("%d metrics", len(names))
	}
	for _, m := range names {
		if strings.Count(page("metrics.md"), "\n| `"+string(m[1])+"` | ") != 1 {
			t.Errorf("the page does not have %s", m[1])
		}
	}
}
