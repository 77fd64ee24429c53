package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommandsOfDeployments checks that the commands in the files below deploy, and in the
// documents about installation and upgrades, exist with their flags.
func TestCommandsOfDeployments(t *testing.T) {
	command := regexp.MustCompile(`(?m)(?:^|[\s/])rueda"?,?((?: (?:--)?"?[a-z-]+"?\b)+)`)
	for name, want := range map[string]int{"docs/install.md": 9, "docs/command-line.md": 20, "README.md": 10, "deploy/systemd/rueda.service": 1,
		"deploy/compose/compose.yaml": 2, "deploy/docker/Dockerfile": 1} {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, line := range commandLines(name, string(text)) {
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				args := strings.Fields(strings.ReplaceAll(m[1], `"`, ""))
				if args[0] == "rueda" { // a container, then the program
					args = args[1:]
				}
				if len(args) == 0 || strings.HasPrefix(args[0], "-") {
					continue // a container or a user
				}
				found++
				checkCommand(t, name, args)
			}
		}
		if found < want {
			t.Errorf("%s has %d commands, want at least %d", name, found, want)
		}
	}
}

// commandLines returns the lines of a file that have commands: of a document those in code blocks.
func commandLines(name, text string) []string {
	lines := strings.Split(text, "\n")
	if !strings.HasSuffix(name, ".md") {
		return lines
	}
	code := false
	return slices.DeleteFunc(lines, func(line string) bool {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		return !code || strings.HasPrefix(line, "```")
	})
}

func checkCommand(t *testing.T, name string, args []string) {
	t.Helper()
	root := Root()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root {
		t.Errorf("%s: there is no command rueda %q", name, args)
		return
	}
	for _, arg := range rest {
		if flag, ok := strings.CutPrefix(arg, "--"); ok && cmd.Flag(flag) == nil {
			t.Errorf("%s: %s has no flag --%s", name, cmd.CommandPath(), flag)
		}
	}
}
