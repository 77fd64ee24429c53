package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/feed/sim/facts"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// fitOptions are the flags of sim fit.
type fitOptions struct {
	json    bool
	symbols []string
	date    string
}

// NewSim returns the command sim.
func NewSim(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Compare the simulated exchange with real markets",
		Args:  command.Subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFit(std))
	return cmd
}

func newFit(std command.Streams) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit FILE...",
		Short: "Compute the stylised facts of a recording",
		Long: `Fit reads recordings and computes the figures that the simulated exchange is calibrated
with: how trades cluster (Fano factor of trades per second) and repeat their side
(autocorrelation of signs), how many orders are added and cancelled per trade and at which
prices, how wide spreads are, and how prices move from minute to minute. The table compares
the classes of instruments with cited figures of AAPL, and lists the ranges for the
simulated exchange. docs/simulator.md describes how each figure is computed. Fit only
prints: the parameters of the simulated exchange are in feed/sim/class.go.

A FILE is anything that rueda replay plays, or - for standard input. Spreads and orders
need books: a recording of rueda record has them unless --channels left them out.`,
		Example: `  rueda record '*|BYMA|24hs' -f day.jsonl.zst --for 1h
  rueda sim fit day.jsonl.zst
  rueda sim fit btcusdt.jsonl.gz
  rueda sim fit S013019-v50.txt.gz --date 2019-01-30 --symbols AAPL --json`,
		Args: command.SomeArgs("recording to read", "rueda sim fit day.jsonl.zst"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fit(cmd.Context(), std, o, args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print the table as one JSON object")
	f.StringSliceVar(&o.symbols, "symbols", nil, "for a file of many instruments: symbols or identifiers to read (default all)")
	f.StringVar(&o.date, "date", "", "the day of a file without a date, as 2006-01-02 (default: from its name)")
	return cmd
}

// fitFile counts the events of one recording.
func fitFile(ctx context.Context, std command.Streams, shown *progress.Progress, c feed.Sink, name string, r replay.Config) (err error) {
	in, err := openPipe(ctx, std, name)
	if err != nil {
		return err
	}
	if in != nil {
		in.Release()
		r.Input = in
		defer func() { err = errors.Join(err, in.Close()) }()
	}
	source, err := openSource(name, r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	defer shown.During(ctx, func() string { return partRead(name, source.Progress) })()
	return source.Run(ctx, c)
}

func fit(ctx context.Context, std command.Streams, o fitOptions, files []string) error {
	shown := command.NewProgress(&std)
	log, _ := command.NewLogger(std)(config.Log{Level: "warn"})
	c := facts.New()
	c.Class = sim.Classes()
	for _, name := range files {
		r := replay.Config{Speed: -1, Symbols: o.symbols, Date: o.date, FromName: o.date == "", Orders: true, Logger: log}
		err := fitFile(ctx, std, shown, c, name, r)
		if unused, ok := errors.AsType[*replay.UnusedError](err); ok {
			return command.Fail(command.ExitError, unused, "Record order_book or quotes, and status too.")
		}
		if err != nil {
			return err
		}
	}
	t := c.Table()
	if len(t.Classes) == 0 {
		return command.Fail(command.ExitError, errors.New("it has no time at which a market was open and its book or quotes were known"), "Record order_book or quotes, and status too.")
	}
	if !o.json {
		return t.WriteText(std.Out)
	}
	b, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	_, err = fmt.Fprintf(std.Out, "%s\n", b)
	return err
}
