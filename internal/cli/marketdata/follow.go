package marketdata

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/client"
	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Channels, by their names on the wire.
const (
	chTrades  = "trades"
	chQuotes  = "quotes"
	chBook    = "order_book"
	chStatus  = "status"
	chBars    = "bars"
	chSummary = "summary"
)

// interest is what a follower subscribes to.
type interest struct {
	ids       []string
	books     []string // identifiers of order_book where they differ
	channels  []string
	depth     int
	conflate  string
	intervals []string // of bars
}

// of is the identifiers of a channel.
func (w *interest) of(channel string) []string {
	if channel == chBook && w.books != nil {
		return w.books
	}
	return w.ids
}

// hooks are what is done with what a follower hears; those that are nil do nothing.
type hooks struct {
	ready   func(ctx context.Context, token string) error // before each connection
	message func(v *wire.Value, msg []byte) error         // every message but pings and the answer to auth_token, as it came
	data    func(v *wire.Value, msg []byte) error         // market data that is new: nothing twice, no book that does not chain
	lost    func(l lost) error                            // what cannot be had any more
	down    func(err error) error                         // the connection is lost
}

// lost is a range of messages that cannot be had any more. An N of 0 is not known.
type lost struct {
	channel, id string
	from, to    uint64
	reason      string
}

func (l lost) String() string {
	s := "lost: " + l.channel + " " + l.id
	switch {
	case l.from > 0 && l.to > 0:
		s += fmt.Sprintf(" from #%d to #%d", l.from, l.to)
	case l.from > 0:
		s += fmt.Sprintf(" from #%d", l.from)
	}
	return s + " (" + l.reason + ")"
}

// follower follows a stream over lost connections: it logs in, subscribes, and resumes where
// the connection before ended.
type follower struct {
	std     command.Streams
	account *client.Account
	want    interest
	hooks   hooks
	asIs    bool // a hole is not asked for again: whoever follows judges the stream

	// Where the stream is, over all connections.
	epoch    string
	position string
	seen     map[recording.Series]uint64 // newest N
	asked    map[recording.Series]uint64 // the N before a hole that was asked for
	mending  bool                        // a hole ended the connection before
	unknown  map[string]bool             // instruments that were told to be refused
	feeds    recording.FeedStates
}

// errEnough ends a follower that heard all it was to hear.
var errEnough = errors.New("enough")

// checkPatterns refuses what is no identifier.
func checkPatterns(ids []string, example string) error {
	for _, id := range ids {
		if _, err := market.ParsePattern(id); err != nil {
			return command.Fail(command.ExitUsage, fmt.Errorf("%q is %w", id, err),
				"Quote it, since the shell takes a pipe for its own: "+example)
		}
	}
	return nil
}

// run follows until the context ends, or for a time where that is not 0. The error is nil
// when the time is over or a hook said errEnough.
func (w *follower) run(ctx context.Context, limit time.Duration) error {
	if w.seen == nil {
		w.seen = map[recording.Series]uint64{}
	}
	w.asked, w.unknown, w.feeds = map[recording.Series]uint64{}, map[string]bool{}, recording.FeedStates{}
	if limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, limit, errEnough)
		defer cancel()
		ctx = limited
	}
	pause := client.Backoff{}
	for first := true; ; first = false {
		live, err := w.connect(ctx)
		switch {
		case errors.Is(err, errEnough), errors.Is(context.Cause(ctx), errEnough):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err):
			return err
		case first && !live:
			return unreached(w.account, err)
		}
		if live {
			pause = client.Backoff{}
			if w.hooks.down != nil {
				if err := w.hooks.down(err); err != nil {
					return err
				}
			}
		}
		wait := pause.Next(err)
		var gap *hole
		if w.mending = errors.As(err, &gap); w.mending {
			w.talk("%v: asking for it again in %s", err, wait.Round(time.Millisecond))
		} else {
			w.talk("link lost: %v; again in %s", err, wait.Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// unreached is the failure of a gateway that could not be talked to, or that answered with an error.
func unreached(a *client.Account, err error) error {
	status := command.ExitUnreachable
	if r := (*client.ResponseError)(nil); errors.As(err, &r) && r.Reason != "" {
		status = command.ExitOf(r.Status)
	}
	return command.Fail(status, fmt.Errorf("%s: %w", a.API.Base, err), unreachable(err))
}

// unreachable is what to do about it.
func unreachable(err error) string {
	var unknown x509.UnknownAuthorityError
	var r *client.ResponseError
	switch {
	case errors.As(err, &r):
		return r.Advice()
	case errors.As(err, &unknown):
		return "It is there, and its certificate is not trusted. Trust a file of your own with SSL_CERT_FILE=tls.crt rueda watch ..."
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "Something is there and hangs up. Where it speaks TLS, the address begins with https."
	}
	return "Is it running? This starts one here: rueda dev"
}

// isFinal says whether trying again cannot help: what the server refused for good, or
// nobody left to print for.
func isFinal(err error) bool {
	var f *command.Failure
	var w writeError
	return errors.As(err, &f) || errors.As(err, &w)
}

// define asks for the definitions of what is wanted. Where that is by pattern, order books are
// wanted by name from then on, since servers do not give them by pattern.
func (w *follower) define(ctx context.Context, token string) ([]recording.Row, error) {
	rows, ids, err := recording.Catalogue(ctx, w.account.API.Get(token), w.want.ids)
	if err != nil || !slices.ContainsFunc(w.want.ids, isPattern) {
		return rows, err
	}
	w.want.books = slices.Clip(ids)
	for _, id := range w.want.ids {
		if !isPattern(id) && !slices.Contains(ids, id) {
			w.want.books = append(w.want.books, id) // the server says what is wrong with it
		}
	}
	return rows, nil
}

func isPattern(id string) bool { return strings.Contains(id, market.Any) }

func (w *follower) talk(format string, args ...any) {
	fmt.Fprintf(w.std.Err, "%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
