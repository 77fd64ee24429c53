package marketdata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
	"github.com/ruedahq/rueda/market"
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
	lines    bool // --output is on the command line
	count    int
	duration time.Duration
}

// watchChannels has the channels that watch can follow, with their flags.
var watchChannels = [...]struct {
	channel     wire.Channel
	flag, about string
}{
	{wire.Trades, "trades", "every trade (default with --quotes)"},
	{wire.Quotes, "quotes", "the best bid and offer"},
	{wire.OrderBook, "book", "the order book"},
	{wire.Status, "status", "the trading status (always shown, except with -o jsonl)"},
	{wire.Bars, "bars", "bars, see --interval"},
	{wire.Summary, "summary", "figures of the day"},
}

// NewWatch returns the command watch.
func NewWatch(std command.Streams) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch INSTRUMENT...",
		Short: "Watch instruments: trades, quotes, books, halts",
		Long: `Watch logs in, subscribes and prints a line for each message. It reconnects and resumes
after a lost connection, and fills gaps. No message is lost or printed twice without a note.
Halts and other statuses are always shown, and so is a silence of 15 s, with its cause.

On a terminal, several instruments are a table that stays in its place; -o text prints lines.
With --book it shows the order book, with bids on the left and asks on the right. On a
terminal the book of one instrument stays in its place. Otherwise each change prints the book.

An instrument is SYMBOL|MARKET|TERM, quoted because a pipe is special in the shell; * may
stand for a whole part. Messages go to standard output and everything else to
standard error. For programs, see -o jsonl and rueda stream.

Exit status: 0 after --count, --for, or when the output was closed; 1 other errors; 2 a
mistake on the command line; 3 credentials or rights refused, or all rights removed;
4 no such instrument; 5 no gateway there; 130 interrupted.`,
		Example: `  rueda watch 'GGAL|BYMA|24hs'
  rueda watch 'AL30|BYMA|CI' --book --depth 10
  rueda watch '*|BYMA|CI' --trades -o jsonl | jq .P
  rueda watch 'GGAL|BYMA|24hs' --url https://api.broker.example --user ana`,
		Args: command.SomeArgs("instrument to watch", "rueda watch 'GGAL|BYMA|24hs'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("interval") && !cmd.Flags().Changed("bars") {
				return command.Fail(command.ExitUsage, errors.New("--interval needs --bars"), "Add --bars.")
			}
			o.lines = cmd.Flags().Changed("output")
			return runWatch(cmd.Context(), std, o, args)
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
	f.StringVarP(&o.output, "output", "o", "text", "text: a line for each message, also on a terminal; jsonl: the messages as they were received")
	f.IntVar(&o.count, "count", 0, "stop after this many messages; statuses count with --status alone")
	command.ForFlag(cmd, &o.duration, "stop after this time")
	return cmd
}

// check checks the flags and the identifiers.
func (o *watchOptions) check(ids []string) error {
	if err := command.CheckInstruments("rueda watch 'GGAL|BYMA|24hs'", true, ids...); err != nil {
		return err
	}
	if err := command.CheckSubscription(o.depth, o.conflate, []string{o.interval}); err != nil {
		return err
	}
	if o.output != "text" && o.output != "jsonl" {
		return command.Fail(command.ExitUsage, fmt.Errorf("--output %q is not one of text, jsonl", o.output), "rueda trades and rueda bars write csv.")
	}
	return nil
}

// channels returns the names of the channels that the flags choose.
func (o *watchOptions) channels() (names []string) {
	for i, c := range watchChannels {
		if o.on[i] {
			names = append(names, c.channel.String())
		}
	}
	if names == nil {
		names = []string{wire.Trades.String(), wire.Quotes.String()}
	}
	return names
}

// has reports whether a flag chooses a channel.
func (o *watchOptions) has(c wire.Channel) bool {
	for i := range watchChannels {
		if watchChannels[i].channel == c {
			return o.on[i]
		}
	}
	return false
}

