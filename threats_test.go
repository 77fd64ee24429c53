package rueda_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	securityFile = "docs/security.md"
	modulesFile  = "docs/decisions/0027-modules.md"
	threats      = 54
	standards    = 27
)

// settings are names of settings in a text.
var settings = regexp.MustCompile("`(auth\\.\\w+|hsts_\\w+|scope)`")

// linkedTests are links to tests of other modules.
var linkedTests = regexp.MustCompile(`\[([^]]*)\]\(\.\./([^)]*_test\.go)\)`)

// TestThreatsDocument compares docs/security.md with the tests. Each threat has a row with a
// promise, a defence and tests. Each named test exists in the named package, also in the rows about
// standards, which say whether they are met. Each TestThreat of the tree is in the row of its
// number.
func TestThreatsDocument(t *testing.T) {
	text, err := os.ReadFile(securityFile)
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]map[string]bool{} // tests by folder
	for _, s := range sources(t) {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(s.text, -1) {
			if tree[s.dir] == nil {
				tree[s.dir] = map[string]bool{}
			}
			tree[s.dir][m[1]] = s.test
		}
	}
	shown := map[string]int{} // folder and test; the row that names it
	named := func(row, cell string) (tests []string) {
		dir := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			switch word := m[1]; {
			case tree[word] != nil:
				dir = word
			case tree[dir][word]:
				tests = append(tests, dir+" "+word)
			default:
				t.Errorf("%s: %q is no package with tests, and no test of %q", row, word, dir)
			}
		}
		return tests
	}
	numbers, requirements := 0, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		requirement := strings.TrimPrefix(cells[0], "| ")
		if strings.HasPrefix(requirement, "ASVS ") || strings.HasPrefix(requirement, "RFC ") {
			requirements++
			reason := settings.ReplaceAllString(cells[len(cells)-1], "")
			checkRequirement(t, cells, len(named(requirement, reason)))
			continue
		}
		n, err := strconv.Atoi(requirement)
		if err != nil {
			continue
		}
		if numbers++; n != numbers || len(cells) != 5 || slices.Contains(cells, "") {
			t.Errorf("row %d has number %d and %d cells, want a number, an attack, a promise, a defence and tests", numbers, n, len(cells))
			continue
		}
		tests := named(fmt.Sprintf("threat %d", n), cells[4])
		if len(tests) == 0 {
			t.Errorf("threat %d has no test", n)
		}
		for _, test := range tests {
			shown[test] = n
		}
	}
	if numbers != threats || requirements != standards {
		t.Errorf("%d threats and %d requirements, want %d and %d", numbers, requirements, threats, standards)
	}
	for dir, tests := range tree {
		for name := range tests {
			m := regexp.MustCompile(`^TestThreat(\d+)`).FindStringSubmatch(name)
			if m == nil {
				continue
			}
			if n, _ := strconv.Atoi(m[1]); shown[dir+" "+name] != n {
				t.Errorf("row %d of %s does not name `%s` `%s`", n, securityFile, dir, name)
			}
		}
	}
}

// checkRequirement checks a row about a standard that names tests of this module.
func checkRequirement(t *testing.T, cells []string, tests int) {
	requirement, reason := cells[0], cells[len(cells)-1]
	if len(cells) != 4 || strings.HasPrefix(cells[2], "met") && tests == 0 && !strings.Contains(reason, "](") {
		t.Errorf("%s has %d cells and %d tests", requirement, len(cells), tests)
		return
	}
	if !slices.Contains([]string{"met", "met, subdomains with a setting", "with a setting", "stays"}, cells[2]) {
		t.Errorf("%s: is it met? %q", requirement, cells[2])
	}
	for _, link := range linkedTests.FindAllStringSubmatch(reason, -1) {
		file, err := os.ReadFile(link[2])
		for _, test := range regexp.MustCompile(`\bTest\w+`).FindAllString(link[1], -1) {
			if !bytes.Contains(file, []byte("\nfunc "+test+"(")) {
				t.Errorf("%s: %s is not in %s: %v", requirement, test, link[2], err)
			}
		}
	}
}

// TestThreat36Dependencies compares the modules of go.mod with the recorded ones, and checks that
// none is replaced.
func TestThreat36Dependencies(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(modulesFile)
	if err != nil {
		t.Fatal(err)
	}
	decided := map[string]string{} // the rest of its row
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(list), -1) {
		if decided[m[1]] != "" {
			t.Errorf("%s is on the list twice", m[1])
		}
		decided[m[1]] = m[2]
	}
	if m := regexp.MustCompile(`(?m)^\s*(replace|exclude|retract)\b.*`).Find(text); m != nil {
		t.Errorf("go.mod: %s", m)
	}
	required := requiredModules(t)
	for _, m := range required {
		if decided[m] == "" {
			t.Errorf("nobody decided for %s: it is not in %s", m, modulesFile)
		}
		version := regexp.MustCompile(`(?m)^(?:require\s+|\t)` + regexp.QuoteMeta(m) + ` (v\S+)`).FindSubmatch(text)[1]
		if !bytes.Contains(sums, fmt.Appendf(nil, "\n%s %s/go.mod h1:", m, version)) && !bytes.HasPrefix(sums, fmt.Appendf(nil, "%s %s", m, version)) {
			t.Errorf("go.sum has nothing of %s %s", m, version)
		}
	}
	for m, row := range decided {
		if !slices.Contains(required, m) {
			t.Errorf("%s is on the list and not in go.mod", m)
		}
		for _, record := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(row, -1) {
			why, err := os.ReadFile(filepath.Join(filepath.Dir(modulesFile), record[1]))
			if err != nil || !bytes.Contains(why, []byte("`"+m+"`")) {
				t.Errorf("%s does not describe %s: %v", record[1], m, err)
			}
		}
	}
	for _, s := range sources(t) { // every module that the code imports has a record
		for _, p := range s.imports() {
			for m, row := range decided {
				if within(p, m) && !strings.Contains(row, "](") {
					t.Errorf("%s imports %s, which has no record of its own", s.name, p)
				}
			}
		}
	}
}

// TestThreat36SameBuildE2E builds the program here, and a copy of the tree in another folder
// without the build cache, and compares the results. It runs in the soak.
func TestThreat36SameBuildE2E(t *testing.T) {
	if os.Getenv("RUEDA_SOAK") == "" {
		t.Skip("RUEDA_SOAK builds the program twice")
	}
	elsewhere := filepath.Join(t.TempDir(), "another", "folder")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	tree := os.DirFS(".")
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || name == "build" || name == "bench" || name == "tests" || name == "tools"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(elsewhere, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(elsewhere, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	build := func(folder string, env ...string) []byte {
		t.Helper()
		out := filepath.Join(t.TempDir(), "rueda")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./cmd/rueda")
		cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		program, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	here, there := build("."), build(elsewhere, "GOCACHE="+t.TempDir())
	t.Logf("figure: built twice: %d bytes, the same: %v", len(here), bytes.Equal(here, there))
	if !bytes.Equal(here, there) {
		t.Error("two builds of the same sources differ")
	}
}
