package marketdata

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/server"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	listen  string
	data    string
	speed   string
	from    string
	loop    bool
	wait    bool
	symbols []string
	date    string
	verbose bool
}

// NewReplay returns the command replay.
func NewReplay(std command.Streams) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Run a gateway that replays recordings as its market",
		Long: `Replay is rueda dev with recordings instead of the simulated exchange: a gateway for
this machine only, with the users demo/demo and basic/basic and the instruments of the
files. It continues to serve when the recordings have ended. With --wait they begin one second after
the first client has connected.

The format of a file is detected from its content, plain, gzip or zstd: a recording of
rueda record, a capture of Binance, or another format in docs/feeds.md.
The file - is standard input, which is read once, as named pipes are. Files of the same
instruments, such as one of each day, are played in turn, as one stream.

The market moves as it was recorded, times --speed; max is as fast as possible.
Event times are those of the recording.`,
		Example: `  rueda replay day.jsonl.zst --speed 10
  rueda replay btcusdt.jsonl.gz --loop
  rueda replay day.jsonl.zst --wait --speed max
  rueda replay day.jsonl.zst --from 2026-11-20T16:55:00Z --symbols GGAL
  rueda replay S013019-v50.txt.gz --date 2019-01-30 --symbols AAPL --speed max`,
		Args: command.SomeArgs("recording to play", "rueda replay day.jsonl.zst"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), std, o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of REST and stream; port 0 chooses a free port")
	f.StringVar(&o.speed, "speed", "1", "recorded seconds per second, above 0, or max")
	f.StringVar(&o.from, "from", "", "replay at full speed up to this time, such as 2026-11-20T16:55:00Z")
	f.BoolVar(&o.loop, "loop", false, "restart at the end")
	f.BoolVar(&o.wait, "wait", false, "begin one second after the first client has connected")
	f.StringSliceVar(&o.symbols, "symbols", nil, "for a file of many instruments: symbols or identifiers to replay (default all)")
	f.StringVar(&o.date, "date", "", "the day of a file without a date, as 2006-01-02 (default: from its name)")
	f.StringVar(&o.data, "data", "", "folder for users, tokens and the journal (default: temporary)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more than warnings")
	return cmd
}

// config returns the settings of the files.
func (o *replayOptions) config() (replay.Config, error) {
	c := replay.Config{Loop: o.loop, Symbols: o.symbols, Date: o.date, FromName: o.date == ""}
	speed, err := strconv.ParseFloat(o.speed, 64)
	switch {
	case o.speed == "max":
		speed = math.Inf(1)
	case err != nil || !server.ValidSpeed(speed):
		return c, command.Fail(command.ExitUsage, fmt.Errorf("--speed %s is neither above 0 nor max", o.speed), "It is recorded seconds per second: 1 is the recorded speed.")
	}
	c.Speed = speed
	if o.from != "" {
		if c.From, err = wire.ParseTime(o.from); err != nil {
			return c, command.Fail(command.ExitUsage, fmt.Errorf("--from %q is %w", o.from, err), "It looks like 2026-11-20T16:55:00Z.")
		}
	}
	return c, nil
}

// recordingFeed is a recording that is played as a feed.
type recordingFeed struct {
	name   string   // of the first file
	files  []string // played in turn
	source *replay.Source
	begin  <-chan struct{} // closed when it may begin; nil: at once
	ended  chan struct{}   // closed at its end
	err    error           // error at its end
}

