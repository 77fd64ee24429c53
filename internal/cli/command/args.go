package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// SomeArgs requires one argument or more.
func SomeArgs(what, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Fail(ExitUsage, errors.New("no "+what), "Name one: "+example)
		}
		return nil
	}
}

// ExactArgs requires one argument for each thing. An extra argument is not printed: it may be a
// password.
func ExactArgs(things ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < len(things):
			return Fail(ExitUsage, errors.New("the "+things[n]+" is missing"), "Name it: "+cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()))
		case n > len(things):
			return Fail(ExitUsage, fmt.Errorf("too many arguments (%d): expected the %s", n, strings.Join(things, " and the ")), "See "+cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// MaxArgs allows n arguments at most. what describes them.
func MaxArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Fail(ExitUsage, fmt.Errorf("too many arguments (%d): expected %s", len(args), what), "See "+cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// Options of a subscription in the protocol.
var (
	BookDepths   = []int{0, 1, 5, 10, 25}
	conflations  = []string{"none", "100ms", "250ms", "1s"}
	barIntervals = []string{"1s", "1m", "5m", "15m", "1h", "1d"}
)

// CheckSubscription checks the flags of a subscription before the login.
func CheckSubscription(depth int, conflate string, intervals []string) error {
	if !slices.Contains(BookDepths, depth) {
		return Fail(ExitUsage, fmt.Errorf("--depth %d: a book has 1, 5, 10 or 25 levels, or 0 for all", depth), "")
	}
	if !slices.Contains(conflations, conflate) {
		return Fail(ExitUsage, fmt.Errorf("--conflate %q is not one of %s", conflate, strings.Join(conflations, ", ")), "")
	}
	for _, word := range intervals {
		if !slices.Contains(barIntervals, word) {
			return Fail(ExitUsage, fmt.Errorf("--interval %q is not one of %s", word, strings.Join(barIntervals, ", ")), "")
		}
	}
	return nil
}

// Subcommand requires the name of a subcommand. The error suggests a similar one.
func Subcommand(cmd *cobra.Command, args []string) error {
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
	return Fail(ExitUsage, fmt.Errorf("unknown command %q", args[0]), advice)
}

// below returns the commands of that name that are subcommands of subcommands.
func below(cmd *cobra.Command, args []string) (list []string) {
	for _, sub := range cmd.Commands() {
		if c, _, err := sub.Find(args[:1]); err == nil && c != sub {
			list = append(list, c.CommandPath())
		}
	}
	return list
}
