package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// recordOptions are the flags of record.
type recordOptions struct {
	login     command.Login
	file      string
	channels  []string
	intervals []string
	depth     int
	duration  time.Duration
	force     bool
	append    bool
}

// NewRecord returns the command record.
func NewRecord(std command.Streams) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record INSTRUMENT... -f FILE",
		Short: "Write the messages of a stream to a file, as they are received",
		Long: `Record logs in, subscribes, and writes every message to a file, byte for byte as it was
received, with the time of receipt. The first line has the subscriptions and the
definitions of the instruments, so that the file can be verified (rueda verify FILE) and
replayed (rueda replay FILE) without other files.

The extension of the name determines the compression: .zst, .gz, or anything else for
plain text. Messages are in the file within a second, even if the recorder is killed. The
recorder reconnects and resumes after a lost connection, and after a missing trade, status
or bar. Messages that cannot be recovered are reported, here and in the file. Ctrl-C ends
the recording.

An existing file is not changed without --force, which overwrites it when the first
message is received, or --append, which continues it: with the same instruments and
channels, resuming from its last message.

An instrument is SYMBOL|MARKET|TERM; * may stand for a whole part. Order books cannot be
subscribed to by pattern: record subscribes to the listed ones individually.

Exit status: 0 ended by --for or Ctrl-C; 1 other errors; 2 a mistake on the command line;
3 credentials or rights refused; 4 no such instrument; 5 no gateway there.`,
		Example: `  rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst
  rueda record '*|BYMA|24hs' '*|BYMA|CI' -f day.jsonl.zst --for 8h
  rueda record 'AL30|BYMA|CI' -f al30.jsonl --channels bars --interval 1s,1m
  rueda record -f day.jsonl.zst --append`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := newRecorder(std, o, args, cmd.Flags().Changed("channels") || cmd.Flags().Changed("interval") || cmd.Flags().Changed("depth"))
			if err != nil {
				return err
			}
			return r.record(cmd.Context())
		},
	}
	f := cmd.Flags()
	o.login.Flags(cmd)
	f.StringVarP(&o.file, "file", "f", "", "file to write: NAME.zst, NAME.gz or plain")
	f.StringSliceVar(&o.channels, "channels", channelNames()[:4], "of trades, quotes, order_book, status, bars, summary")
	f.StringSliceVar(&o.intervals, "interval", []string{"1m"}, "of bars: 1s, 1m, 5m, 15m, 1h, 1d")
	f.IntVar(&o.depth, "depth", 0, "levels of the books: 1, 5, 10, 25 or 0 for all")
	command.ForFlag(cmd, &o.duration, "stop after this time")
	f.BoolVar(&o.force, "force", false, "overwrite the file")
	f.BoolVar(&o.append, "append", false, "continue the file at its end")
	return cmd
}

// recorder records a stream into a file.
type recorder struct {
	std     command.Streams
	opts    recordOptions
	file    *recording.Writer
	meta    recording.Meta
	target  *command.Target
	client  *client.Client
	from    *client.Checkpoint // the end of the file; nil: it is new
	fresh   bool               // no message was received on this connection
	written map[string]bool    // definitions in the file, as text
	ended   map[stream.Series]uint64
	at      int64 // time of the newest line

	trouble recording.Problems
	began   time.Time
}

func newRecorder(std command.Streams, o recordOptions, ids []string, chosen bool) (*recorder, error) {
	if o.file == "" {
		return nil, command.Fail(command.ExitUsage, errors.New("no file is named"), "Name one: rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst")
	}
	if o.force && o.append {
		return nil, command.Fail(command.ExitUsage, errors.New("--force and --append cannot be combined"), "")
	}
	r := &recorder{std: std, opts: o, fresh: true, written: map[string]bool{}, ended: map[stream.Series]uint64{}}
	if _, err := os.Stat(o.file); o.append && err == nil {
		if chosen {
			return nil, command.Fail(command.ExitUsage, errors.New("--append uses the channels, intervals and depth of the file"), "Leave those flags out.")
		}
		if err := r.resume(ids); err != nil {
			return nil, err
		}
	} else if err := r.create(ids); err != nil {
		return nil, err
	}
	if err := r.open(ids); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	return r, nil
}

// open checks the flags and makes the client.
func (r *recorder) open(ids []string) (err error) {
	if err := r.check(ids); err != nil {
		return err
	}
	if r.target, err = r.opts.login.Target(); err != nil {
		return err
	}
	r.meta.Server = r.target.URL
	r.client, err = r.target.Client(r.std, func(o *client.Options) {
		o.Overflow, o.Messages, o.Resume = client.Block, true, r.from
	})
	return err
}

