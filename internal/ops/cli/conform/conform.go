package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/conformance"
)

// New returns the command conformance.
func New(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Test a client or a gateway against the protocol",
		Args:  command.Subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClient(std), newServer(std))
	return cmd
}

// options are the flags of conformance client.
type options struct {
	cases    []string
	kills    int
	list     bool
	parallel int
	output   string
}

func newClient(std command.Streams) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "client -- COMMAND [ARGUMENT]...",
		Short: "Test a client program against a gateway with faults",
		Long: `Client starts the program COMMAND once for each case, as the client of a gateway with a
scripted market, and injects faults: connections that break, stall or fall silent, damaged books,
tokens that expire or are revoked, restarts, other addresses. It then checks what the program has
printed: each trade once and in order or reported as lost, books that equal those of the gateway,
and an end only where the client must give up.

The program gets its task in environment variables (RUEDA_URL, RUEDA_USERNAME, RUEDA_PASSWORD,
RUEDA_INSTRUMENTS, RUEDA_SESSION, RUEDA_FOLDER) and prints JSON lines. docs/conformance.md
describes both. Programs in Go can start from examples/conformance-client.

With --kills it runs one other case instead: connections are broken under load at random moments,
so many times in each of four ways. It takes about a second for each of them.

The exit status is 8 if a case has failed.`,
		Example: `  rueda conformance client --list
  rueda conformance client -- ./client
  rueda conformance client --case reset,gap -- python3 client.py --verbose
  rueda conformance client --kills 200 -- ./client`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return list(std, args)
			}
			cases, err := o.check(args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), std, cases, args)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.cases, "case", nil, "run only these cases, separated by commas")
	_ = cmd.RegisterFlagCompletionFunc("case", cobra.FixedCompletions(names(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	f.IntVar(&o.kills, "kills", 0, "break connections so many times in each of four ways, instead of the cases")
	f.BoolVar(&o.list, "list", false, "print the cases and what they test")
	f.IntVar(&o.parallel, "parallel", 4, "cases that run at the same time")
	f.StringVarP(&o.output, "output", "o", "table", "table or json (an object a line)")
	return cmd
}

// names returns the names of the cases.
func names() (list []string) {
	for _, c := range conformance.Cases() {
		list = append(list, c.Name)
	}
	return list
}

// list prints the cases.
func list(std command.Streams, args []string) error {
	if len(args) > 0 {
		return command.Fail(command.ExitUsage, errors.New("--list runs no command"), "")
	}
	for _, c := range conformance.Cases() {
		if _, err := fmt.Fprintf(std.Out, "%-16s %s\n", c.Name, c.What); err != nil {
			return err
		}
	}
	return nil
}

// maxKills bounds --kills, so that the client's output fits into memory.
const maxKills = 2000

// check checks the command line and returns the cases to run.
func (o *options) check(args []string) ([]conformance.Case, error) {
	usage := func(advice, format string, args ...any) error {
		return command.Fail(command.ExitUsage, fmt.Errorf(format, args...), advice)
	}
	all := conformance.Cases()
	switch {
	case len(args) == 0:
		return nil, usage("such as: rueda conformance client -- ./client", "the command of the client is missing")
	case o.parallel < 1 || o.parallel > len(all):
		return nil, usage("", "--parallel must be from 1 to %d", len(all))
	case o.kills < 0 || o.kills > maxKills:
		return nil, usage("", "--kills must be from 1 to %d", maxKills)
	case o.kills > 0 && len(o.cases) > 0:
		return nil, usage("leave one of them out", "--kills and --case are given")
	case o.output != "table" && o.output != "json":
		return nil, usage("", "--output %q is not table or json", o.output)
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, usage("a program in this folder needs ./ before its name", "the client cannot be started: %w", err)
	}
	switch {
	case o.kills > 0:
		return []conformance.Case{conformance.Kills(o.kills)}, nil
	case len(o.cases) == 0:
		return all, nil
	}
	var chosen []conformance.Case
	for _, name := range o.cases {
		i := slices.IndexFunc(all, func(c conformance.Case) bool { return c.Name == name })
		if i < 0 {
			advice := "rueda conformance client --list prints all cases"
			if near, ok := spell.Nearest(name, names()); ok {
				advice = "did you mean " + near + "?"
			}
			return nil, usage(advice, "there is no case %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// run runs the cases, and prints each result as soon as it is there.
func (o *options) run(ctx context.Context, std command.Streams, cases []conformance.Case, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan func() error)
	slots := make(chan struct{}, o.parallel)
	var running sync.WaitGroup
	for _, c := range cases {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r, err := conformance.Run(ctx, &c, args)
			results <- func() error {
				if err != nil {
					return fmt.Errorf("case %s: %w", c.Name, err)
				}
				return o.print(std, &r)
			}
		})
	}
	go func() {
		running.Wait()
		close(results)
	}()
	var err error
	failed := 0
	for result := range results {
		one := result()
		if errors.Is(one, errFailed) {
			failed++
		} else if one != nil && err == nil {
			err = one
			cancel()
		}
	}
	switch {
	case ctx.Err() != nil && err == nil:
		return ctx.Err()
	case err != nil:
		return err
	case failed > 0:
		return command.Fail(command.ExitBadData, fmt.Errorf("%d of %d cases failed", failed, len(cases)), "docs/conformance.md says what each case needs")
	}
	_, err = fmt.Fprintf(std.Err, "%d of %d cases passed.\n", len(cases), len(cases))
	return err
}

// errFailed says that a case has failed.
var errFailed = errors.New("the case has failed")

// print prints a result. The error is errFailed if the case has failed.
func (o *options) print(std command.Streams, r *conformance.Result) error {
	var err error
	if o.output == "json" {
		err = json.NewEncoder(std.Out).Encode(r)
	} else {
		err = printText(std, r)
	}
	if err == nil && !r.Passed() {
		err = errFailed
	}
	return err
}

func printText(std command.Streams, r *conformance.Result) error {
	word := "ok"
	if !r.Passed() {
		word = "FAILED"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-6s  %-16s %6d trades  %s", word, r.Name, r.Trades, r.Took.Round(100*time.Millisecond))
	if r.Broken > 0 {
		fmt.Fprintf(&b, "  %d connections broken", r.Broken)
	}
	b.WriteByte('\n')
	if !r.Passed() {
		fmt.Fprintf(&b, "        %s\n", r.What)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "        - %s\n", command.Printable(f))
	}
	if r.Stderr != "" {
		b.WriteString("        The client's standard error ends with:\n")
	}
	for line := range strings.Lines(r.Stderr) {
		fmt.Fprintf(&b, "          %s\n", command.Printable(strings.TrimRight(line, "\n")))
	}
	_, err := std.Out.Write([]byte(b.String()))
	return err
}