// Run implements feed.Source: it plays the recording and stores its error.
func (t *recordingFeed) Run(ctx context.Context, sink feed.Sink) error {
	if t.begin != nil {
		select {
		case <-t.begin:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := t.source.Run(ctx, sink)
	if ctx.Err() == nil {
		select {
		case <-t.ended:
		default:
			t.err = err
			close(t.ended)
		}
	}
	return err
}

// openSource opens a recording in any known format.
func openSource(name string, c replay.Config) (*replay.Source, error) {
	source, err := replay.Open(journalIn(name), c)
	switch {
	case errors.Is(err, replay.ErrUnknownFormat):
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("%s is not a recording in a known format", name), "Known are "+replay.Formats()+
			".\nThe output of rueda watch -o jsonl and an export as ndjson have no receive times and cannot be replayed. Use rueda record, or the journal itself.")
	case err != nil:
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	return source, nil
}

// feedOf returns the feed that a recording continues, because they have an instrument in common, or
// nil.
func feedOf(of map[string]*recordingFeed, list []market.Instrument, name string) (found *recordingFeed, err error) {
	for _, in := range list {
		before := of[in.ID.String()]
		if before == nil || before == found {
			continue
		}
		if slices.Contains(before.files, name) {
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("%s is given twice", name), "--loop plays it repeatedly.")
		}
		if found != nil {
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("%s is a second recording of %s, in addition to %s", name, in.ID, before.name), "An instrument has one feed. Recordings of several days are played in turn if they have the same instruments.")
		}
		found = before
	}
	return found, nil
}

// openRecordings opens the files of a replay. The caller must close the pipes among them, also
// after an error.
func openRecordings(ctx context.Context, std command.Streams, files []string, c replay.Config) (recordings []*recordingFeed, pipes []*pipe, err error) {
	of := map[string]*recordingFeed{}
	for _, name := range files {
		c.Input = nil
		in, err := openPipe(ctx, std, name)
		if err != nil {
			return nil, pipes, err
		}
		if in != nil {
			in.Release()
			pipes = append(pipes, in)
			c.Input = in
		}
		source, err := openSource(name, c)
		if ctx.Err() != nil {
			return nil, pipes, ctx.Err()
		}
		if err != nil {
			return nil, pipes, err
		}
		list := source.Instruments()
		if len(list) == 0 && len(c.Symbols) == 0 {
			return nil, pipes, command.Fail(command.ExitBadData, fmt.Errorf("%s has no instruments at its beginning", name), "See what rueda verify says about it.")
		}
		if len(list) == 0 {
			advice := "See --symbols."
			c.Symbols = nil
			if c.Input == nil {
				if all, err := replay.Open(name, c); err == nil {
					advice = "It has " + all.Summary() + ". " + advice
				}
			}
			return nil, pipes, command.Fail(command.ExitUsage, fmt.Errorf("%s has none of the instruments to replay", name), advice)
		}
		played, err := feedOf(of, list, name)
		if err != nil {
			return nil, pipes, err
		}
		if played != nil {
			played.source.Then(source)
			played.files = append(played.files, name)
		} else {
			played = &recordingFeed{name: name, files: []string{name}, source: source, ended: make(chan struct{})}
			recordings = append(recordings, played)
		}
		for _, in := range list {
			of[in.ID.String()] = played
		}
	}
	return recordings, pipes, nil
}

