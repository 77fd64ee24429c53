package marketdata

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/data/verify"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// verifyOptions are the flags of verify.
type verifyOptions struct {
	login    command.Login
	duration time.Duration
	out      *output.Options
	findings int
	symbols  []string
	date     string
}

// NewVerify returns the command verify.
func NewVerify(std command.Streams) *cobra.Command {
	o := verifyOptions{out: &output.Options{Piped: output.Table}}
	cmd := &cobra.Command{
		Use:   "verify FILE|INSTRUMENT...",
		Short: "Check a recording or a live stream for inconsistent market data",
		Long: `Verify reads market data to its end and checks it:

  message    every line is a message with the members of its type
  chain      book updates follow each other without a gap
  checksum   K of a book message is that of the book
  levels     levels are sorted, prices unique and on the tick
  crossed    the best bid is below the best ask while the market is open
  quote      quotes are the top of the book, and each top is quoted
  orders     changes of single orders refer to existing orders
  sequence   N has no gap, except that of books and of what the server conflates
  reference  cancels and corrections refer to trades; trade ids increase
  bars       bars are the sums of their trades, and come once
  summary    summaries follow from the ones before and the trades since
  aggressor  most buyers trade at the ask, and most sellers at the bid
  time       times do not go back within a channel, except those of late trades
  records    of a file in another format: nearly all records can be used

For each check it prints the number of checked messages, of errors, and of messages that
could not be checked, the checks that judged nothing, and the first errors with their
positions.

The format of a FILE is detected from its content: a recording of rueda record, the folder
of a journal or one segment of it, or any recording that rueda replay plays. - is
standard input, and named pipes are read too. For a
journal it prints a SHA-256 of the meaning of its rows: two runs of one seed have the same.
An INSTRUMENT, SYMBOL|MARKET|TERM or a pattern of it, is followed live, for --for or
until Ctrl-C.

Exit status: 0 no errors; 8 inconsistent data, or nothing that could be checked;
otherwise as of rueda watch.`,
		Example: `  rueda verify day.jsonl.zst
  rueda verify btcusdt.jsonl.gz -o jsonl | jq .good
  rueda verify data/journal
  rueda verify '*|BYMA|24hs' --for 10m`,
		Args: command.SomeArgs("file or instrument to verify", "rueda verify day.jsonl.zst, or live: rueda verify 'GGAL|BYMA|24hs'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), std, o, args)
		},
	}
	f := cmd.Flags()
	o.login.Flags(cmd)
	command.ForFlag(cmd, &o.duration, "for a live stream: stop after this time")
	o.out.Flags(cmd)
	o.out.Older(cmd, "json", "jsonl")
	f.IntVar(&o.findings, "findings", 5, "largest number of errors to print of each check")
	f.StringSliceVar(&o.symbols, "symbols", nil, "for a file in another format: symbols or identifiers to check (default all)")
	f.StringVar(&o.date, "date", "", "the day of a file without a date, as 2006-01-02 (default: from its name)")
	return cmd
}

func runVerify(ctx context.Context, std command.Streams, o verifyOptions, args []string) error {
	files, ids, err := filesAndInstruments(args)
	if err != nil {
		return err
	}
	shown := command.NewProgress(&std)
	rows, err := o.out.Open(std, "source", "check", "judged", "wrong", "unjudged")
	if err != nil {
		return err
	}
	wrong, empty := uint64(0), ""
	report := func(r *verify.Report, err error) error {
		if err != nil {
			return err
		}
		wrong += r.Wrong()
		if len(r.Checks) == 0 {
			empty = r.Source
		}
		if o.out.Format(std) == output.Table {
			return writeReport(std.Out, r)
		}
		return rowsOf(rows, r)
	}
	for _, name := range files {
		if err := report(verifyInput(ctx, std, o, shown, name)); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		if err := report(verifyLive(ctx, std, o, shown, ids)); err != nil {
			return err
		}
	}
	if o.out.Format(std) != output.Table {
		if err := rows.Close(); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return command.Fail(command.ExitBadData, errors.New(verify.Figure{Name: "findings", Value: wrong}.String()), "")
	}
	if empty != "" {
		return command.Fail(command.ExitBadData, fmt.Errorf("there was nothing to check in %s", empty), "")
	}
	return nil
}

