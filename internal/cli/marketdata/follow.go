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

// Channels of the protocol.
const (
	chTrades  = "trades"
	chQuotes  = "quotes"
	chBook    = "order_book"
	chStatus  = "status"
	chBars    = "bars"
	chSummary = "summary"
)

// interest has the subscriptions of a follower.
type interest struct {
	ids       []string
	books     []string // identifiers of order_book if they differ
	channels  []string
	depth     int
	conflate  string
	intervals []string // of bars
}

// of returns the identifiers of a channel.
func (w *interest) of(channel string) []string {
	if channel == chBook && w.books != nil {
		return w.books
	}
	return w.ids
}

// hooks receive the messages of a follower. Nil hooks are not called.
type hooks struct {
	ready   func(ctx context.Context, token string) error // before each connection
	message func(v *wire.Value, msg []byte) error         // every message except pings and the answer to auth_token, as it was received
	data    func(v *wire.Value, msg []byte) error         // new market data: no repeated messages, and no book message that does not follow the previous one
	lost    func(l lost) error                            // messages that cannot be recovered
	down    func(err error) error                         // the connection is lost
}

// lost is a range of messages that the server cannot replay. An N of 0 is unknown.
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

// follower follows a stream over several connections: it logs in, subscribes, and resumes where the
// previous connection ended.
type follower struct {
	std      command.Streams
	account  *client.Account
	want     interest
	hooks    hooks
	keepGaps bool // gaps are not requested again: the stream is being verified

	// Progress in the stream, over all connections.
	epoch    string
	position string
	seen     map[recording.Series]uint64 // newest N
	asked    map[recording.Series]uint64 // the N before a gap that was requested again
	resuming bool                        // a gap ended the previous connection
	unknown  map[string]bool             // refused instruments that were printed
	feeds    recording.FeedStates
}

// errEnough ends a follower without an error.
var errEnough = errors.New("enough")

// checkPatterns checks the identifiers of instruments.
func checkPatterns(ids []string, example string) error {
	for _, id := range ids {
		if _, err := market.ParsePattern(id); err != nil {
			return command.Fail(command.ExitUsage, fmt.Errorf("%q is %w", id, err),
				"Quote it, because a pipe is special in the shell: "+example)
		}
	}
	return nil
}

// run follows until the context ends, or for a time limit that is not 0. The error is nil at the
// limit and after a hook returned errEnough.
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
		var gap *gapError
		if w.resuming = errors.As(err, &gap); w.resuming {
			w.printf("%v: requesting it again in %s", err, wait.Round(time.Millisecond))
		} else {
			w.printf("connection lost: %v; retrying in %s", err, wait.Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// unreached returns the failure for a gateway that cannot be reached or that answers with an error.
func unreached(a *client.Account, err error) error {
	status := command.ExitUnreachable
	if r := (*client.ResponseError)(nil); errors.As(err, &r) && r.Reason != "" {
		status = command.ExitOf(r.Status)
	}
	return command.Fail(status, fmt.Errorf("%s: %w", a.API.Base, err), unreachable(err))
}

// unreachable returns advice for an error of a connection.
func unreachable(err error) string {
	var unknown x509.UnknownAuthorityError
	var r *client.ResponseError
	switch {
	case errors.As(err, &r):
		return r.Advice()
	case errors.As(err, &unknown):
		return "The server answers, but its certificate is not trusted. Trust a certificate file with SSL_CERT_FILE=tls.crt rueda watch ..."
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "The server closes the connection. If it uses TLS, the address begins with https."
	}
	return "Is it running? Start one on this machine with: rueda dev"
}

// isFinal reports whether a retry cannot help: the server refused permanently, or the output is
// closed.
func isFinal(err error) bool {
	var f *command.Failure
	var w writeError
	return errors.As(err, &f) || errors.As(err, &w)
}

// define requests the definitions of the instruments. With patterns, it also lists the instruments
// by name for order books, which servers do not send for patterns.
func (w *follower) define(ctx context.Context, token string) ([]recording.Row, error) {
	rows, ids, err := recording.Catalogue(ctx, w.account.API.Get(token), w.want.ids)
	if err != nil || !slices.ContainsFunc(w.want.ids, isPattern) {
		return rows, err
	}
	w.want.books = slices.Clip(ids)
	for _, id := range w.want.ids {
		if !isPattern(id) && !slices.Contains(ids, id) {
			w.want.books = append(w.want.books, id) // the server reports the mistake
		}
	}
	return rows, nil
}

func isPattern(id string) bool { return strings.Contains(id, market.Any) }

func (w *follower) printf(format string, args ...any) {
	fmt.Fprintf(w.std.Err, "%s  %s\n", time.Now().Format("15:04:05.000"), command.Printable(fmt.Sprintf(format, args...)))
}
