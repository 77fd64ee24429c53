package marketdata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/progress"
	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/internal/spell"
	"github.com/ruedahq/rueda/wire"
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
  rueda record 'AL30|BYMA|CI' -f al30.jsonl --channels trades,bars --interval 1s,1m
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
	f.StringSliceVar(&o.channels, "channels", []string{chTrades, chQuotes, chBook, chStatus}, "of trades, quotes, order_book, status, bars, summary")
	f.StringSliceVar(&o.intervals, "interval", []string{"1m"}, "of bars: 1s, 1m, 5m, 15m, 1h, 1d")
	f.IntVar(&o.depth, "depth", 0, "levels of the books: 1, 5, 10, 25 or 0 for all")
	f.DurationVar(&o.duration, "for", 0, "stop after this time")
	f.BoolVar(&o.force, "force", false, "overwrite the file")
	f.BoolVar(&o.append, "append", false, "continue the file at its end")
	return cmd
}

// recorder records a stream into a file.
type recorder struct {
	follower
	opts    recordOptions
	file    *recording.Writer
	meta    recording.Meta
	fresh   bool            // no message was received on this connection
	written map[string]bool // definitions in the file, as text

	trouble recording.Problems
	began   time.Time
}

func newRecorder(std command.Streams, o recordOptions, ids []string, chosen bool) (*recorder, error) {
	if o.file == "" {
		return nil, command.Fail(command.ExitUsage, errors.New("no file is named"), "Name one: rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst")
	}
	if o.force && o.append {
		return nil, command.Fail(command.ExitUsage, errors.New("--force and --append exclude each other"), "")
	}
	r := &recorder{opts: o, fresh: true, written: map[string]bool{}}
	r.std = std
	r.want = interest{ids: ids, channels: o.channels, depth: o.depth}
	if _, err := os.Stat(o.file); o.append && err == nil {
		if chosen {
			return nil, command.Fail(command.ExitUsage, errors.New("--append uses the channels, intervals and depth of the file"), "Leave those flags out.")
		}
		if err := r.resume(); err != nil {
			return nil, err
		}
	} else if err := r.create(); err != nil {
		return nil, err
	}
	if err := r.check(ids); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	r.hooks = hooks{ready: r.ready, message: r.message, lost: r.lost, down: r.down}
	var err error
	if r.account, err = o.login.Account(std); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	r.meta.Server = r.account.API.Base.String()
	return r, nil
}

// create creates the file.
func (r *recorder) create() (err error) {
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
	if slices.Contains(o.channels, chBars) {
		r.want.intervals = o.intervals
	}
	r.meta = recording.Meta{
		Program: "rueda " + command.ReadBuild().Version, Channels: o.channels, Depth: o.depth, Intervals: r.want.intervals, IDs: r.want.ids,
	}
	return nil
}

// resume continues the file at its end.
func (r *recorder) resume() error {
	var d recording.Decoder
	var m recording.Message
	var reached recording.ResumeState
	w, meta, torn, err := recording.Continue(r.opts.file, func(line *recording.Line) error {
		if err := d.Decode(line.Body, &m); err == nil { // otherwise verify finds it
			reached.Add(&m)
		}
		return nil
	})
	if err != nil {
		return command.Fail(command.ExitUsage, err, "--append only continues a recording of rueda record.")
	}
	if torn != nil {
		fmt.Fprintf(r.std.Err, "%s: %v; it is cut off, and the lost messages are requested again.\n", r.opts.file, torn)
	}
	r.file, r.meta = w, *meta
	r.epoch, r.position, r.seen = reached.Epoch, reached.Position, reached.Seen
	for _, row := range meta.Instruments {
		r.written[string(row)] = true
	}
	ids := r.want.ids
	r.want = interest{ids: meta.IDs, channels: meta.Channels, depth: meta.Depth, intervals: meta.Intervals}
	if len(ids) > 0 && !slices.Equal(ids, meta.IDs) {
		return errors.Join(command.Fail(command.ExitUsage, fmt.Errorf("%s is a recording of %s", r.opts.file, strings.Join(meta.IDs, " ")),
			"--append continues with the same instruments; leave them out."), w.Close())
	}
	return nil
}

