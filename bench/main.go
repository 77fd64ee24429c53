// Command bench measures Rueda on this machine. docs/performance.md describes the method.
//
//	go -C bench run . fanout
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/bench/scenario"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // writing to a closed pipe returns an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer context.AfterFunc(ctx, stop)() // the second signal ends the program at once
	status := run(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Exit: os.Exit})
	stop()
	os.Exit(status)
}

// run runs the program with its arguments and returns the exit status.
func run(ctx context.Context, args []string, std command.Streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	status, text, advice := command.Outcome(ctx, root.ExecuteContext(ctx))
	if text != "" {
		fmt.Fprintln(std.Err, "bench:", text)
	}
	if advice != "" {
		fmt.Fprintln(std.Err, " ", advice)
	}
	return status
}

// benchmark is a measurement of the command.
type benchmark struct {
	name, short, long string
	takes             takes
	run               func(context.Context, scenario.Options) (*scenario.Report, error)
}

// takes says which flags a measurement has in addition to the common ones.
type takes int

const (
	takesRuns takes = 1 << iota
	takesWarmup
	takesWindow
	takesOnly
	takesGateway // settings of the gateway, if the measurement runs one
	takesTLS     // TLS settings
	takesProfile
	takesStrict
	takesPostgres
	takesPrograms // two arguments
)

func benchmarks() []benchmark {
	const windows = takesRuns | takesWarmup | takesWindow | takesOnly
	const gateway = takesGateway | takesStrict
	return []benchmark{
		{"compare", "Two versions of Rueda in pairs of runs", longCompare, windows | gateway | takesPrograms, scenario.Compare},
		{"ceiling", "What the kernel allows: write(2) alone", longCeiling, windows, scenario.Ceiling},
		{"idle", "Memory of connections, plain and TLS, and the cost of heartbeats", longIdle,
			takesRuns | takesWindow | takesOnly | gateway | takesTLS, scenario.Idle},
		{"slow", "Slow readers, and their effect on others", longSlow, windows | gateway, scenario.Slow},
		{"hostile", "How one user's expensive messages affect the latency of others", scenario.HostileHelp, windows | gateway | takesProfile, scenario.Hostile},
		{"history", "The effect of history requests on live streams", longHistory, windows | gateway, scenario.History},
		{"auth", "Refreshes, token checks and logins, compared with a bare program", longAuth, windows | takesPostgres | takesStrict, scenario.Auth},
		{"resume", "Clients that reconnect and resume", longResume, takesRuns | gateway, scenario.Resume},
		{"million", "A million connections, and one message to all of them", longMillion, gateway, scenario.Million},
		{"connect", "Connect, authenticate, subscribe, first snapshot: clients a second", longConnect, takesRuns | gateway, scenario.Connect},
		{"latency", "From an event to its receipt, at fixed rates", longLatency, windows | gateway | takesProfile, scenario.Latency},
		{"fanout", "Deliveries a second at full speed, and what they cost", longFanout, windows | gateway | takesProfile, scenario.Fanout},
	}
}

func newRoot(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the stream on this machine",
		Long:  benchLong,
		Example: `  bench fanout                      all workloads, 5 pairs of runs each
  bench fanout --only singles -n 1  one of them, once
  bench latency --json > latency.json`,
		Args:          command.Subcommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetOut(std.Out)
	cmd.SetErr(std.Err)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.Fail(command.ExitUsage, err, "See "+cmd.CommandPath()+" --help")
	})
	for _, b := range benchmarks() {
		cmd.AddCommand(newBenchmark(std, &b))
	}
	for _, role := range []string{scenario.RoleServe, scenario.RoleBare, scenario.RoleLoad, scenario.RoleTokens, scenario.RoleWitness} {
		cmd.AddCommand(&cobra.Command{
			Use: role, Hidden: true, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return scenario.Role(role, std.In, std.Out) },
		})
	}
	return cmd
}