func runWatch(ctx context.Context, std command.Streams, o watchOptions, ids []string) error {
	if err := o.check(ids); err != nil {
		return err
	}
	t, err := o.login.Target()
	if err != nil {
		return err
	}
	c, err := t.Client(std, func(o *client.Options) { o.Overflow = client.Block })
	if err != nil {
		return err
	}
	defer c.Close()
	books := ids
	if o.has(wire.OrderBook) {
		_, listed, err := definitions(ctx, c, ids)
		if err != nil {
			return t.Unreached(err)
		}
		books = withNames(ids, listed)
	}
	f := follow.Stream{Std: std, Target: t, Client: c, Set: subscriptions(ids, books, o.channels(), []string{o.interval}, o.depth)}
	f.Set.Conflate, _ = time.ParseDuration(o.conflate) // "none" is 0
	left := o.count
	counted := func(ev client.Event) error {
		if _, ok := ev.(*client.Status); ok && f.Extra.Status != nil {
			return nil
		}
		if left--; left == 0 {
			return follow.ErrEnough
		}
		return nil
	}
	if o.output == "jsonl" {
		f.On = func(ev client.Event) error {
			data, ok := ev.(interface{ Raw() []byte })
			if !ok {
				return nil
			}
			if _, err := std.Out.Write(append(command.EscapeControls(data.Raw()), '\n')); err != nil {
				return err
			}
			return counted(ev)
		}
		return f.Run(ctx, o.duration)
	}
	if !o.has(wire.Status) {
		f.Extra.Status = ids
	}
	return watchText(ctx, &f, o, counted)
}

// tabular reports whether a terminal shows a table: there are several instruments, and neither
// books, bars nor summaries. The lists are the subscriptions to statuses, which name all
// instruments.
func (o *watchOptions) tabular(lists ...[]string) bool {
	if o.has(wire.OrderBook) || o.has(wire.Bars) || o.has(wire.Summary) {
		return false
	}
	for _, ids := range lists {
		if len(ids) > 1 || slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(id, market.Any) }) {
			return true
		}
	}
	return false
}

// lookAgain is how often watch looks for silence, and redraws a book on a terminal.
const lookAgain = 100 * time.Millisecond

// watchText prints a stream for people.
func watchText(ctx context.Context, f *follow.Stream, o watchOptions, counted func(client.Event) error) error {
	moves := bool(command.NewPaint(f.Std.Out))
	table := moves && !o.lines && o.tabular(f.Set.Status, f.Extra.Status)
	s := &screen{out: f.Std.Out, inPlace: moves && len(f.Set.Books) == 1}
	if (s.inPlace || table) && command.IsTerminal(f.Std.Err) {
		f.Std.Err = &around{screen: s, to: f.Std.Err}
	}
	p := newPrinter(s, f.Set.Books, o.depth)
	if out := f.Std.Out; table {
		p.table = &quoteTable{Paint: p.Paint, rows: map[market.InstrumentID]*quoteRow{}, size: func() (int, int) { return command.Size(out) }}
		s.render = p.table.text
	} else {
		fmt.Fprint(f.Std.Err, legend(o.channels()))
	}
	quiet := silence{}
	f.On = func(ev client.Event) error {
		again := quiet.event(ev, time.Now())
		if again != "" {
			f.Say("%s", again)
		}
		shown, err := p.event(ev)
		if err != nil || !shown {
			return err
		}
		return counted(ev)
	}
	ctx, stop := context.WithCancel(ctx)
	var looker sync.WaitGroup
	looker.Go(func() {
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_ = s.redraw() // the next line returns the error
			h := f.Client.Health()
			for _, text := range []string{quiet.check(h, time.Now()), quiet.checkClock(h)} {
				if text != "" {
					f.Say("%s", text)
				}
			}
		}
	})
	err := f.Run(ctx, o.duration)
	stop()
	looker.Wait()
	return errors.Join(err, s.redraw())
}
