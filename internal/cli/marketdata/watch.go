package marketdata

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/wire"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	login    command.Login
	on       [6]bool // by watchChannels
	depth    int
	conflate string
	interval string
	output   string
	count    int
	duration time.Duration
}

// watchChannels has the channels that watch can follow, with their flags.
var watchChannels = [...]struct{ channel, flag, about string }{
	{chTrades, "trades", "every trade (default with --quotes)"},
	{chQuotes, "quotes", "the best bid and offer"},
	{chBook, "book", "the order book"},
	{chStatus, "status", "the trading status"},
	{chBars, "bars", "bars, see --interval"},
	{chSummary, "summary", "figures of the day"},
}

// NewWatch returns the command watch.
func NewWatch(std command.Streams) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch INSTRUMENT...",
		Short: "Print a stream line by line, and resume after every lost connection",
		Long: `Watch logs in, subscribes and prints a line for each message. It reconnects and resumes
after a lost connection, and after a missing trade, status or bar. No message is lost or
printed twice without a note.

An instrument is SYMBOL|MARKET|TERM, quoted because a pipe is special in the shell; * may
stand for a whole part. Messages go to standard output and everything else to
standard error.

Exit status: 0 after --count, --for, or when the output was closed; 1 other errors; 2 a
mistake on the command line; 3 credentials or rights refused, or all rights removed;
4 no such instrument; 5 no gateway there; 130 interrupted.`,
		Example: `  rueda watch 'GGAL|BYMA|24hs'
  rueda watch '*|BYMA|CI' --trades -o jsonl | jq .P
  rueda watch 'AL30|BYMA|CI' --book --depth 1 --conflate 250ms
  echo "$SECRET" | rueda watch 'GGAL|BYMA|24hs' --url https://api.broker.example --user ana --password-stdin`,
		Args: command.SomeArgs("instrument to watch", "rueda watch 'GGAL|BYMA|24hs'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("interval") && !cmd.Flags().Changed("bars") {
				return command.Fail(command.ExitUsage, errors.New("--interval needs --bars"), "Add --bars.")
			}
			w, err := newWatcher(std, o, args)
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), o.duration)
		},
	}
	f := cmd.Flags()
	o.login.Flags(cmd)
	for i, c := range watchChannels {
		f.BoolVar(&o.on[i], c.flag, false, c.about)
	}
	f.IntVar(&o.depth, "depth", 5, "levels of the book: 1, 5, 10, 25 or 0 for all")
	f.StringVar(&o.conflate, "conflate", "none", "only the newest quote and book, every 100ms, 250ms or 1s")
	f.StringVar(&o.interval, "interval", "1m", "of bars: 1s, 1m, 5m, 15m, 1h or 1d")
	f.StringVarP(&o.output, "output", "o", "text", "text or jsonl, the messages as they were received")
	f.IntVar(&o.count, "count", 0, "stop after this many messages")
	f.DurationVar(&o.duration, "for", 0, "stop after this time")
	return cmd
}

// watcher prints a stream.
type watcher struct {
	follower
	print printer
	left  int // messages to print; negative: no limit
}

func newWatcher(std command.Streams, o watchOptions, ids []string) (*watcher, error) {
	if err := checkPatterns(ids, "rueda watch 'GGAL|BYMA|24hs'"); err != nil {
		return nil, err
	}
	if err := command.CheckSubscription(o.depth, o.conflate, []string{o.interval}); err != nil {
		return nil, err
	}
	w := &watcher{left: -1}
	w.std = std
	w.want = interest{ids: ids, depth: o.depth, conflate: o.conflate, intervals: []string{o.interval}}
	for i, c := range watchChannels {
		if o.on[i] {
			w.want.channels = append(w.want.channels, c.channel)
		}
	}
	if w.want.channels == nil {
		w.want.channels = []string{chTrades, chQuotes}
	}
	if o.count > 0 {
		w.left = o.count
	}
	switch o.output {
	case "text":
		w.print = textPrinter{out: std.Out, Paint: command.NewPaint(std.Out)}
	case "jsonl":
		w.print = linePrinter{out: std.Out}
	default:
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("output %q is neither text nor jsonl", o.output), "")
	}
	w.hooks.data = w.message
	var err error
	w.account, err = o.login.Account(std)
	return w, err
}

// message prints a message of market data.
func (w *watcher) message(v *wire.Value, msg []byte) error {
	if err := w.print.message(v, msg); err != nil {
		return writeError{err}
	}
	if w.left > 0 {
		if w.left--; w.left == 0 {
			return errEnough
		}
	}
	return nil
}
