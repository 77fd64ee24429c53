package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTutorialE2E runs the commands of docs/client-tutorial.md against rueda dev, and compares
// their output with what the document shows. "..." stands for any text. The Spanish document has
// the same commands.
func TestTutorialE2E(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sh", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
				t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants this test", err)
			}
			t.Skipf("%v: the commands of the tutorial are not run (RUEDA_REQUIRE_ALL makes this a failure)", err)
		}
	}
	text, err := os.ReadFile("../../../docs/client-tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)<!-- run -->\n\n```sh\n(.*?)```\n\n```text\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 || len(blocks) != strings.Count(string(text), "<!-- run -->") {
		t.Fatalf("found %d commands with their output", len(blocks))
	}
	spanish, err := os.ReadFile("../../../docs/es/client-tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)\n```.*?\n```\n")
	if got, want := code.FindAllString(string(spanish), -1), code.FindAllString(string(text), -1); !slices.Equal(got, want) {
		t.Errorf("the code of the Spanish tutorial differs:\n%s", got)
	}
	_, url := startMarket(t)
	const end = "--- end of the output of a command ---"
	var script strings.Builder
	for _, b := range blocks {
		commands := strings.ReplaceAll(b[1], "http://127.0.0.1:8080", url)
		if commands == b[1] && strings.Contains(b[1], "://") {
			t.Errorf("a command uses another address: %s", b[1])
		}
		fmt.Fprintf(&script, "%s\necho '%s'\n", commands, end)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-eu")
	shell.Dir, shell.Stdin = t.TempDir(), strings.NewReader(script.String())
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := strings.Split(string(out), end)
	for i, b := range blocks {
		want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(b[2])), `\.\.\.`, `.*`)
		if !regexp.MustCompile(`(?s)^\s*` + want + `\s*$`).MatchString(got[i]) {
			t.Errorf("%s\nprints %s\nwant %s", b[1], got[i], b[2])
		}
	}
}