// benchFlags are the flags of a measurement.
type benchFlags struct {
	options scenario.Options
	asJSON  bool
	asLines bool
	strict  bool
	out     string
}

func newBenchmark(std command.Streams, b *benchmark) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: b.name, Short: b.short, Long: benchHelp(b), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, b); err != nil {
				return err
			}
			if err := f.programs(cmd.Context(), args); err != nil {
				return err
			}
			return f.measure(cmd.Context(), std, b)
		},
	}
	if b.takes&takesPrograms != 0 {
		cmd.Use += " OLD NEW"
		cmd.Args = twoPrograms
	}
	f.define(cmd, b)
	return cmd
}

func twoPrograms(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	return command.Fail(command.ExitUsage, errors.New("needs the files of two programs, the older one first"), "See "+cmd.CommandPath()+" --help")
}

// programs sets the programs of the arguments, if there are any.
func (f *benchFlags) programs(ctx context.Context, args []string) error {
	commands := [2]*[]string{&f.options.Old, &f.options.New}
	for i, name := range args {
		file, err := exec.LookPath(name)
		if err != nil {
			return command.Fail(command.ExitUsage, err, "make compare OLD=COMMIT NEW=COMMIT builds programs.")
		}
		*commands[i] = []string{file}
		if exec.CommandContext(ctx, file, "version").Run() == nil { // rueda, when it had the benchmarks
			*commands[i] = []string{file, "bench"}
		}
	}
	return nil
}

func (f *benchFlags) define(cmd *cobra.Command, b *benchmark) {
	o, flags := &f.options, cmd.Flags()
	if b.takes&takesRuns != 0 {
		flags.IntVarP(&o.Runs, "runs", "n", scenario.Runs(b.name), fmt.Sprintf("pairs of runs, whose medians are reported; at least %d", b.leastRuns()))
	}
	if b.takes&takesPrograms != 0 {
		flags.IntVar(&o.MaxRuns, "max-runs", scenario.MaxPairs, fmt.Sprintf("pairs at most, while an interval is wider than 0.06; like --runs at most %d", mostRuns))
	}
	if b.takes&takesWindow != 0 {
		flags.DurationVar(&o.Window, "window", 5*time.Second, "measured time of a run"+windowBound(b.name))
	}
	if b.takes&takesWarmup != 0 {
		flags.DurationVar(&o.Warmup, "warmup", 2*time.Second, "time before the measurement; above 0")
	}
	flags.IntVar(&o.Conns, "conns", 0, connsHelp(b))
	if b.takes&takesGateway != 0 {
		flags.IntVar(&o.Procs, "procs", 0, "GOMAXPROCS of the gateway (0: default)")
		flags.BoolVar(&o.IOUring, "io-uring", false, "the gateway with stream.io_uring")
	}
	if b.takes&takesTLS != 0 {
		flags.BoolVar(&o.TLSByGoroutines, "tls-by-goroutines", false, "the gateway with stream.tls_by_goroutines")
	}
	if b.takes&takesOnly != 0 {
		flags.StringVar(&o.Only, "only", "", "only workloads whose name contains this")
	}
	if b.takes&takesProfile != 0 {
		flags.StringVar(&o.Profile, "profile", "", "write a processor profile of each window of the gateway into this folder")
	}
	if b.takes&takesPostgres != 0 {
		flags.StringVar(&o.Postgres, "postgres", "", "URL of an empty PostgreSQL database on this machine, to measure it too")
	}
	flags.BoolVar(&f.asJSON, "json", false, "write the report as JSON")
	flags.BoolVar(&f.asLines, "benchstat", false, "write a line for each run, which benchstat -col /side compares")
	cmd.MarkFlagsMutuallyExclusive("json", "benchstat")
	flags.StringVar(&f.out, "out", "", "write the report as JSON into this folder too, as NAME.json")
	if b.takes&takesStrict != 0 {
		flags.BoolVar(&f.strict, "strict", false, strictHelp(b))
	}
}

