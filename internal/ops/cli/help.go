package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the maximum width of help texts in columns, that of a usual terminal.
const helpWidth = 80

// fitHelp wraps the help of a command, and of those below it.
func fitHelp(cmd *cobra.Command) {
	if !cmd.HasParent() { // the other commands inherit the template
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)))
	}
	cmd.Long = wrapProse(cmd.Long)
	for _, sub := range cmd.Commands() {
		fitHelp(sub)
	}
}

// wrapProse wraps paragraphs to helpWidth. It does not change a paragraph with an indented line,
// because that is a table or a list.
func wrapProse(text string) string {
	parts := strings.Split(text, "\n\n")
	for i, p := range parts {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			continue
		}
		var b strings.Builder
		used := 0
		for _, word := range strings.Fields(p) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > helpWidth:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, "\n\n")
}