func runReplay(ctx context.Context, std command.Streams, o replayOptions, files []string) (err error) {
	began := time.Now()
	c, err := o.config()
	if err != nil {
		return err
	}
	shown := command.NewProgress(&std)
	level := "warn"
	if o.verbose {
		level = "info"
	}
	log, _ := command.NewLogger(std)(config.Log{Level: level})
	c.Logger = log
	recordings, pipes, err := openRecordings(ctx, std, files, c)
	defer func() {
		for _, in := range pipes {
			err = errors.Join(err, in.Close())
		}
	}()
	if err != nil {
		return err
	}
	g := gateway.Config{Listen: o.listen, Logger: log}
	var connected func()
	var begin <-chan struct{}
	if o.wait {
		connected, begin = afterFirst(subscribing)
	}
	for _, t := range recordings {
		t.begin = begin
		g.Feeds = append(g.Feeds, gateway.Feed{Name: "replay of " + filepath.Base(t.name), Source: t, Late: o.wait})
		g.Markets = t.source.AppendMarkets(g.Markets)
		if o.wait {
			g.Instruments = append(g.Instruments, t.source.Instruments()...) // so that clients can subscribe before the replay begins
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ending sync.WaitGroup
	defer ending.Wait()
	defer stop()
	ending.Go(func() {
		if awaitEnd(ctx, recordings) {
			fmt.Fprintln(std.Err, ended(len(recordings)))
		} else {
			stop()
		}
	})
	defer shown.During(ctx, func() string {
		var all []string
		for _, t := range recordings {
			all = append(all, t.status())
		}
		return strings.Join(all, "; ")
	})()
	err = server.RunLocal(ctx, std, o.data, g, connected, func(b gateway.Bound, demo bool) {
		greetReplay(std, o, b, recordings, demo, time.Since(began))
	})
	if err != nil {
		return err
	}
	for _, t := range recordings {
		if bad := t.unused(); bad != nil {
			return command.Fail(command.ExitBadData, bad, "See what rueda verify says about it.")
		}
	}
	return nil
}

// subscribing is how long a client may take from the login to its subscriptions.
const subscribing = time.Second

// afterFirst returns a function to call for each connection, and a channel that is closed when wait
// has passed since the first call.
func afterFirst(wait time.Duration) (connected func(), begin <-chan struct{}) {
	passed := make(chan struct{})
	var once sync.Once
	return func() { once.Do(func() { time.AfterFunc(wait, func() { close(passed) }) }) }, passed
}

// awaitEnd waits for the end of all recordings. It returns false if the context ends first, or if
// no row of any recording could be played.
func awaitEnd(ctx context.Context, recordings []*recordingFeed) bool {
	used := false
	for _, t := range recordings {
		select {
		case <-ctx.Done():
			return false
		case <-t.ended:
		}
		used = used || t.source.Stats().Used > 0
	}
	return used
}

// ended returns the line that is printed when the recordings have ended.
func ended(recordings int) string {
	if recordings == 1 {
		return "The recording has ended; --loop repeats it. History is still served."
	}
	return "The recordings have ended; --loop repeats them. History is still served."
}

// unused returns an error if the recording has ended and nothing of one of its files could be
// played.
func (t *recordingFeed) unused() error {
	select {
	case <-t.ended:
		if bad, ok := errors.AsType[*replay.UnusedError](t.err); ok {
			return bad
		}
	default:
	}
	return nil
}

// status returns the progress of a recording.
func (t *recordingFeed) status() string {
	s := t.source.Stats()
	text := partRead(filepath.Base(t.name), t.source.Progress)
	select {
	case <-t.ended:
		text = filepath.Base(t.name) + "  ended"
		if t.err != nil {
			text += " early: " + t.err.Error()
		}
	default:
	}
	return fmt.Sprintf("%s  %s trades, %s quotes, %s book changes", text, progress.Thousands(int64(s.Trades)), progress.Thousands(int64(s.Quotes)), progress.Thousands(int64(s.Depth+s.Orders)))
}

// greetReplay prints the addresses, the users and a command to try.
func greetReplay(std command.Streams, o replayOptions, b gateway.Bound, recordings []*recordingFeed, demo bool, took time.Duration) {
	p := command.NewPaint(std.Out)
	waits := ""
	if o.wait {
		waits = " It begins one second after the first client has connected."
	}
	fmt.Fprintf(std.Out, "%s in %d ms. Recorded market, speed %s.%s\n", p.Bold("Ready"), took.Milliseconds(), o.speed, waits)
	fmt.Fprintf(std.Out, "  Console      %s/\n", b.REST)
	fmt.Fprintf(std.Out, "  REST         %s\n", b.REST)
	fmt.Fprintf(std.Out, "  Stream       %s\n", b.Stream)
	if demo {
		fmt.Fprintf(std.Out, "  Users        %s/%s with all rights, %s/%s with quotes only\n", command.DemoUser, command.DemoUser, command.BasicUser, command.BasicUser)
	} else {
		fmt.Fprintf(std.Out, "  Users        those of %s\n", o.data)
	}
	for i, t := range recordings {
		fmt.Fprintf(std.Out, "  %-12s %s: %s\n", [...]string{"Recorded", ""}[min(i, 1)], filepath.Base(t.name), t.source.Summary())
	}
	if demo {
		url := ""
		if b.REST != command.DefaultURL {
			url = " --url " + b.REST
		}
		fmt.Fprintf(std.Out, "  Try\n    %s watch %s%s\n", command.ProgramName(), command.QuoteShell(recordings[0].source.Instrument().ID.String()), url)
	}
	fmt.Fprintln(std.Out, p.Faint("Press Ctrl-C to stop."))
}
