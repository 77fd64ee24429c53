package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFits checks that the help of every command fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var text strings.Builder
		cmd.SetOut(&text)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	root := Root()
	root.InitDefaultHelpCmd()
	check(root)
}

// TestWrapProse checks that paragraphs are wrapped, and that tables stay.
func TestWrapProse(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	for text, want := range map[string]string{
		"":                             "",
		"a\nb":                         "a b",
		"a\n\n  x  y\n  z":             "a\n\n  x  y\n  z",
		"list:\n  " + long:             "list:\n  " + long,
		long:                           long[:79] + "\n" + long[80:],
		strings.Repeat("é", 80):        strings.Repeat("é", 80),
		strings.Repeat("é", 79) + " é": strings.Repeat("é", 79) + "\né",
	} {
		if got := wrapProse(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