// writeReport writes a report for people. It replaces control characters, because a report quotes
// the recording.
func writeReport(w io.Writer, r *verify.Report) error {
	var b bytes.Buffer
	return errors.Join(r.WriteText(&b), command.WriteText(w, b.String()))
}

// rowsOf prints a report: in JSON as one object, otherwise as a row for each check.
func rowsOf(w *output.Writer, r *verify.Report) error {
	var b bytes.Buffer
	err := r.WriteJSON(&b)
	if err == nil {
		err = w.Object(json.RawMessage(bytes.TrimSpace(b.Bytes())))
	}
	for i := range r.Checks {
		if c := &r.Checks[i]; err == nil {
			err = w.Cells(r.Source, fmt.Sprint(c.Check), strconv.FormatUint(c.Judged, 10), strconv.FormatUint(c.Wrong, 10), strconv.FormatUint(c.Unjudged, 10))
		}
	}
	return err
}

// filesAndInstruments separates existing files from identifiers of instruments.
func filesAndInstruments(args []string) (files, ids []string, err error) {
	for _, arg := range args {
		_, none := os.Stat(arg)
		_, bad := market.ParsePattern(arg)
		switch {
		case none == nil, arg == stdinName:
			files = append(files, arg)
		case bad == nil:
			ids = append(ids, arg)
		case errors.Is(none, fs.ErrNotExist):
			return nil, nil, command.Fail(command.ExitUsage, fmt.Errorf("%q is neither an existing file nor an instrument", arg),
				"Quote an instrument, because a pipe is special in the shell: rueda verify 'GGAL|BYMA|24hs'")
		default:
			return nil, nil, command.Fail(command.ExitUsage, none, "")
		}
	}
	return files, ids, nil
}

// verifyInput verifies one file or folder, or a pipe.
func verifyInput(ctx context.Context, std command.Streams, o verifyOptions, shown *progress.Progress, name string) (report *verify.Report, err error) {
	in, err := openPipe(ctx, std, name)
	if err != nil || in == nil {
		if err == nil {
			report, err = verifyFile(ctx, o, shown, name)
		}
		return report, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r, err := recording.NewReader(name, in)
	switch {
	case err == nil:
		in.Release()
		defer func() { err = errors.Join(err, r.Close()) }()
		return verifyRecording(ctx, o, shown, name, r)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !recording.IsForeign(err):
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	in.Rewind()
	return verifyFeed(ctx, o, shown, name, in)
}

// whole returns an error if instruments were chosen of a source that is verified as a whole.
func (o *verifyOptions) whole() error {
	if len(o.symbols) == 0 {
		return nil
	}
	return command.Fail(command.ExitUsage, errors.New("recordings of rueda record and journals are checked as a whole"), "--symbols is for files in other formats.")
}

// verifyRecording verifies a recording of rueda record.
func verifyRecording(ctx context.Context, o verifyOptions, shown *progress.Progress, name string, r *recording.Reader) (*verify.Report, error) {
	if err := o.whole(); err != nil {
		return nil, err
	}
	defer shown.During(ctx, func() string { return partRead(name, r.Progress) })()
	report, err := verify.Recording(ctx, r, o.findings)
	if err != nil {
		return nil, err
	}
	report.Source = name
	return report, nil
}

// verifyFile verifies one file or folder.
func verifyFile(ctx context.Context, o verifyOptions, shown *progress.Progress, name string) (report *verify.Report, err error) {
	r, err := recording.Open(name)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, r.Close()) }()
		return verifyRecording(ctx, o, shown, name, r)
	case !recording.IsForeign(err) && !isFolder(name):
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	name = journalIn(name)
	if journal, err := verify.IsJournal(name); err != nil {
		return nil, command.Fail(command.ExitUsage, err, "")
	} else if journal {
		return verifyJournal(ctx, o, shown, name)
	}
	return verifyFeed(ctx, o, shown, name, nil)
}

