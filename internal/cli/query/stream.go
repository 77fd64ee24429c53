package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
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
	f.DurationVar(&o.duration, "for", 0, "stop after this time")
	f.BoolVar(&o.strict, "strict", false, "end with status 8 when messages are lost")
	return cmd
}

// set returns the subscriptions of the flags.
func (o *streamOptions) set(ids []string) (client.Set, error) {
	for _, id := range ids {
		if _, err := market.ParsePattern(id); err != nil {
			return client.Set{}, command.Fail(command.ExitUsage, fmt.Errorf("%q is %w", id, err),
				"Quote it, because a pipe is special in the shell: rueda stream 'GGAL|BYMA|24hs'")
		}
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

// stream prints the messages of a client.
type stream struct {
	streamOptions
	std      command.Streams
	target   *command.Target
	live     bool            // at least once
	wanted   int             // subscriptions
	rejected map[string]bool // by channel and identifier
	printed  int
}

// errEnough ends a stream without an error.
var errEnough = errors.New("enough")

func runStream(ctx context.Context, std command.Streams, o streamOptions, set client.Set) error {
	t, err := o.login.Target()
	if err != nil {
		return err
	}
	c, err := t.Follower(std)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Subscribe(set); err != nil {
		return command.Fail(command.ExitUsage, err, "")
	}
	s := &stream{streamOptions: o, std: std, target: t, rejected: map[string]bool{}}
	for _, list := range [][]string{set.Trades, set.Quotes, set.Books, set.Status, set.Summary, set.Bars} {
		s.wanted += len(list)
	}
	limited := ctx
	if o.duration > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	for ev := range c.Events(limited) {
		switch err := s.event(ev); {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		}
	}
	if err := c.Err(); err != nil {
		return t.Explain(err)
	}
	return ctx.Err()
}

// event prints an event. An error ends the stream.
func (s *stream) event(ev client.Event) error {
	switch ev := ev.(type) {
	case interface{ Raw() []byte }:
		if _, err := fmt.Fprintf(s.std.Out, "%s\n", command.EscapeControls(ev.Raw())); err != nil {
			return err
		}
		if s.printed++; s.printed == s.count {
			return errEnough
		}
	case client.StateChange:
		return s.state(ev)
	case client.Rejected:
		return s.reject(ev)
	case client.Lost:
		s.say("%s", ev)
		if s.strict {
			return command.Fail(command.ExitBadData, errors.New("messages are lost"), "")
		}
	case client.Recovered:
		s.say("%s", ev)
	case client.BookInvalid:
		s.say("the book of %s is not known until its next snapshot: %s", ev.Instrument, ev.Reason)
	case client.Delayed:
		s.say("%s %s is delayed by %v", ev.Channel, ev.Instrument, ev.Delay)
	case client.Notice:
		s.say("%s: %s", ev.Reason, strings.TrimSpace(ev.Msg+" "+ev.Hint))
	}
	return nil
}

// state reports a state. A gateway that cannot be reached at first ends the stream.
func (s *stream) state(ev client.StateChange) error {
	switch ev.State {
	case client.Live:
		s.live = true
		s.say("live as %s at %s", s.target.User, ev.URL)
	case client.Waiting:
		if !s.live {
			return s.target.Unreached(ev.Err)
		}
		s.say("connection lost: %v; retrying in %s", ev.Err, ev.Wait.Round(time.Millisecond))
	}
	return nil
}

// reject reports a refused subscription. The stream ends if none is left.
func (s *stream) reject(ev client.Rejected) error {
	what := "refused"
	if ev.Removed {
		what = "removed"
	}
	key := ev.Channel + " " + ev.Instrument
	if !s.rejected[key] {
		s.say("%s %s: %s", key, what, strings.TrimSpace(fmt.Sprintf("%s: %s. %s", ev.Reason, ev.Msg, ev.Hint)))
	}
	if s.rejected[key] = true; len(s.rejected) < s.wanted {
		return nil
	}
	status := command.ExitRefused
	if ev.Reason == wire.UnknownInstrument {
		status = command.ExitNotFound
	}
	return command.Fail(status, errors.New("no subscription is left"), ev.Hint)
}

func (s *stream) say(format string, args ...any) {
	fmt.Fprintf(s.std.Err, "%s  %s\n", time.Now().Format("15:04:05.000"), command.Printable(fmt.Sprintf(format, args...)))
}
