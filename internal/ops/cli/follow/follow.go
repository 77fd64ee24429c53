// Package follow runs a stream for a command. It reports on standard error what happens to the
// stream, and ends with the error and the exit status of the command line.
//
//	f := follow.Stream{Std: std, Target: target, Client: c, Set: set, On: print}
//	return f.Run(ctx, time.Minute)
package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// ErrEnough ends a stream without an error.
var ErrEnough = errors.New("enough")

// Stream is a stream that a command follows.
type Stream struct {
	Std    command.Streams
	Target *command.Target
	Client *client.Client
	Set    client.Set
	// Extra is what the command adds on its own. Its refusal is not reported. nil: nothing.
	Extra client.Set
	// On handles each event before it is reported. ErrEnough ends the stream, another error too.
	On func(client.Event) error

	live     bool            // at least once
	rejected map[string]bool // by channel and identifier
	unknown  map[string]bool // identifiers that were reported as unknown
}

// Run follows the stream until ctx ends, for a time limit that is not 0, or until On returns
// ErrEnough. A gateway that cannot be reached at first, and a stream without subscriptions, are
// errors with an exit status.
func (s *Stream) Run(ctx context.Context, limit time.Duration) error {
	s.rejected, s.unknown = map[string]bool{}, map[string]bool{}
	for _, set := range []client.Set{s.Set, s.Extra} {
		if err := s.Client.Subscribe(set); err != nil {
			return command.Fail(command.ExitUsage, err, "")
		}
	}
	limited := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for ev := range s.Client.Events(limited) {
		err := s.On(ev)
		if err == nil {
			err = s.report(ev)
		}
		if errors.Is(err, ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := s.Client.Err(); err != nil {
		return s.Target.Explain(err)
	}
	return ctx.Err()
}

// report reports an event that is not market data.
func (s *Stream) report(ev client.Event) error {
	switch ev := ev.(type) {
	case client.StateChange:
		return s.state(ev)
	case client.Rejected:
		return s.reject(ev)
	case client.Lost:
		s.Say("%s", LostText(ev))
	case client.Recovered:
		from := ""
		if ev.History {
			from = " from history"
		}
		s.Say("recovered: %s%s", span(ev.Channel, ev.Instrument, ev.From, ev.To), from)
	case client.BookInvalid:
		if ev.Reason != "disconnected" {
			s.Say("the book of %s is not known until its next snapshot (%s)", ev.Instrument, ev.Reason)
		}
	case client.Delayed:
		when := "in real time"
		if ev.Delay > 0 {
			when = ev.Delay.String() + " late"
		}
		s.Say("%s %s is now %s", ev.Channel, ev.Instrument, when)
	case client.Notice:
		s.Say("%s: %s", ev.Reason, strings.TrimSpace(ev.Msg+" "+ev.Hint))
	}
	return nil
}

// state reports a state. A gateway that cannot be reached at first ends the stream.
func (s *Stream) state(ev client.StateChange) error {
	switch {
	case ev.State == client.Live && s.live:
		s.Say("live again")
	case ev.State == client.Live:
		s.live = true
		s.Say("live as %s at %s: %s", s.Target.User, ev.URL, strings.Join(s.accepted(), " "))
	case ev.State == client.Waiting && !s.live:
		return s.Target.Unreached(ev.Err)
	case ev.State == client.Waiting:
		s.Say("connection lost: %v%s; retrying in %s", ev.Err, idle(&ev), ev.Wait.Round(time.Millisecond))
	}
	return nil
}

// idleTime is the shortest time after which proxies cut idle connections. Clients send a ping when
// nothing comes for twice as long.
const idleTime = 4 * time.Second

// idle explains the end of a connection on which nothing had come for a while.
func idle(ev *client.StateChange) string {
	var refused *client.Error
	if ev.Silent < idleTime || errors.As(ev.Err, &refused) {
		return ""
	}
	return fmt.Sprintf(" after %s without a message (the network, or a proxy that cuts idle connections: it must allow 30 s)", ev.Silent.Round(time.Second))
}

// channels returns the identifiers of a set by the name of their channel.
func channels(s *client.Set) map[string][]string {
	all := map[string][]string{}
	for c, ids := range map[wire.Channel][]string{
		wire.Trades: s.Trades, wire.Quotes: s.Quotes, wire.OrderBook: s.Books, wire.Status: s.Status, wire.Summary: s.Summary, wire.Bars: s.Bars,
	} {
		all[c.String()] = ids
	}
	return all
}

// accepted returns the identifiers that are accepted on at least one channel, sorted.
func (s *Stream) accepted() (ids []string) {
	for channel, list := range channels(&s.Set) {
		for _, id := range list {
			if !s.rejected[channel+" "+id] {
				ids = append(ids, withoutInterval(id))
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func withoutInterval(id string) string {
	if strings.Count(id, "|") == 3 {
		return id[:strings.LastIndexByte(id, '|')]
	}
	return id
}

// reject reports a refused subscription. The stream ends if none is left.
func (s *Stream) reject(ev client.Rejected) error {
	if !slices.Contains(channels(&s.Set)[ev.Channel], ev.Instrument) {
		return nil
	}
	key, id := ev.Channel+" "+ev.Instrument, withoutInterval(ev.Instrument)
	switch {
	case s.rejected[key] && !ev.Removed, ev.Reason == wire.UnknownInstrument && s.unknown[id]:
	case ev.Reason == wire.UnknownInstrument && !ev.Removed: // the same on every channel
		s.unknown[id] = true
		s.Say("%s refused: %s", id, sentences(ev.Msg, ev.Hint))
	case ev.Removed:
		s.Say("%s removed: %s", key, sentences(described(ev), ev.Hint))
	default:
		s.Say("%s refused: %s: %s", key, ev.Reason, sentences(ev.Msg, ev.Hint))
	}
	s.rejected[key] = true
	for channel, ids := range channels(&s.Set) {
		for _, id := range ids {
			if !s.rejected[channel+" "+id] {
				return nil
			}
		}
	}
	status := command.ExitRefused
	if ev.Reason == wire.UnknownInstrument {
		status = command.ExitNotFound
	}
	return command.Fail(status, errors.New("no subscription is left"), ev.Hint)
}

// described returns the message of a rejection, or of its reason.
func described(ev client.Rejected) string {
	if ev.Msg != "" {
		return ev.Msg
	}
	if e := ev.Reason.Socket(); e.Code > 0 {
		return strings.ToLower(e.Msg[:1]) + e.Msg[1:]
	}
	return string(ev.Reason) // one that this version does not know
}

func sentences(msg, hint string) string {
	if hint == "" {
		return msg
	}
	return strings.TrimSuffix(msg, ".") + ". " + hint
}

// LostText describes lost messages.
func LostText(l client.Lost) string {
	text := span(l.Channel, l.Instrument, l.From, l.To)
	if !l.Start.IsZero() {
		text += " after " + l.Start.UTC().Format(time.RFC3339Nano)
	}
	if !l.End.IsZero() {
		text += " before " + l.End.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("lost: %s (%s)", text, l.Reason)
}

// LostLine describes lost rows of history on a line: the first range, and how many there are more.
func LostLine(list []client.Lost) string {
	text := LostText(list[0])
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// span describes a range of N, of which 0 is unknown.
func span(c wire.Channel, id market.InstrumentID, from, to uint64) string {
	text := c.String() + " " + string(c.Append(nil, id))
	if from > 0 {
		text += fmt.Sprintf(" from #%d", from)
	}
	if to > 0 {
		text += fmt.Sprintf(" to #%d", to)
	}
	return text
}

// Say prints a line with the time on standard error.
func (s *Stream) Say(format string, args ...any) {
	fmt.Fprintf(s.Std.Err, "%s  %s\n", time.Now().Format("15:04:05.000"), command.Printable(fmt.Sprintf(format, args...)))
}
