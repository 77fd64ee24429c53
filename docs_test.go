package rueda_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

var update = flag.Bool("update", false, "write conversations and programs into the documents")

const (
	protocolFile      = "docs/protocol.md"
	conversationsFile = "docs/conversations.md"
	faultsFile        = "docs/faults.md"
	tutorialFile      = "docs/client-tutorial.md"
	spanishFile       = "docs/es/client-tutorial.md"
	goClientFile      = "docs/go-client.md"
	talkFolder        = "internal/engine/session/testdata"
)

// TestProtocolConversations checks that docs/faults.md and docs/conversations.md have marks for all
// conversations that the tests of internal/engine/session execute.
func TestProtocolConversations(t *testing.T) {
	shown := map[string]bool{}
	for _, file := range []string{conversationsFile, faultsFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range regexp.MustCompile(`(?m)^<!-- conversations ([^>]+) -->$`).FindAllSubmatch(text, -1) {
			names := talks(t, strings.Fields(string(mark[1])))
			if len(names) == 0 {
				t.Errorf("%s: there is no conversation %s", file, mark[1])
			}
			for _, name := range names {
				shown[name] = true
			}
		}
	}
	for _, name := range talks(t, []string{"*"}) {
		if !shown[name] {
			t.Errorf("neither %s nor %s shows %s", conversationsFile, faultsFile, name)
		}
	}
}

// TestShownPrograms checks that the documents for authors of clients show the programs that the
// tests run, and the examples of package client.
func TestShownPrograms(t *testing.T) {
	examples, err := os.ReadFile("client/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tutorialFile, spanishFile, goClientFile} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile(`(?s)(<!-- (file|example) (\S+) -->\n).*?(<!-- /(?:file|example) -->)`)
		if !block.Match(text) {
			t.Fatalf("%s shows no program", name)
		}
		want := block.ReplaceAllFunc(text, func(b []byte) []byte {
			m := block.FindSubmatch(b)
			var program []byte
			if string(m[2]) == "example" {
				program = exampleBody(t, examples, string(m[3]))
			} else if program, err = os.ReadFile(string(m[3])); err != nil {
				t.Fatal(err)
			}
			return slices.Concat(m[1], []byte("\n```go\n"), program, []byte("```\n\n"), m[4])
		})
		if string(want) == string(text) {
			continue
		}
		if !*update {
			t.Fatalf("%s differs from the programs that are run: go test . -run TestShownPrograms -update", name)
		}
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSpanishReadme checks that README.es.md has the commands, programs and messages of README.md.
func TestSpanishReadme(t *testing.T) {
	block := regexp.MustCompile("(?s)\n```[a-z]+\n.*?\n```\n")
	english, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	spanish, err := os.ReadFile("README.es.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAll(english, -1)
	if n := len(block.FindAll(spanish, -1)); n != len(blocks) || n < 8 {
		t.Fatalf("README.es.md has %d blocks of code, README.md %d", n, len(blocks))
	}
	i := -1
	want := block.ReplaceAllFunc(spanish, func([]byte) []byte { i++; return blocks[i] })
	if bytes.Equal(want, spanish) {
		return
	}
	if !*update {
		t.Fatal("README.es.md has other code than README.md: go test . -run TestSpanishReadme -update")
	}
	if err := os.WriteFile("README.es.md", want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// exampleBody returns the body of an example without its indentation.
func exampleBody(t *testing.T, file []byte, name string) (body []byte) {
	t.Helper()
	_, rest, ok := bytes.Cut(file, []byte("\nfunc "+name+"() {\n"))
	text, _, end := bytes.Cut(rest, []byte("\n}\n"))
	if !ok || !end {
		t.Fatalf("there is no example %s", name)
	}
	for line := range bytes.Lines(append(text, '\n')) {
		body = append(body, bytes.TrimPrefix(line, []byte("\t"))...)
	}
	return body
}

// TestFaultsDocument checks that docs/faults.md describes every fault on request, with its alias,
// and no other.
func TestFaultsDocument(t *testing.T) {
	text, err := os.ReadFile(faultsFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	for _, f := range wire.SimFaults() {
		if !listed[f.Name] || !strings.Contains(string(text), "(#"+f.Name+")") {
			t.Errorf("%s does not describe %s, or its table does not", faultsFile, f.Name)
		}
		if f.Alias != "" && !strings.Contains(string(text), "`"+f.Alias+"`") {
			t.Errorf("%s does not say that %s is also %s", faultsFile, f.Name, f.Alias)
		}
		delete(listed, f.Name)
	}
	for name := range listed {
		t.Errorf("%s describes %s, which is not a fault", faultsFile, name)
	}
}

// talks returns the names of the conversations that match some patterns.
func talks(t *testing.T, patterns []string) []string {
	t.Helper()
	var names []string
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join(talkFolder, p+".talk"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".talk"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// goFiles returns the Go files of the tree.
func goFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".go" {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil || len(names) < 300 {
		t.Fatalf("%d Go files, %v", len(names), err)
	}
	return names
}

// TestArchitectureFiles checks that the Go files that ARCHITECTURE.md and CONTRIBUTING.md name
// exist.
func TestArchitectureFiles(t *testing.T) {
	files := goFiles(t)
	for _, document := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(string(text), -1)
		if len(named) < 12 {
			t.Errorf("%s names %d files", document, len(named))
		}
		for _, m := range named {
			exists := func(name string) bool { return name == m[1] || strings.HasSuffix(name, "/"+m[1]) }
			if !slices.ContainsFunc(files, exists) {
				t.Errorf("%s names %s, which does not exist", document, m[1])
			}
		}
	}
}

// TestTradeFieldRecipe checks the recipe of CONTRIBUTING.md for a new field of the trade message:
// its files exist, and there are fewer than twelve.
func TestTradeFieldRecipe(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(text), "\n## Add a field to the trade message\n")
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(recipe, -1)
	if len(rows) < 5 || len(rows) >= 12 {
		t.Errorf("the recipe has %d files", len(rows))
	}
	for _, m := range rows {
		if _, err := os.Stat(m[1]); err != nil || strings.HasSuffix(m[1], "_test.go") {
			t.Errorf("the recipe names %s: %v", m[1], err)
		}
	}
}
