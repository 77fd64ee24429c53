package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/market"
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

// CheckInstruments checks identifiers of instruments before the login. patterns allows * for a
// part. example is a correct command line for the advice.
func CheckInstruments(example string, patterns bool, ids ...string) error {
	for _, id := range ids {
		p, err := market.ParsePattern(id)
		if err == nil && (patterns || !p.IsPattern()) {
			continue
		}
		const form = "SYMBOL|MARKET|TERM"
		find := ProgramName() + " instruments " + QuoteShell(strings.Trim(id[:max(strings.IndexByte(id+"|", '|'), 0)], "*"))
		switch parts := strings.Split(id, "|"); {
		case err == nil:
			return Fail(ExitUsage, fmt.Errorf("%q is a pattern, and this command takes one instrument", id), "Find one: "+ProgramName()+" instruments")
		case len(parts) == 1:
			return Fail(ExitUsage, fmt.Errorf("%q is not of the form %s", id, form), "Quote it, because a pipe is special in the shell: "+example+"\nFind it: "+find)
		case len(parts) == 2:
			return Fail(ExitUsage, fmt.Errorf("%q is not of the form %s: the settlement term is missing", id, form), "Find it: "+find)
		case len(parts) == 4 && slices.Contains(barIntervals, parts[3]):
			return Fail(ExitUsage, fmt.Errorf("%q is not of the form %s: the interval is a flag", id, form), "Give --interval "+parts[3]+" instead.")
		case len(parts) > 3:
			return Fail(ExitUsage, fmt.Errorf("%q is not of the form %s: it has %d parts", id, form, len(parts)), "Find it: "+find)
		}
		return Fail(ExitUsage, fmt.Errorf("%q is not of the form %s", id, form), "It looks like 'GGAL|BYMA|24hs', in letters, digits and some signs. Find it: "+find)
	}
	return nil
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
	advice := "See " + cmd.CommandPath() + " --help"
	further := suggested(cmd, args[0])
	if len(further) == 0 {
		further = below(cmd, args)
	}
	if len(further) > 0 {
		advice = "Did you mean " + strings.Join(further, " or ") + "?"
	} else if near, ok := nearestCommand(cmd, args[0]); ok {
		advice = "Did you mean " + cmd.CommandPath() + " " + near + "?"
	}
	return Fail(ExitUsage, fmt.Errorf("unknown command %q", args[0]), advice)
}

// nearestCommand returns the first subcommand that begins with word or, if there is none, the most
// similar one.
func nearestCommand(cmd *cobra.Command, word string) (string, bool) {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if i := slices.IndexFunc(names, func(name string) bool { return word != "" && strings.HasPrefix(name, word) }); i >= 0 {
		return names[i], true
	}
	return spell.Nearest(word, names)
}

// suggested returns the subcommands that list a word in SuggestFor.
func suggested(cmd *cobra.Command, word string) (list []string) {
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			list = append(list, sub.CommandPath())
		}
	}
	return list
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