func verifyJournal(ctx context.Context, o verifyOptions, shown *progress.Progress, name string) (*verify.Report, error) {
	if err := o.whole(); err != nil {
		return nil, err
	}
	var read atomic.Int64
	defer shown.During(ctx, func() string { return name + "  " + progress.Thousands(read.Load()) + " rows" })()
	return verify.Journal(ctx, name, o.findings, read.Store)
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// verifyFeed verifies a recording in a foreign format by its events. in is nil for a file.
func verifyFeed(ctx context.Context, o verifyOptions, shown *progress.Progress, name string, in io.Reader) (*verify.Report, error) {
	source, err := openSource(name, replay.Config{Speed: -1, Symbols: o.symbols, Date: o.date, FromName: o.date == "", Input: in})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	// Captures of Binance number quotes and book updates together.
	ids := source.Instrument().ID.Market == "BINANCE"
	sink := verify.NewSink(verify.Config{Findings: o.findings, UpdateIDs: ids})
	stop := shown.During(ctx, func() string { return partRead(name, source.Progress) })
	err = source.Run(ctx, sink)
	stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if damage, ok := errors.AsType[*replay.Error](err); ok {
		err = damage
	}
	if _, unused := errors.AsType[*replay.UnusedError](err); err != nil && !unused { // Records reports it
		sink.Unreadable(err)
	}
	for _, n := range source.Notes() {
		sink.Note("%s", n.Detail)
	}
	stats := source.Stats()
	sink.Records(stats.Lines, stats.Used, stats.Skipped.Lost(), stats.Skipped.String(), stats.ManyLost())
	return sink.Report().Describe(name, "recorded %s", cmp.Or(source.Instrument().ID.Market, "data of no instrument")), nil
}

// partRead returns how much of a file was read.
func partRead(name string, far func() (read, size int64)) string {
	read, size := far()
	if size == 0 {
		return name + "  " + progress.Bytes(read)
	}
	return name + "  " + progress.Bar(float64(read)/float64(size)) + "  of " + progress.Bytes(size)
}

// verifyLive follows a stream and verifies its messages as they arrive.
func verifyLive(ctx context.Context, std command.Streams, o verifyOptions, shown *progress.Progress, ids []string) (*verify.Report, error) {
	t, err := o.login.Target()
	if err != nil {
		return nil, err
	}
	c, err := t.Client(std, func(o *client.Options) { o.Overflow, o.Messages = client.Block, true })
	if err != nil {
		return nil, err
	}
	defer c.Close()
	intervals := []string{market.Minute.String()}
	live := liveVerifier{Verifier: verify.New(verify.Config{Channels: channelNames(), Intervals: intervals, Findings: o.findings})}
	rows, listed, err := definitions(ctx, c, ids)
	if err != nil {
		return nil, t.Unreached(err)
	}
	live.DefineRows(rows)
	f := follow.Stream{Std: std, Target: t, Client: c}
	f.Set = subscriptions(ids, withNames(ids, listed), channelNames(), intervals, 0)
	f.On = func(ev client.Event) error { live.event(ev); return nil }
	stop := shown.During(ctx, func() string { return progress.Thousands(live.messages.Load()) + " messages" })
	err = f.Run(ctx, o.duration)
	stop()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r := live.Report().Describe(strings.Join(ids, " "), "live from %s", t.URL)
	r.Unit = "message"
	return r, nil
}

// liveVerifier verifies the events of a client.
type liveVerifier struct {
	*verify.Verifier
	messages  atomic.Int64
	connected bool
}

func (v *liveVerifier) event(ev client.Event) {
	switch ev := ev.(type) {
	case client.StateChange:
		if ev.State == client.Waiting && v.connected {
			v.connected = false
			v.Note("the connection was lost (%v) and restored", ev.Err)
			v.Interrupted()
		}
	case client.Message:
		if ev.Kind == stream.Ping || ev.Kind == stream.Pong || ev.Kind == stream.Success {
			return
		}
		v.connected = true
		n := v.messages.Add(1)
		v.Text(n, ev.Received.UnixNano(), ev.Raw())
	}
}
