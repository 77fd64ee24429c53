package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/bench"
)

// benchmark is a measurement of the command.
type benchmark struct {
	name, short string
	run         func(context.Context, bench.Options) (*bench.Report, error)
}

func benchmarks() []benchmark {
	return []benchmark{
		{"ceiling", "What the kernel allows: write(2) alone", bench.Ceiling},
		{"idle", "Memory of connections, plain and TLS, and the cost of their heartbeats", bench.Idle},
		{"slow", "Readers that stop or read too slowly, and what the others notice", bench.Slow},
		{"resume", "Clients who come back and take up where they were", bench.Resume},
		{"million", "A million connections, and one message to all of them", bench.Million},
		{"connect", "Connect, authenticate, subscribe, first snapshot: clients a second", bench.Connect},
		{"latency", "From an event to its receipt, at fixed rates", bench.Latency},
		{"fanout", "Deliveries a second at full speed, and what they cost", bench.Fanout},
	}
}

func newBench(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the stream on this machine",
		Long: `Bench measures this machine: deliveries a second and what they cost, latency, memory, connecting,
slow readers. Server and load are processes of their own. Each figure is compared with that of a bare
program which does nothing but the system calls, taken in the same call; every message is checked at its
receiver, and a run that loses or doubles one fails.

The exit status is 1 where messages went wrong, or where a bound was not kept and --strict is given.`,
		Example: `  rueda bench fanout                      all workloads, 5 pairs of runs each
  rueda bench fanout --only singles -n 1  one of them, once
  rueda bench latency --json > latency.json`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, b := range benchmarks() {
		cmd.AddCommand(newBenchmark(std, b))
	}
	cmd.AddCommand(newBenchReport(std))
	for _, role := range []string{bench.RoleServe, bench.RoleBare, bench.RoleLoad} {
		cmd.AddCommand(&cobra.Command{
			Use: role, Hidden: true, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return bench.Role(role, std.in, std.out) },
		})
	}
	return cmd
}

func newBenchmark(std streams, b benchmark) *cobra.Command {
	var o bench.Options
	var asJSON, strict bool
	var out string
	cmd := &cobra.Command{
		Use: b.name, Short: b.short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Program, o.Talk = []string{self, "bench"}, std.talk
			report, err := b.run(cmd.Context(), o)
			if errors.Is(err, errors.ErrUnsupported) {
				return fail(exitError, errors.New("this system can't be measured"), "Bench needs Linux.")
			}
			if err != nil {
				return err
			}
			if err := writeReport(std, report, asJSON, out); err != nil {
				return err
			}
			if report.Wrong() || strict && report.Missed() {
				return fail(exitError, errors.New("not as it should be"), "")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.Runs, "runs", "n", 5, "pairs of runs, of which medians are told")
	f.DurationVar(&o.Window, "window", 5*time.Second, "what is measured of a run")
	f.DurationVar(&o.Warmup, "warmup", 2*time.Second, "what runs before it")
	f.IntVar(&o.Conns, "conns", 0, "connections (0: those of each workload)")
	f.IntVar(&o.Procs, "procs", 0, "GOMAXPROCS of the gateway (0: its own)")
	f.BoolVar(&o.IOUring, "io-uring", false, "the gateway with stream.io_uring")
	f.BoolVar(&o.PumpTLS, "pump-tls", false, "the gateway with stream.pump_tls")
	f.StringVar(&o.Only, "only", "", "only workloads whose name contains this")
	f.StringVar(&o.Profile, "profile", "", "write a processor profile of each window of the gateway into this folder")
	f.BoolVar(&asJSON, "json", false, "write the report as JSON")
	f.StringVar(&out, "out", "", "write the report as JSON into this folder too, as NAME.json")
	f.BoolVar(&strict, "strict", false, "end with status 1 where a bound is not kept")
	return cmd
}

func writeReport(std streams, r *bench.Report, asJSON bool, folder string) (err error) {
	if folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		name := filepath.Join(folder, r.What+".json")
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		if err := errors.Join(r.WriteJSON(f), f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if asJSON {
		return r.WriteJSON(std.out)
	}
	return r.WriteText(std.out)
}

func newBenchReport(std streams) *cobra.Command {
	var from, docs string
	cmd := &cobra.Command{
		Use: "report", Short: "Draw plots and write tables of reports that --out left", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			written, err := bench.Publish(from, docs)
			for _, name := range written {
				if _, err := fmt.Fprintln(std.out, name); err != nil {
					return err
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "build/bench", "folder of the reports")
	cmd.Flags().StringVar(&docs, "docs", "docs", "folder of performance.md")
	return cmd
}
