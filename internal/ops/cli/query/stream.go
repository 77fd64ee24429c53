package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
)

// streamOptions are the flags of stream.
type streamOptions struct {
	login    command.Login
	on       [6]bool // by channel of streamChannels
	depth    int
	conflate string
	interval string
	count    int
	duration time.Duration
	strict   bool
}

// streamChannels has the flags of the channels.
var streamChannels = [...]struct{ flag, about string }{
	{"trades", "trades, cancels and corrections (default, with quotes)"},
	{"quotes", "best bid and ask (default, with trades)"},
	{"book", "order books"},
	{"status", "phases of trading"},
	{"summary", "figures of the day"},
	{"bars", "bars of --interval"},
}

// NewStream returns the command stream.
func NewStream(std command.Streams) *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "stream INSTRUMENT...",
		Short: "Print the messages of a stream as JSON lines, for programs",
		Long: `Stream subscribes and prints each message of market data on a line, as it was received. It
logs in again, reconnects and resumes by itself: each trade, status and bar is printed once and
in order, or reported as lost. Everything else is on standard error. rueda watch prints the
same for people.

An instrument is SYMBOL|MARKET|TERM; * may stand for a whole part, except for books.

Exit status: 0 ended by --for or --count, or the output was closed; 1 other errors; 2 a mistake on
the command line; 3 credentials or all subscriptions refused; 4 no such instrument; 5 no gateway
there; 8 with --strict, messages were lost; 130 interrupted.`,
		Example: `  rueda stream 'GGAL|BYMA|24hs'
  rueda stream '*|BYMA|CI' --trades | jq -r '[.I, .P, .Z] | @tsv'
  rueda stream 'AL30|BYMA|CI' --book --depth 0 --for 10m --strict > al30.jsonl`,
		Args:              command.SomeArgs("instrument", "rueda stream 'GGAL|BYMA|24hs'"),
		ValidArgsFunction: CompleteInstruments,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := o.set(args)
			if err != nil {
				return err
			}
			return runStream(cmd.Context(), std, o, set)
		},
	}
	f := cmd.Flags()
	o.login.Flags(cmd)
	for i, c := range streamChannels {
		f.BoolVar(&o.on[i], c.flag, false, c.about)
	}
	f.IntVar(&o.depth, "depth", 5, "levels of the book: 1, 5, 10, 25 or 0 for all")
	f.StringVar(&o.conflate, "conflate", "none", "only the newest quote and book, every 100ms, 250ms or 1s")
	f.StringVar(&o.interval, "interval", "1m", "of bars: 1s, 1m, 5m, 15m, 1h or 1d")
	f.IntVar(&o.count, "count", 0, "stop after this many messages")
	command.ForFlag(cmd, &o.duration, "stop after this time")
	f.BoolVar(&o.strict, "strict", false, "end with status 8 when messages are lost")
	return cmd
}

// set returns the subscriptions of the flags.
func (o *streamOptions) set(ids []string) (client.Set, error) {
	if err := command.CheckInstruments("rueda stream 'GGAL|BYMA|24hs'", true, ids...); err != nil {
		return client.Set{}, err
	}
	if err := command.CheckSubscription(o.depth, o.conflate, []string{o.interval}); err != nil {
		return client.Set{}, err
	}
	if !slices.Contains(o.on[:], true) {
		o.on[0], o.on[1] = true, true
	}
	s := client.Set{Depth: o.depth}
	if o.depth == 0 {
		s.Depth = client.AllLevels
	}
	s.Conflate, _ = time.ParseDuration(o.conflate) // "none" is 0
	for i, list := range []*[]string{&s.Trades, &s.Quotes, &s.Books, &s.Status, &s.Summary} {
		if o.on[i] {
			*list = ids
		}
	}
	if o.on[5] {
		for _, id := range ids {
			s.Bars = append(s.Bars, id+"|"+o.interval)
		}
	}
	return s, nil
}

func runStream(ctx context.Context, std command.Streams, o streamOptions, set client.Set) error {
	t, err := o.login.Target()
	if err != nil {
		return err
	}
	c, err := t.Client(std, func(o *client.Options) { o.Overflow = client.Block })
	if err != nil {
		return err
	}
	defer c.Close()
	printed := 0
	f := follow.Stream{Std: std, Target: t, Client: c, Set: set}
	f.On = func(ev client.Event) error {
		switch ev := ev.(type) {
		case interface{ Raw() []byte }:
			if _, err := fmt.Fprintf(std.Out, "%s\n", command.EscapeControls(ev.Raw())); err != nil {
				return err
			}
			if printed++; printed == o.count {
				return follow.ErrEnough
			}
		case client.Lost:
			if o.strict {
				f.Say("%s", follow.LostText(ev))
				return command.Fail(command.ExitBadData, errors.New("messages are lost"), "")
			}
		}
		return nil
	}
	return f.Run(ctx, o.duration)
}
