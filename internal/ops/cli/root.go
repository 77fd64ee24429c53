package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/ops/cli/admin"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/conform"
	"github.com/ruedahq/rueda/internal/ops/cli/login"
	"github.com/ruedahq/rueda/internal/ops/cli/maintenance"
	"github.com/ruedahq/rueda/internal/ops/cli/marketdata"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
	"github.com/ruedahq/rueda/internal/ops/cli/query"
	"github.com/ruedahq/rueda/internal/ops/cli/server"
)

// Main runs the program with its arguments (without its name) and returns the exit status. The
// first interrupt or SIGTERM shuts the command down, the second ends it at once.
func Main(args []string) int {
	// Writing to a closed pipe returns an error instead of killing the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, args, command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Exit: os.Exit})
}

func run(ctx context.Context, args []string, std command.Streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := helpless(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	status, text, advice := command.Outcome(ctx, err)
	if text != "" {
		for line := range strings.Lines(text) {
			fmt.Fprintf(std.Err, "rueda: %s\n", command.Printable(strings.TrimRight(line, "\n")))
		}
	}
	if advice != "" {
		fmt.Fprintf(std.Err, "  %s\n", strings.NewReplacer("\n", "\n  ", "did you mean", "Did you mean").Replace(command.Printable(advice)))
	}
	return status
}

// Root returns the program with all its commands, for manuals and completions of a release.
func Root() *cobra.Command {
	return newRoot(command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Exit: os.Exit})
}

func newRoot(std command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "rueda",
		Short: "A brokerage API gateway: tokens, accounts and a real-time market-data stream",
		Long: `Rueda gives a broker's clients token authentication, their accounts and a
real-time market-data stream, and gives you the same server with a simulated
market on your laptop.`,
		Example: `  rueda dev                                a market in this terminal
  rueda watch 'GGAL|BYMA|24hs'             its trades and quotes in another
  rueda serve --init rueda && rueda serve --config rueda/rueda.toml`,
		Args:          command.Subcommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return configFromEnvironment(cmd, os.Getenv("RUEDA_CONFIG"))
		},
		Version: command.ReadBuild().String(),
	}
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(badFlag)
	root.SetVersionTemplate("{{.Version}}\n")
	addGroup(root, "Run a gateway on this machine, or use one:",
		server.NewDev(std), login.NewContext(std), login.NewAuth(std),
		query.NewAccounts(std), query.NewInstruments(std), query.NewMarket(std), query.NewQuote(std), query.NewBook(std), query.NewTrades(std), query.NewBars(std),
		marketdata.NewWatch(std), query.NewStream(std), query.NewRaw(std), query.NewSnippet(std), query.NewOpen(std), marketdata.NewTrigger(std), conform.New(std),
	)
	addGroup(root, "Recordings and simulated markets:",
		marketdata.NewRecord(std), marketdata.NewVerify(std), marketdata.NewReplay(std), marketdata.NewExport(std), marketdata.NewSim(std),
	)
	addGroup(root, "Operate a gateway:",
		server.NewServe(std), server.NewHealth(std),
		admin.NewUser(std), admin.NewGroup(std), admin.NewKeys(std), admin.NewAudit(std), admin.NewReport(std),
		maintenance.NewBackup(std), maintenance.NewRestore(std),
		operation.NewStatus(std), operation.NewDoctor(std), operation.NewLogLevel(std), operation.NewConnections(std), operation.NewReload(std), operation.NewOperator(std),
	)
	root.AddCommand(newSchema(std), newVersion(std))
	root.InitDefaultCompletionCmd() // else it is unknown to help
	asUsage(root)
	fitHelp(root)
	for _, name := range []string{"watch", "record"} {
		if cmd, _, err := root.Find([]string{name}); err == nil {
			cmd.ValidArgsFunction = query.CompleteInstruments
		}
	}
	return root
}

// addGroup adds commands under a heading of the help.
func addGroup(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, cmd := range commands {
		cmd.GroupID = heading
	}
	root.AddCommand(commands...)
}

// configFromEnvironment sets --config from RUEDA_CONFIG for a command that has this flag, unless
// another flag names the place.
func configFromEnvironment(cmd *cobra.Command, file string) error {
	f := cmd.Flags().Lookup("config")
	if f == nil || f.Changed || file == "" {
		return nil
	}
	for _, other := range []string{"data", "init", "url"} {
		if o := cmd.Flags().Lookup(other); o != nil && o.Changed {
			return nil
		}
	}
	return f.Value.Set(file)
}

