package query

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// Limits that keep the completion of a command line fast.
const (
	completionTime = 2 * time.Second
	maxCompletions = 200
)

// CompleteInstruments completes identifiers of instruments by asking the gateway that the command
// line chooses. It asks for no password.
func CompleteInstruments(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix(cmd.Use, cmd.Name()+" INSTRUMENT") && !strings.Contains(cmd.Use, "...") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	quiet := command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	t, err := command.LoginOf(cmd).Target()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c, err := t.Client(quiet, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer c.Close()
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTime)
	defer cancel()
	var list []string
	symbol, _, _ := strings.Cut(word, "|")
	for in, err := range c.Instruments(ctx, client.Filter{Text: symbol}) {
		if err != nil || len(list) == maxCompletions {
			break
		}
		if id := in.ID.String(); strings.HasPrefix(strings.ToLower(id), strings.ToLower(word)) {
			list = append(list, id+"\t"+command.Printable(in.Name))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
