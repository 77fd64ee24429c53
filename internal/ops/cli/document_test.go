package cli

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var updateDocument = flag.Bool("update", false, "write the table of commands into docs/command-line.md")

// TestCommandLineDocument checks that docs/command-line.md lists all commands with the texts of
// --help, and names no flag that does not exist.
func TestCommandLineDocument(t *testing.T) {
	const file = "../../../docs/command-line.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	flags := map[string]bool{"help": true, "version": true}
	var list func(cmd *cobra.Command)
	list = func(cmd *cobra.Command) {
		for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages()+cmd.PersistentFlags().FlagUsages(), -1) {
			flags[m[1]] = true
		}
		if cmd.HasParent() {
			fmt.Fprintf(&table, "| `%s` | %s |\n", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
				list(sub)
			}
		}
	}
	list(Root())
	block := regexp.MustCompile(`(?s)(<!-- commands -->\n\n\| command \| what it does \|\n\|---\|---\|\n)(.*?)(\n<!-- /commands -->)`)
	m := block.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("there is no table of commands")
	}
	if *updateDocument {
		text = []byte(strings.Replace(string(text), m[0], m[1]+table.String()+m[3], 1))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if m[2] != table.String() {
		t.Errorf("the table of commands is out of date: go test ./internal/ops/cli -run TestCommandLineDocument -update\n%s", table.String())
	}
	for _, m := range regexp.MustCompile("[` ]--([a-z][a-z-]*)").FindAllStringSubmatch(string(text), -1) {
		if !flags[m[1]] {
			t.Errorf("no command has the flag --%s", m[1])
		}
	}
}
