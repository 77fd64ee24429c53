package docsite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestGeneratedPages checks that the pages of conversations, metrics and test vectors have each
// conversation that is executed, each metric that the sources name, and each test vector.
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
	checkVectors(t, page("test-vectors.md"))
}

// checkVectors checks that a page has each list of docs/test-vectors.json as a block of JSON, with
// the vectors in their order.
func checkVectors(t *testing.T, page string) {
	t.Helper()
	file, err := os.ReadFile("../../../docs/test-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string][]any
	if err := json.Unmarshal(file, &lists); err != nil || len(lists) < 5 {
		t.Fatalf("%d lists, %v", len(lists), err)
	}
	for name, want := range lists {
		_, block, _ := strings.Cut(page, " (`"+name+"`)\n")
		_, block, _ = strings.Cut(block, "\n```json\n")
		block, _, _ = strings.Cut(block, "\n```\n")
		var got []any
		for line := range strings.Lines(block) {
			var v any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%s: %v in %q", name, err, line)
			}
			got = append(got, v)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the page has %d of the %d vectors of %s, or others", len(got), len(want), name)
		}
	}
}
