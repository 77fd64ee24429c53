package rueda_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

var update = flag.Bool("update", false, "write the conversations into the documents")

const (
	protocolFile = "docs/protocol.md"
	faultsFile   = "docs/faults.md"
	talkFolder   = "internal/session/testdata"
)

// TestProtocolConversations wants docs/protocol.md and docs/faults.md to show the very files that the
// tests of internal/session execute, and together every one of them.
func TestProtocolConversations(t *testing.T) {
	shown := map[string]bool{}
	for _, file := range []string{protocolFile, faultsFile} {
		showConversations(t, file, shown)
	}
	for _, name := range talks(t, []string{"*"}) {
		if !shown[name] {
			t.Errorf("neither %s nor %s shows %s", protocolFile, faultsFile, name)
		}
	}
}

// showConversations holds a document's conversations to their files, and notes which they are.
func showConversations(t *testing.T, file string, shown map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)(<!-- talk ([^>]+?) -->\n).*?(<!-- /talk -->)`)
	want := block.ReplaceAllStringFunc(string(text), func(b string) string {
		m := block.FindStringSubmatch(b)
		names := talks(t, strings.Fields(m[2]))
		if len(names) == 0 {
			t.Errorf("no conversation is called %s", m[2])
		}
		var out strings.Builder
		out.WriteString(m[1])
		for _, name := range names {
			shown[name] = true
			out.WriteString(conversation(t, name))
		}
		return out.String() + m[3]
	})
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the conversations that are executed: go test . -run TestProtocolConversations -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFaultsDocument wants docs/faults.md to tell of every fault on request, by all its words, and of no other.
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
			t.Errorf("%s does not tell of %s, or not in its table", faultsFile, f.Name)
		}
		if f.Alias != "" && !strings.Contains(string(text), "`"+f.Alias+"`") {
			t.Errorf("%s does not tell that %s is also %s", faultsFile, f.Name, f.Alias)
		}
		delete(listed, f.Name)
	}
	for name := range listed {
		t.Errorf("%s tells of %s, which is no fault", faultsFile, name)
	}
}

// talks are the files of some patterns, without folder and ending.
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

// conversation is a file as the document shows it: its rule, and the rest as it is.
func conversation(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(talkFolder, name+".talk"))
	if err != nil {
		t.Fatal(err)
	}
	rule, steps, ok := strings.Cut(string(text), "\n")
	if !ok || !strings.HasPrefix(rule, "# ") {
		t.Fatalf("%s: the first line states the rule", name)
	}
	return "\n" + strings.TrimPrefix(rule, "# ") + " (`" + name + "`)\n\n```text\n" + strings.TrimRight(steps, "\n") + "\n```\n\n"
}

// TestProtocolErrorTable holds the socket's table of errors in docs/protocol.md to the one
// in the code.
func TestProtocolErrorTable(t *testing.T) {
	text, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- table socket -->")
	table, _, _ = strings.Cut(table, "<!-- /table -->")
	rows := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z_, ]+) \| (open|\d+)`).FindAllStringSubmatch(table, -1) {
		for reason := range strings.SplitSeq(m[2], ", ") {
			rows++
			e := wire.Reason(reason).Socket()
			socket := "open"
			if e.Closes {
				socket = strconv.Itoa(4000 + e.Code)
			}
			if strconv.Itoa(e.Code) != m[1] || socket != m[3] {
				t.Errorf("%s is %s, %s in the document; %d, %s in the code", reason, m[1], m[3], e.Code, socket)
			}
		}
	}
	if rows < 27 {
		t.Errorf("the table has %d reasons", rows)
	}
}