// create creates the file.
func (r *recorder) create(ids []string) (err error) {
	o := &r.opts
	r.file, err = recording.Create(o.file, recording.CreateConfig{Overwrite: o.force})
	switch {
	case errors.Is(err, recording.ErrExists):
		return command.Fail(command.ExitUsage, err, "Overwrite it with --force, continue it with --append, or choose another name.")
	case errors.Is(err, fs.ErrNotExist):
		return command.Fail(command.ExitUsage, err, "Create the folder first: mkdir -p "+command.QuoteShell(filepath.Dir(o.file)))
	case err != nil:
		return command.Fail(command.ExitUsage, err, "")
	}
	r.meta = recording.Meta{Program: "rueda " + command.ReadBuild().Version, Channels: o.channels, Depth: o.depth, IDs: ids}
	if slices.Contains(o.channels, wire.BarsOf(market.Minute).String()) {
		r.meta.Intervals = o.intervals
	}
	return nil
}

// resume continues the file at its end.
func (r *recorder) resume(ids []string) error {
	var d stream.Decoder
	var m stream.Message
	var reached recording.ResumeState
	w, meta, torn, err := recording.Continue(r.opts.file, func(line *recording.Line) error {
		if err := d.Decode(line.Body, &m); err == nil { // otherwise verify finds it
			reached.Add(&m)
		}
		r.at = max(r.at, line.At)
		return nil
	})
	if err != nil {
		return command.Fail(command.ExitUsage, err, "--append only continues a recording of rueda record.")
	}
	if torn != nil {
		fmt.Fprintf(r.std.Err, "%s: %v; it is cut off, and the lost messages are requested again.\n", r.opts.file, torn)
	}
	r.file, r.meta = w, *meta
	r.from = &client.Checkpoint{Epoch: reached.Epoch, Position: reached.Position, Sequences: reached.Sequences}
	for _, row := range meta.Instruments {
		r.written[string(row)] = true
	}
	if len(ids) > 0 && !slices.Equal(ids, meta.IDs) {
		return errors.Join(command.Fail(command.ExitUsage, fmt.Errorf("%s is a recording of %s", r.opts.file, strings.Join(meta.IDs, " ")),
			"--append continues with the same instruments; leave them out."), w.Close())
	}
	return nil
}

// check checks the flags and the identifiers.
func (r *recorder) check(ids []string) error {
	if len(r.meta.IDs) == 0 {
		return command.Fail(command.ExitUsage, errors.New("no instrument to record"), "Name one: rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst")
	}
	if err := command.CheckInstruments("rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst", true, ids...); err != nil {
		return err
	}
	if err := command.CheckSubscription(r.meta.Depth, "none", r.meta.Intervals); err != nil {
		return err
	}
	for _, c := range r.meta.Channels {
		if known := channelNames(); !slices.Contains(known, c) {
			return command.Fail(command.ExitUsage, fmt.Errorf("there is no channel %q", c), "The channels are "+strings.Join(known, ", ")+".")
		}
	}
	return nil
}

// set returns the subscriptions. Books are those that the gateway lists now.
func (r *recorder) set(listed []string) client.Set {
	return subscriptions(r.meta.IDs, withNames(r.meta.IDs, listed), r.meta.Channels, r.meta.Intervals, r.meta.Depth)
}

// define requests the definitions of the instruments.
func (r *recorder) define(ctx context.Context) (ids []string, err error) {
	r.meta.Instruments, ids, err = definitions(ctx, r.client, r.meta.IDs)
	return ids, err
}

// event records an event.
func (r *recorder) event(ctx context.Context, ev client.Event) error {
	switch ev := ev.(type) {
	case client.StateChange:
		return r.state(ctx, ev)
	case *client.Trade:
		return r.numbered(ev.Header, wire.Trades)
	case *client.Status:
		return r.numbered(ev.Header, wire.Status)
	case *client.Bar:
		return r.numbered(ev.Header, wire.BarsOf(ev.Interval))
	case client.Message:
		switch ev.Kind {
		case stream.Ping, stream.Pong, stream.Success, stream.Trade, stream.Status, stream.Bar:
			return nil // the others of these are not for the file, or come again in their order
		case stream.Error:
			if r.fresh {
				return nil // a refusal creates no file
			}
		}
		return r.message(ev.Received, ev.Raw())
	case client.Notice:
		r.trouble.Add(ev.Reason)
	case client.Lost:
		return r.lost(ev)
	}
	return nil
}

// state records the state of the connection. Before data comes, it requests the definitions again,
// and adds the books of new instruments.
func (r *recorder) state(ctx context.Context, ev client.StateChange) error {
	switch {
	case ev.State == client.Syncing && r.file.Begun():
		ids, err := r.define(ctx)
		if err != nil {
			r.meta.Instruments = nil // those of the file stay
			return nil
		}
		return r.client.Subscribe(r.set(ids))
	case ev.State == client.Waiting && !r.fresh:
		r.fresh = true
		r.trouble.Disconnects++
		return r.note(&recording.Note{Kind: recording.Disconnected, Reason: ev.Err.Error()})
	}
	return nil
}

