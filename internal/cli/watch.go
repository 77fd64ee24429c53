package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

const defaultURL = "http://127.0.0.1:8080"

// watchOptions are the flags of watch.
type watchOptions struct {
	url       string
	user      string
	fromStdin bool
	on        [wire.NumChannels]bool
	depth     int
	conflate  string
	output    string
	count     int
	duration  time.Duration
}

func newWatch(std streams) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch INSTRUMENT...",
		Short: "Print a stream line by line, and go on after every lost connection",
		Long: `Watch logs in, subscribes and prints a line for each message. A lost connection is
made again for ever, and resumed where it ended: no trade is lost or printed
twice, or watch says which.

An instrument is SYMBOL|MARKET|TERM, quoted since the shell knows pipes too; * may
stand for a whole part. Messages go to standard output and everything else to
standard error.

Exit status: 0 after --count, --for, or when the reader of its output has gone; 1 other
errors; 2 a mistake on the command line; 3 credentials or rights refused; 4 no such
instrument; 5 no gateway there; 130 interrupted.`,
		Example: `  rueda watch 'GGAL|BYMA|24hs'
  rueda watch '*|BYMA|CI' --trades -o jsonl | jq .P
  rueda watch 'AL30|BYMA|CI' --book --depth 1 --conflate 250ms
  echo "$SECRET" | rueda watch 'GGAL|BYMA|24hs' --url https://api.broker.example --user ana --password-stdin`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := newWatcher(std, o, args)
			if err != nil {
				return err
			}
			return w.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the gateway, or of its stream (default $RUEDA_URL or "+defaultURL+")")
	f.StringVar(&o.user, "user", "", "who logs in (default $RUEDA_USER or demo)")
	f.BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input (default $RUEDA_PASSWORD, or a prompt)")
	f.BoolVar(&o.on[wire.Trades], "trades", false, "every trade (default with --quotes)")
	f.BoolVar(&o.on[wire.Quotes], "quotes", false, "the best bid and offer")
	f.BoolVar(&o.on[wire.OrderBook], "book", false, "the order book")
	f.BoolVar(&o.on[wire.Status], "status", false, "the trading status")
	f.IntVar(&o.depth, "depth", 5, "levels of the book: 1, 5, 10, 25 or 0 for all")
	f.StringVar(&o.conflate, "conflate", "none", "newest quote and book only, every 100ms, 250ms or 1s")
	f.StringVarP(&o.output, "output", "o", "text", "text or jsonl, the messages as they came")
	f.IntVar(&o.count, "count", 0, "end after that many messages")
	f.DurationVar(&o.duration, "for", 0, "end after that time")
	return cmd
}

// watcher is a run of watch: what it wants, and what it has seen so far.
type watcher struct {
	opts    watchOptions
	std     streams
	account account
	ids     []string
	print   printer
	left    int // messages to print; under 0: no end

	// Where the stream is, over all connections.
	epoch    string
	position string
	seen     map[seenKey]uint64 // newest N
}

type seenKey struct {
	channel wire.Channel
	id      string
}

// errEnough ends a watch that printed all it was asked for.
var errEnough = errors.New("enough")

func newWatcher(std streams, o watchOptions, ids []string) (*watcher, error) {
	for _, id := range ids {
		if _, err := market.ParsePattern(id); err != nil {
			return nil, fail(exitUsage, fmt.Errorf("%q is %w", id, err),
				"Quote it, since the shell takes a pipe for its own: rueda watch 'GGAL|BYMA|24hs'")
		}
	}
	if o.on == [wire.NumChannels]bool{} {
		o.on[wire.Trades], o.on[wire.Quotes] = true, true
	}
	api, err := newAPI(cmp.Or(o.url, os.Getenv("RUEDA_URL"), defaultURL))
	if err != nil {
		return nil, err
	}
	w := &watcher{opts: o, std: std, ids: ids, left: -1, seen: map[seenKey]uint64{}}
	w.account.api = api
	if o.count > 0 {
		w.left = o.count
	}
	switch o.output {
	case "text":
		w.print = textPrinter{out: std.out, paint: painter(std.out)}
	case "jsonl":
		w.print = linePrinter{out: std.out}
	default:
		return nil, fail(exitUsage, fmt.Errorf("output %q is neither text nor jsonl", o.output), "")
	}
	return w, w.credentials()
}

// credentials finds out who logs in. Demo's password is known to everybody and is
// good on a dev server alone.
func (w *watcher) credentials() error {
	w.account.username = cmp.Or(w.opts.user, os.Getenv("RUEDA_USER"), demoUser)
	if !w.opts.fromStdin {
		w.account.password = os.Getenv("RUEDA_PASSWORD")
		if w.account.password == "" && w.account.username == demoUser {
			w.account.password = demoUser
		}
	}
	if w.account.password != "" {
		return nil
	}
	var err error
	w.account.password, err = readPassword(w.std, "Password of "+w.account.username, w.opts.fromStdin, false)
	return err
}

func (w *watcher) run(ctx context.Context) error {
	if w.opts.duration > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, w.opts.duration, errEnough)
		defer cancel()
		ctx = limited
	}
	pause := backoff{}
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
			return fail(exitUnreachable, fmt.Errorf("%s: %w", w.account.api.base, err), unreachable(err))
		}
		if live {
			pause = backoff{}
		}
		wait := pause.next(err)
		w.talk("link lost: %v; again in %s", err, wait.Round(time.Millisecond))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// unreachable is what to do about a gateway that could not be talked to.
func unreachable(err error) string {
	var unknown x509.UnknownAuthorityError
	switch {
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
	var f *failure
	var w writeError
	return errors.As(err, &f) || errors.As(err, &w)
}

func (w *watcher) talk(format string, args ...any) {
	fmt.Fprintf(w.std.talk, "%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