// namesFile matches the usage of a flag whose value is the name of a file or folder.
var namesFile = regexp.MustCompile(`\b(file|folder|recording)\b`)

// swallowed returns an error if the value of a flag, or the name of a file, looks like a flag.
// Otherwise serve --init --minimal would create a folder --minimal.
func swallowed(cmd *cobra.Command, args []string) error {
	isFlag := func(s string) bool {
		name := strings.TrimLeft(s, "-")
		return strings.HasPrefix(s, "--") && cmd.Flags().Lookup(name) != nil || len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil
	}
	for _, name := range flagNames(cmd) {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || !strings.HasPrefix(f.Value.Type(), "string") {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(interface{ GetSlice() []string }); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if len(v) < 2 || v[0] != '-' || !isFlag(v) && !namesFile.MatchString(f.Usage) {
				continue
			}
			what := map[string]string{"folder": "DIR", "file": "FILE", "recording": "FILE"}[namesFile.FindString(f.Usage)]
			if what != "" && len(args) == 1 {
				what = args[0] // serve --init --minimal DIR
			}
			return command.Fail(command.ExitUsage, fmt.Errorf("--%s has no value: %q begins with a hyphen, as flags do", name, v),
				fmt.Sprintf("Write: %s --%s %s %s", cmd.CommandPath(), name, cmp.Or(what, "VALUE"), v))
		}
	}
	for _, arg := range args {
		if len(arg) > 1 && arg[0] == '-' && regexp.MustCompile(`\b(FILE|DIR)\b`).MatchString(cmd.Use) {
			return command.Fail(command.ExitUsage, fmt.Errorf("%q begins with a hyphen, as flags do", arg), "Is it a file? Write ./"+arg)
		}
	}
	return nil
}

// flagNames returns the names of the flags of a command.
func flagNames(cmd *cobra.Command) (names []string) {
	for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		names = append(names, m[1])
	}
	return names
}

// badFlag returns an error for an unknown flag, with a similar one.
func badFlag(cmd *cobra.Command, err error) error {
	advice := "See " + cmd.CommandPath() + " --help"
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok && name == "password" {
		advice = "A password is not an argument, because other users of the machine could read it."
		if cmd.Flags().Lookup("password-stdin") != nil {
			advice += "\nUse --password-stdin, which reads it from standard input, or omit the flag: at a terminal, the command asks."
		}
		if cmd.Flags().Lookup("otp") != nil && cmd.Flags().Lookup("url") != nil {
			advice += "\nThe variable RUEDA_PASSWORD can also hold it."
		}
	} else if ok {
		if near, ok := spell.Nearest(name, flagNames(cmd)); ok {
			advice = "Did you mean --" + near + "?"
		}
	}
	// The library's message quotes an error of package strconv.
	if m := regexp.MustCompile(`^invalid argument (".*") for ".*--([a-z-]+)" flag: `).FindStringSubmatch(err.Error()); m != nil {
		kinds := map[byte]string{'u': "a whole number of 0 or more", 'i': "a whole number", 'f': "a number", 'd': "a duration such as 30s or 8h", 'b': "true or false"}
		if want := kinds[cmd.Flag(m[2]).Value.Type()[0]]; want != "" {
			err = fmt.Errorf("--%s %s is not %s", m[2], m[1], want)
		}
	}
	return command.Fail(command.ExitUsage, err, advice)
}

// helpless rejects help for a command that does not exist. The library would print the help of its
// parent.
func helpless(root *cobra.Command, args []string) error {
	switch {
	case len(args) > 1 && args[0] == "help":
		args = args[1:]
	case !slices.Contains(args, "--help") && !slices.Contains(args, "-h"):
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return err
	}
	return command.Subcommand(cmd, rest)
}

// asUsage turns argument errors of cobra into usage errors.
func asUsage(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := swallowed(cmd, args); err != nil {
			return err
		}
		err := check(cmd, args)
		if f := (*command.Failure)(nil); err != nil && !errors.As(err, &f) {
			if len(args) > 0 {
				err = fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
			}
			return command.Fail(command.ExitUsage, err, "See "+cmd.CommandPath()+" --help")
		}
		return err
	}
	for _, sub := range cmd.Commands() {
		asUsage(sub)
	}
}
