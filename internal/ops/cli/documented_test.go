package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// elsewhere matches commands of documents that other tests run: those that serve on a fixed port,
// need a terminal, or need what these leave.
const elsewhere = `^(\./)?rueda (dev|replay|export|user|serve --config etc/rueda\.toml( |$)(?:[^-]|$))`

// documentedCommands returns the commands of the sh blocks of a document.
func documentedCommands(t *testing.T, name string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !regexp.MustCompile(elsewhere).MatchString(line) {
				list = append(list, line)
			}
		}
	}
	return list
}

// TestDocumentedCommandsE2E runs the commands of the README and of docs/command-line.md, in their
// order, against a gateway. Those that do not end by themselves are interrupted.
func TestDocumentedCommandsE2E(t *testing.T) {
	for _, name := range []string{"bash", "curl", "jq", "timeout", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
				t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants this test", err)
			}
			t.Skipf("%v: the commands of the documents are not run (RUEDA_REQUIRE_ALL makes this a failure)", err)
		}
	}
	folder := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(folder, "rueda"), "../../../cmd/rueda").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, url := startMarket(t, "--speed", "20")
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("RUEDA_CONTEXTS", filepath.Join(folder, "contexts"))
	t.Setenv("RUEDA_PASSWORD", "demo")
	t.Setenv("RUEDA_URL", url)
	for document, least := range map[string]int{"../../../README.md": 9, "../../../docs/command-line.md": 18} {
		commands := documentedCommands(t, document)
		if len(commands) < least {
			t.Errorf("%s has only %d commands", document, len(commands))
		}
		runDocumented(t, folder, url, commands)
	}
}

// runDocumented runs commands in one shell, and checks that each has printed something and has not
// failed.
func runDocumented(t *testing.T, folder, url string, commands []string) {
	t.Helper()
	const mark = "--- the status of a command: "
	var script strings.Builder
	for i, c := range commands {
		c = strings.NewReplacer("http://127.0.0.1:8080", url, "https://api.broker.example", url, "--user ana", "--user demo").Replace(c)
		if strings.HasPrefix(c, "rueda context add ") {
			script.WriteString("unset RUEDA_URL\n") // from here on the context has the address
		}
		switch name, _, isAssignment := strings.Cut(c, "=$("); {
		case isAssignment && !strings.Contains(name, " "):
			fmt.Fprintf(&script, "%s\nexport %s; echo set", c, name)
		case strings.HasPrefix(c, "source "):
			fmt.Fprintf(&script, "%s\necho read", c)
		default:
			file := filepath.Join(folder, fmt.Sprintf("command%d.sh", i))
			write(t, file, c+"\n")
			fmt.Fprintf(&script, "timeout -s INT 2 bash %s </dev/null 2>&1", file)
		}
		fmt.Fprintf(&script, "\necho '%s'$?\n", mark)
	}
	shell := exec.CommandContext(t.Context(), "bash")
	shell.Dir, shell.Stdin = folder, strings.NewReader(script.String())
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rest := string(out)
	for _, c := range commands {
		printed, after, ok := strings.Cut(rest, mark)
		status, next, _ := strings.Cut(after, "\n")
		rest = next
		// 124 and 130 are an interrupt; there is no past book at the time of the example.
		good := status == "0" || status == "124" || status == "130" || strings.Contains(c, "--at ") && strings.Contains(printed, "not_found")
		if !ok || !good || strings.TrimSpace(printed) == "" && !strings.Contains(c, " use ") {
			t.Errorf("%s\nended with %s and printed %s", c, status, printed)
		}
	}
}