// numbered writes market data that comes once and in order. What an epoch has after its end is
// known, the file does not have: there, N begins again with the epoch.
func (r *recorder) numbered(h client.Header, c wire.Channel) error {
	if h.Ended {
		s := stream.Series{Channel: c, Instrument: h.Instrument}
		if r.ended[s] == 0 {
			r.ended[s] = h.N
		}
		return nil
	}
	return r.message(h.Received, h.Raw())
}

// message writes a message, and the definitions before the first one of a connection.
func (r *recorder) message(received time.Time, msg []byte) error {
	if r.fresh {
		r.fresh = false
		if err := r.head(received, msg); err != nil {
			return r.broken(err)
		}
	}
	r.at = max(r.at, received.UnixNano()) // a message that waited for others before it
	if err := r.file.Message(r.at, msg); err != nil {
		return r.broken(err)
	}
	return nil
}

// head writes the first line of a new file, or a note in a continued one. msg is the first message
// of the connection.
func (r *recorder) head(now time.Time, msg []byte) error {
	var fresh []recording.Row
	for _, row := range r.meta.Instruments {
		if !r.written[string(row)] {
			r.written[string(row)] = true
			fresh = append(fresh, row)
		}
	}
	if r.file.Begun() {
		return r.note(&recording.Note{Kind: recording.Connected, Server: r.meta.Server, Instruments: fresh})
	}
	var first struct{ Epoch string }
	_ = json.Unmarshal(msg, &first) // the client has decoded it
	r.meta.Began, r.meta.Epoch = now.UTC(), first.Epoch
	return r.file.Begin(&r.meta)
}

func (r *recorder) note(n *recording.Note) error {
	r.at = max(r.at, time.Now().UnixNano())
	if err := r.file.Note(r.at, n); err != nil {
		return r.broken(err)
	}
	return nil
}

// broken returns the failure for a file that cannot be written.
func (r *recorder) broken(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return command.Fail(command.ExitError, fmt.Errorf("the disk is full: %w", err),
			"Free space, then continue: rueda record -f "+command.QuoteShell(r.opts.file)+" --append. Lost is at most the last second.")
	}
	return command.Fail(command.ExitError, err, "Everything except the last second is in the file. rueda record -f "+command.QuoteShell(r.opts.file)+" --append continues it.")
}

// lost notes what is missing in the file.
func (r *recorder) lost(l client.Lost) error {
	if from := r.ended[l.Series]; from > 0 {
		l.From = min(l.From, from)
		delete(r.ended, l.Series)
	}
	r.trouble.Lost++
	return r.note(&recording.Note{
		Kind: recording.Lost, Channel: l.Channel.String(), Instrument: string(l.Channel.Append(nil, l.Instrument)), From: l.From, To: l.To, Reason: l.Reason})
}

// record records until it is interrupted or the time limit is reached.
func (r *recorder) record(ctx context.Context) (err error) {
	r.began = time.Now()
	defer r.client.Close()
	shown := command.NewProgress(&r.std)
	background, stop := context.WithCancel(ctx)
	var keepers sync.WaitGroup
	keepers.Go(func() { r.flush(background) })
	hide := shown.During(background, r.status)
	err = r.follow(ctx)
	hide()
	stop()
	keepers.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // an interrupt is the normal end
	}
	begun := r.file.Begun()
	rows, size, _ := r.file.Written()
	if begun {
		err = errors.Join(err, r.file.Note(max(r.at, time.Now().UnixNano()), &recording.Note{Kind: recording.End, Rows: rows}))
	}
	err = errors.Join(err, r.file.Close())
	if !begun {
		if err == nil {
			fmt.Fprintf(r.std.Err, "Nothing was received, and %s was not written.\n", r.opts.file)
		}
		return err
	}
	_, _, packed := r.file.Written()
	fmt.Fprintf(r.std.Err, "%s: %s messages in %s, %s of text in a file of %s%s.\n", r.opts.file,
		progress.Thousands(rows), time.Since(r.began).Round(time.Second), progress.Bytes(size), progress.Bytes(packed), &r.trouble)
	return err
}

// follow requests the definitions and writes the stream until it ends.
func (r *recorder) follow(ctx context.Context) error {
	ids, err := r.define(ctx)
	if err != nil {
		return r.target.Unreached(err)
	}
	if !r.file.Begun() {
		r.meta.AskMarkets(func(path string, data any) error { return r.client.Get(ctx, path, nil, data) })
	}
	f := follow.Stream{Std: r.std, Target: r.target, Client: r.client, Set: r.set(ids)}
	f.On = func(ev client.Event) error { return r.event(ctx, ev) }
	return f.Run(ctx, r.opts.duration)
}

// flush writes buffered messages to the file every second.
func (r *recorder) flush(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.file.Flush() // the next message or Close returns the error
		}
	}
}

// status returns the progress of the recording.
func (r *recorder) status() string {
	rows, size, packed := r.file.Written()
	took := time.Since(r.began).Seconds()
	return fmt.Sprintf("%s messages, %s of text, %s in %s, %.0f a second",
		progress.Thousands(rows), progress.Bytes(size), progress.Bytes(packed), r.opts.file, float64(rows)/max(took, 1))
}
