package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// some wants one argument at least.
func some(what, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fail(exitUsage, errors.New("no "+what), "Name one: "+example)
		}
		return nil
	}
}

// named wants one argument for each thing. One too many is not shown: it may be a password.
func named(things ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < len(things):
			return fail(exitUsage, errors.New("the "+things[n]+" is missing"), "Name it: "+cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()))
		case n > len(things):
			return fail(exitUsage, fmt.Errorf("%d arguments are too many: it takes the %s", n, strings.Join(things, " and the ")), "See "+cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// atMost refuses more arguments than there are meanings for.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fail(exitUsage, fmt.Errorf("%d arguments are too many: it takes %s", len(args), what), "See "+cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// What the protocol has of the options of a subscription.
var (
	bookDepths   = []int{0, 1, 5, 10, 25}
	conflations  = []string{"none", "100ms", "250ms", "1s"}
	barIntervals = []string{"1s", "1m", "5m", "15m", "1h", "1d"}
)

// checkOptions refuses flags that no server takes, before anything is asked of one.
func checkOptions(depth int, conflate string, intervals []string) error {
	if !slices.Contains(bookDepths, depth) {
		return fail(exitUsage, fmt.Errorf("--depth %d: a book has 1, 5, 10 or 25 levels, or 0 for all", depth), "")
	}
	if !slices.Contains(conflations, conflate) {
		return fail(exitUsage, fmt.Errorf("--conflate %q is none of %s", conflate, strings.Join(conflations, ", ")), "")
	}
	for _, word := range intervals {
		if !slices.Contains(barIntervals, word) {
			return fail(exitUsage, fmt.Errorf("--interval %q is none of %s", word, strings.Join(barIntervals, ", ")), "")
		}
	}
	return nil
}

// subcommand refuses what is not the name of a subcommand, and says which one is near.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	advice := "See " + cmd.CommandPath() + " --help"
	if further := below(cmd, args); len(further) > 0 {
		advice = "Did you mean " + strings.Join(further, " or ") + "?"
	} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		advice = "Did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	return fail(exitUsage, fmt.Errorf("unknown command %q", args[0]), advice)
}

// below finds the commands of a name one step further down.
func below(cmd *cobra.Command, args []string) (list []string) {
	for _, sub := range cmd.Commands() {
		if c, _, err := sub.Find(args[:1]); err == nil && c != sub {
			list = append(list, c.CommandPath())
		}
	}
	return list
}