func strictHelp(b *benchmark) string {
	if b.takes&takesPrograms != 0 {
		return "exit with status 1 if a figure is slower"
	}
	return "exit with status 1 if a bound is exceeded (at the default sizes)"
}

func connsHelp(b *benchmark) string {
	if b.takes&takesPrograms != 0 {
		return "connections of each workload, and fewer rows for start (0: default of each workload)"
	}
	return "connections (0: default of each workload)"
}

// windowBound returns the lower limit of the window for the help text.
func windowBound(name string) string {
	if name == "idle" {
		return "; at least 20s, the interval of heartbeats"
	}
	return "; above 0"
}

// leastRuns returns the lower limit of --runs.
func (b *benchmark) leastRuns() int {
	if b.takes&takesPrograms != 0 {
		return scenario.Runs(b.name)
	}
	return 1
}

// mostRuns is the upper limit of --runs and --max-runs for two programs.
const mostRuns = 1000

// check rejects values that would make a measurement empty.
func (f *benchFlags) check(cmd *cobra.Command, b *benchmark) error {
	o := &f.options
	bad := func(format string, args ...any) error {
		return command.Fail(command.ExitUsage, fmt.Errorf(format, args...), "See "+cmd.CommandPath()+" --help")
	}
	least := 1
	if b.name == "slow" {
		least = 4 // two are slow, and others are needed
	}
	switch {
	case b.takes&takesRuns != 0 && o.Runs < b.leastRuns():
		return bad("--runs must be at least %d", b.leastRuns())
	case b.takes&takesPrograms != 0 && max(o.Runs, o.MaxRuns) > mostRuns:
		return bad("--runs and --max-runs must be at most %d", mostRuns)
	case b.takes&takesWindow != 0 && o.Window <= 0:
		return bad("--window must be above 0")
	case b.takes&takesWarmup != 0 && o.Warmup <= 0:
		return bad("--warmup must be above 0")
	case o.Conns != 0 && o.Conns < least:
		return bad("--conns must be at least %d", least)
	case o.Procs < 0:
		return bad("--procs must be at least 1")
	}
	return nil
}

func (f *benchFlags) measure(ctx context.Context, std command.Streams, b *benchmark) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := f.options
	o.Program, o.Talk = []string{self}, std.Err
	report, err := b.run(ctx, o)
	interrupted := err != nil && ctx.Err() != nil
	if interrupted {
		err = ctx.Err() // the other errors are of the children that it ended
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return command.Fail(command.ExitError, errors.New("this system cannot be measured"), "Bench needs Linux.")
	}
	if u := (*scenario.UnknownWorkload)(nil); errors.As(err, &u) {
		return command.Fail(command.ExitUsage, err, "There are: "+strings.Join(u.Names, "; "))
	}
	if err != nil && (report == nil || b.takes&takesPrograms == 0) {
		return err
	}
	written := f.write(std, report)
	switch {
	case err != nil && errors.Is(written, syscall.EPIPE): // would count as success
		return err
	case interrupted && written != nil:
		return command.Fail(command.ExitInterrupted, written, "")
	case err != nil || written != nil:
		return errors.Join(err, written)
	}
	if report.Wrong() || f.strict && report.Missed() {
		return command.Fail(command.ExitError, errors.New("outside its bounds"), "")
	}
	return nil
}

func (f *benchFlags) write(std command.Streams, r *scenario.Report) (err error) {
	if folder := f.out; folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		name := filepath.Join(folder, r.What+".json")
		file, err := os.Create(name)
		if err != nil {
			return err
		}
		if err := errors.Join(r.WriteJSON(file), file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	switch {
	case f.asJSON:
		return r.WriteJSON(std.Out)
	case f.asLines:
		return r.WriteBenchmarks(std.Out)
	}
	return r.WriteText(std.Out)
}