// check checks the flags and the identifiers.
func (r *recorder) check(ids []string) error {
	if len(r.want.ids) == 0 {
		return command.Fail(command.ExitUsage, errors.New("no instrument to record"), "Name one: rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst")
	}
	if err := checkPatterns(ids, "rueda record 'GGAL|BYMA|24hs' -f ggal.jsonl.zst"); err != nil {
		return err
	}
	if err := command.CheckSubscription(r.want.depth, "none", r.want.intervals); err != nil {
		return err
	}
	known := []string{chTrades, chQuotes, chBook, chStatus, chBars, chSummary}
	for _, c := range r.want.channels {
		if !slices.Contains(known, c) {
			return command.Fail(command.ExitUsage, fmt.Errorf("there is no channel %q", c), spell.Suggest(c, known, "There are "))
		}
	}
	return nil
}

// ready requests the definitions before each connection.
func (r *recorder) ready(ctx context.Context, token string) (err error) {
	if r.meta.Instruments, err = r.define(ctx, token); err == nil && !r.file.Begun() {
		r.meta.AskMarkets(ctx, r.account.API.Get(token))
	}
	return err
}

// message writes a message, and the definitions before the first one of a connection.
func (r *recorder) message(v *wire.Value, msg []byte) error {
	now := time.Now()
	r.trouble.Add(text(v, "type"), text(v, "reason"))
	if r.fresh {
		r.fresh = false
		if err := r.head(now, text(v, "epoch")); err != nil {
			return r.broken(err)
		}
	}
	if err := r.file.Message(now.UnixNano(), msg); err != nil {
		return r.broken(err)
	}
	return nil
}

// head writes the first line of a new file, or a note in a continued one.
func (r *recorder) head(now time.Time, epoch string) error {
	var fresh []recording.Row
	for _, row := range r.meta.Instruments {
		if !r.written[string(row)] {
			r.written[string(row)] = true
			fresh = append(fresh, row)
		}
	}
	if r.file.Begun() {
		return r.file.Note(now.UnixNano(), &recording.Note{Kind: recording.Connected, Server: r.meta.Server, Instruments: fresh})
	}
	r.meta.Began, r.meta.Epoch = now.UTC(), epoch
	return r.file.Begin(&r.meta)
}

// broken returns the failure for a file that cannot be written.
func (r *recorder) broken(err error) error {
	return command.Fail(command.ExitError, err, "Everything except the last second is in the file. rueda record -f "+command.QuoteShell(r.opts.file)+" --append continues it.")
}

func (r *recorder) lost(l lost) error {
	r.trouble.Lost++
	err := r.file.Note(time.Now().UnixNano(), &recording.Note{
		Kind: recording.Lost, Channel: l.channel, Instrument: l.id, From: l.from, To: l.to, Reason: l.reason})
	if err != nil {
		return r.broken(err)
	}
	return nil
}

func (r *recorder) down(cause error) error {
	r.fresh = true
	r.trouble.Disconnects++
	if err := r.file.Note(time.Now().UnixNano(), &recording.Note{Kind: recording.Disconnected, Reason: cause.Error()}); err != nil {
		return r.broken(err)
	}
	return nil
}

// record records until it is interrupted or the time limit is reached.
func (r *recorder) record(ctx context.Context) (err error) {
	r.began = time.Now()
	shown := command.NewProgress(&r.std)
	background, stop := context.WithCancel(ctx)
	var keepers sync.WaitGroup
	keepers.Go(func() { r.flush(background) })
	hide := shown.During(background, r.status)
	err = r.run(ctx, r.opts.duration)
	hide()
	stop()
	keepers.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // an interrupt is the normal end
	}
	begun := r.file.Begun()
	rows, size, _ := r.file.Written()
	if begun {
		err = errors.Join(err, r.file.Note(time.Now().UnixNano(), &recording.Note{Kind: recording.End, Rows: rows}))
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
