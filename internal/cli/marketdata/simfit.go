package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/feed/replay"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/feed/sim/facts"
	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/config"
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
		Short: "The simulated exchange beside real markets",
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
		Long: `Fit reads recordings and computes what the simulated exchange is calibrated by: how
trades cluster (Fano factor of trades a second) and repeat their side
(autocorrelation of signs), how many orders come and go for each trade and where they
are placed, how wide spreads are, and how prices move from minute to minute. Beside the
classes of instruments stands a real share, and below them are the ranges that those of
the simulated exchange keep to. docs/simulator.md says how each figure is made.

A FILE is anything that rueda replay plays. Books are needed for spreads and orders:
a recording made with rueda record has them unless --channels left them out.`,
		Example: `  rueda record '*|BYMA|24hs' -f day.jsonl.zst --for 1h && rueda sim fit day.jsonl.zst
  rueda sim fit btcusdt.jsonl.gz
  rueda sim fit S013019-v50.txt.gz --date 2019-01-30 --symbols AAPL --json`,
		Args: command.SomeArgs("recording to read", "rueda sim fit day.jsonl.zst"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fit(cmd.Context(), std, o, args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print the table as one JSON object")
	f.StringSliceVar(&o.symbols, "symbols", nil, "of a file of many instruments: those to read, symbols or identifiers (default all)")
	f.StringVar(&o.date, "date", "", "the day of a file that holds none, as 2006-01-02 (default: from its name)")
	return cmd
}

func fit(ctx context.Context, std command.Streams, o fitOptions, files []string) error {
	shown := command.NewProgress(&std)
	log := command.NewLogger(std)(config.Log{Level: "warn"})
	c := facts.New()
	c.Class = sim.Classes()
	for _, name := range files {
		source, err := openSource(name, replay.Config{Speed: -1, Symbols: o.symbols, Date: o.date, FromName: o.date == "", Logger: log})
		if err != nil {
			return err
		}
		stop := shown.During(ctx, func() string { return partRead(name, source.Progress) })
		err = source.Run(ctx, c)
		stop()
		if err != nil {
			return err
		}
	}
	t := c.Table()
	if len(t.Classes) == 0 {
		return command.Fail(command.ExitError, errors.New("there is no time in it when a market was open and its book or quotes were known"), "Of a recording, record order_book or quotes and status too.")
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
