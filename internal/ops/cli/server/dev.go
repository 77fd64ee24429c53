package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/market"
)

// devOptions are the flags of dev.
type devOptions struct {
	listen      string
	seed        uint64
	speed       float64
	clock       string
	start       string
	days        int
	calendar    string
	instruments int
	replay      []string
	ndjson      string
	admin       string
	data        string
	origins     []string
	remote      bool
	verbose     bool
}

// NewDev returns the command dev.
func NewDev(std command.Streams) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a gateway with a simulated market, always open",
		Long: `Dev runs a whole gateway for this machine only: a simulated exchange that is always open,
with some sixty instruments of market BYMA and FAKE|SIM|CI (401 with --clock virtual), and
two users. On standard error it reports connections and faults. Without --data nothing stays on disk when it ends. The journal of the session is
in a temporary folder, with at most 1 GiB of whole days. If dev is killed, the next dev
removes that folder.

With --clock virtual the market has hours: pre-open, opening auction, continuous trading,
closing auction, closed. The next trading day follows at once. With --speed 600 a day takes
less than a minute. Statuses announce each phase. Halts, cancels and corrections happen every day.

  demo/demo    all rights, two accounts
  basic/basic  quotes only, no wildcards

If a --data folder has other users, demo and basic are not added.

Ctrl-C or SIGTERM ends the gateway in order and notifies clients. To test how a program
survives a crash of the gateway, use --data, end dev with kill -9 PID and start it again. The log
then has everything that clients have received.

The same seed gives the same market, event by event. After a restart on the same --data
folder the same market begins again, with numbers and trade ids that continue, and with
--clock virtual on the day after the existing ones.`,
		Example: `  rueda dev
  rueda dev --listen 127.0.0.1:9000 --seed 7 --speed 10
  rueda dev --clock virtual --speed 600 --days 1    a whole trading day
  rueda dev --replay btcusdt.jsonl.gz           a recorded market too
  rueda dev --ndjson 127.0.0.1:9100             accept events as JSON lines
  rueda dev --admin 127.0.0.1:8081              for rueda status and others
  rueda dev --origin http://localhost:5173      for pages of another server
  rueda dev --allow-remote                      other machines may connect`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.remote && !cmd.Flags().Changed("listen") {
				o.listen = ":8080"
			}
			return runDev(cmd.Context(), std, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of REST and stream; port 0 chooses a free port")
	f.Uint64Var(&o.seed, "seed", 42, "seed of the simulated market")
	f.Float64Var(&o.speed, "speed", 1, "market seconds per second, above 0; also for --replay")
	f.StringVar(&o.clock, "clock", "real", "real: always open, with the time of this machine; virtual: trading days with hours, with its own time")
	f.StringVar(&o.start, "start", "", "first trading day of a virtual clock, such as 2026-11-20 (default: today or the next one; with --data the day after the existing ones)")
	f.IntVar(&o.days, "days", 0, "trading days of a virtual clock; 0: no end")
	f.StringVar(&o.calendar, "calendar", "", "file with the hours of a virtual clock (see docs/simulator.md)")
	f.IntVar(&o.instruments, "instruments", 0, "number of simulated instruments; 0: the default set")
	f.StringArrayVar(&o.replay, "replay", nil, "recording to replay too, in a loop; repeat the flag for each file")
	f.StringVar(&o.ndjson, "ndjson", "", "address that accepts events as JSON lines over TCP (see docs/feeds.md)")
	f.StringVar(&o.admin, "admin", "", "address of a listener for administrators; the token is that of RUEDA_ADMIN_TOKEN, or a new one that is printed")
	f.StringVar(&o.data, "data", "", "folder for users, tokens and the journal: 1 GB for a virtual day, half of it when the day has ended, at most 30 days and 64 GiB; demo and basic are added only to a new folder (default: temporary)")
	f.StringArrayVar(&o.origins, "origin", nil, "web origin whose pages may call the gateway, such as http://localhost:5173; repeat the flag for each (default: its own)")
	f.BoolVar(&o.remote, "allow-remote", false, "let other machines connect, without TLS; everybody knows the passwords of demo and basic (--listen is then :8080)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more than warnings")
	return cmd
}

func runDev(ctx context.Context, std command.Streams, o devOptions) (err error) {
	began := time.Now()
	for _, a := range [][2]string{{"admin", o.admin}, {"ndjson", o.ndjson}} {
		if err := checkListen(a[0], a[1]); err != nil {
			return err
		}
	}
	level := "warn"
	if o.verbose {
		level = "info"
	}
	log, _ := command.NewLogger(std)(config.Log{Level: level})
	m, err := o.market(ctx, std, log)
	if err != nil {
		return err
	}
	if m.lines != nil {
		defer func() { err = errors.Join(err, m.lines.Close()) }()
	}
	if o.remote {
		fmt.Fprintln(std.Err, "Warning: other machines can connect, without encryption, and the passwords of demo and basic are public.")
	}
	origins := o.origins
	if len(origins) > 0 {
		if o.listen, err = withPort(ctx, o.listen); err != nil {
			return explainListen(err, o.listen, "--listen")
		}
		origins = withOwn(origins, o.listen)
	}
	c := gateway.Config{Listen: o.listen, Insecure: o.remote, Origins: origins, Markets: m.markets, Feeds: m.feeds, Faults: m.faults, Speed: m.speed, OnJournal: m.onJournal, Logger: log}
	token := ""
	if o.admin != "" {
		c.Admin.Listen = o.admin
		token, c.Admin.Tokens = adminToken()
	}
	return RunLocal(ctx, std, o.data, c, nil, func(b gateway.Bound, demo bool) {
		greet(std, o, b, m, token, demo, time.Since(began))
	})
}

// adminToken returns the token of an operator who may do all, and the line that grants it. It is
// that of the environment, so that commands of a script know it, or a new one.
func adminToken() (token, line string) {
	token = cmp.Or(os.Getenv("RUEDA_ADMIN_TOKEN"), rand.Text()+rand.Text())
	return token, fmt.Sprintf("dev %x identity\n", sha256.Sum256([]byte(token)))
}

// withPort replaces port 0 of an address to listen on with a free port. The origins of the console
// must be known before the gateway listens.
func withPort(ctx context.Context, listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen, nil // the gateway reports what is wrong
	}
	free, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return listen, err
	}
	_, port, _ = net.SplitHostPort(free.Addr().String())
	return net.JoinHostPort(host, port), free.Close()
}

// withOwn returns origins and those of the console at an address: localhost, and the host of the
// address, or all addresses of this machine if the address names no host.
func withOwn(origins []string, listen string) []string {
	host, port, _ := net.SplitHostPort(listen) // the gateway reports what is wrong
	hosts := []string{"localhost", "127.0.0.1"}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	} else if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			if n, ok := a.(*net.IPNet); ok {
				hosts = append(hosts, n.IP.String())
			}
		}
	}
	origins = slices.Clone(origins)
	for _, h := range hosts {
		origins = append(origins, "http://"+net.JoinHostPort(h, port))
	}
	return origins
}

// allDays lets a temporary journal keep whatever its bytes allow.
const allDays = 100 * 365

// RunLocal runs a gateway for one person on this machine. Users and journal are kept in a folder,
// or in memory and a temporary folder if folder is "". An empty user base gets the demo users.
// RunLocal calls ready when the gateway can be reached; demo reports whether the demo users exist.
// It calls connected, if it is not nil, for each client that has authenticated on the stream.
func RunLocal(ctx context.Context, std command.Streams, folder string, c gateway.Config, connected func(), ready func(b gateway.Bound, demo bool)) (err error) {
	if err := checkListen("listen", c.Listen); err != nil {
		return err
	}
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: folder})
	if err != nil {
		return command.ExplainKeys(err, "", folder)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	demo, err := addDemo(ctx, std, data.Users, folder)
	if err != nil {
		return err
	}
	if c.Journal.Folder = filepath.Join(folder, "journal"); folder == "" {
		var remove func() error
		if c.Journal, remove, err = (gateway.Journal{Days: allDays, Bytes: 1 << 30}).Temporary("rueda-dev-"); err != nil {
			return command.ExplainFolder(err, "", "the environment variable TMPDIR")
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	c.Data, c.Version, c.Drain, c.ClientDownloads = data, command.ReadBuild().Version, time.Second, true
	if c.Console.Serve = true; demo && !c.Insecure {
		c.Console.Username, c.Console.Password = "demo", "demo"
	}
	c.Limits = gateway.Limits{LoginsPerMinute: 600, LoginBurst: 600} // one person with many attempts
	c.OnReady = func(b gateway.Bound) { ready(b, demo) }
	c.Logger = withConsole(std.Err, c.Logger, data.Users, connected)
	gateway.SpareProcessors()
	begin, err := gateway.AnswerStarting(ctx, c)
	if err != nil {
		return explainListen(err, c.Listen, "--listen")
	}
	var step startProgress
	c.OnStart = step.note
	read := command.NewProgress(&std).During(ctx, func() string { return c.Journal.Folder + ": " + step.String() })
	g, err := gateway.New(ctx, c)
	read()
	begin()
	if stopped(ctx, err) {
		return nil
	}
	if err != nil {
		return explainListen(command.ExplainFolder(err, c.Journal.Folder, "--data"), c.Listen, "--listen")
	}
	return explainListen(g.Run(ctx), c.Listen, "--listen")
}

// devMarket is the market of a dev gateway.
type devMarket struct {
	feeds    []gateway.Feed
	listed   string         // the instruments of the feeds
	recorded []string       // identifiers
	lines    *ndjson.Source // nil: no listener
	markets  []market.Market
	hours    string // description of the market's hours for the greeting
	faults   func(string, market.InstrumentID) (string, error)
	speed    func(market.Size) (market.Size, error)
	// onJournal is gateway.Config.OnJournal.
	onJournal func(newest func([]market.InstrumentID) (time.Time, error)) error
}

// resume makes the exchange begin after the newest row that the journal has of its instruments.
// Rows of other feeds do not count: their clocks may differ.
func (o *devOptions) resume(exchange *sim.Source, newest func([]market.InstrumentID) (time.Time, error)) error {
	list := exchange.Instruments()
	ids := make([]market.InstrumentID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	after, err := newest(ids)
	if err != nil {
		return err
	}
	err = exchange.ResumeAfter(after)
	if errors.Is(err, sim.ErrTimeReversed) {
		return command.Fail(command.ExitUsage, fmt.Errorf("--data %s: %w", o.data, err), "Use another --data folder, or --clock virtual without --start, which continues from there.")
	}
	return err
}

// exchange returns the configuration of the simulated exchange.
func (o *devOptions) exchange() (c sim.Config, err error) {
	c = sim.Config{Seed: o.seed, Speed: o.speed, Instruments: o.instruments, Days: o.days}
	if c.Clock, err = sim.ParseClock(o.clock); err != nil {
		return c, fmt.Errorf("--clock: %w", err)
	}
	if c.Clock == sim.Real && (o.start != "" || o.days != 0 || o.calendar != "") {
		return c, errors.New("--start, --days and --calendar need --clock virtual")
	}
	hours := sim.DefaultCalendar()
	if o.calendar != "" {
		text, err := os.ReadFile(o.calendar)
		if err != nil {
			return c, fmt.Errorf("--calendar: %w", err)
		}
		if hours, err = sim.ParseCalendar(text); err != nil {
			return c, fmt.Errorf("--calendar: %s: %w", o.calendar, err)
		}
	}
	if c.Clock == sim.Virtual {
		c.Calendar = &hours
	}
	if o.start != "" {
		zone, err := time.LoadLocation(hours.Timezone)
		if err != nil {
			return c, fmt.Errorf("--calendar: %w", err)
		}
		if c.Start, err = time.ParseInLocation(time.DateOnly, o.start, zone); err != nil {
			return c, fmt.Errorf("--start %q is not a date such as 2026-11-20", o.start)
		}
	}
	return c, nil
}

// notTradingDay returns a note with the reason if a virtual clock does not start on a trading day,
// "" otherwise.
func notTradingDay(c *sim.Config) string {
	if c.Calendar == nil || c.Start.IsZero() {
		return ""
	}
	_, next, reason := c.Calendar.Schedule.At(c.Start, c.Start.Location(), "")
	if reason != market.ReasonHoliday && reason != market.ReasonWeekend {
		return ""
	}
	date := c.Start.Format(time.DateOnly)
	for _, h := range c.Calendar.Schedule.Holidays {
		if h.Date == date && reason == market.ReasonHoliday && h.Name != "" {
			reason += ": " + h.Name
		}
	}
	return fmt.Sprintf("Note: %s is not a trading day (%s). The market begins on %s.", date, reason, next.Format(time.DateOnly))
}

// bymaHours returns the market of a virtual clock, with the calendar for clients.
func bymaHours(c *sim.Calendar) market.Market {
	return market.Market{ID: "BYMA", Name: "Simulated exchange", Timezone: c.Timezone, Schedule: c.Schedule, StatusFromFeed: true}
}

// market creates the simulated exchange, the recordings and the listener for JSON lines.
func (o *devOptions) market(ctx context.Context, std command.Streams, log *slog.Logger) (*devMarket, error) {
	if !ValidSpeed(o.speed) {
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--speed %g is not above 0", o.speed), "It is market seconds per second: 1 is real time.")
	}
	c, err := o.exchange()
	if err != nil {
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	if text := notTradingDay(&c); text != "" {
		fmt.Fprintln(std.Err, text)
	}
	exchange, err := sim.New(c)
	if err != nil {
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	m := &devMarket{
		feeds:  []gateway.Feed{{Name: "sim", Source: finite{exchange, func() { fmt.Fprintln(std.Out, lastDay) }}}},
		listed: fmt.Sprintf("%d simulated", len(exchange.Instruments())),
		hours:  "always open",
		faults: exchangeFaults(exchange),
		speed:  exchangeSpeed(exchange),
		onJournal: func(newest func([]market.InstrumentID) (time.Time, error)) error {
			return o.resume(exchange, newest)
		},
	}
	if c.Clock == sim.Virtual {
		m.markets = []market.Market{bymaHours(c.Calendar)}
		m.hours = "trading days on a virtual clock"
	}
	for _, name := range o.replay {
		recording, err := replay.Open(name, replay.Config{Speed: o.speed, Loop: true, FromName: true, Logger: log})
		if err != nil {
			return nil, command.Fail(command.ExitUsage, err, "")
		}
		m.markets = recording.AppendMarkets(m.markets)
		list := recording.Instruments()
		for _, in := range list {
			id := in.ID.String()
			if slices.Contains(m.recorded, id) {
				return nil, command.Fail(command.ExitUsage, fmt.Errorf("%s is a second recording of %s", name, id), "An instrument has one feed.")
			}
			m.recorded = append(m.recorded, id)
		}
		m.feeds = append(m.feeds, gateway.Feed{Name: "replay of " + filepath.Base(name), Source: recording})
		if len(list) == 1 {
			m.listed += ", " + list[0].ID.String() + " recorded"
		} else {
			m.listed += fmt.Sprintf(", %d recorded", len(list))
		}
	}
	if o.ndjson == "" {
		return m, nil
	}
	if m.lines, err = ndjson.New(ndjson.Config{Listen: o.ndjson, Anonymous: true, Logger: log}); err != nil {
		return nil, command.Fail(command.ExitUsage, err, "")
	}
	if err := m.lines.Listen(ctx); err != nil {
		return nil, explainListen(err, o.ndjson, "--ndjson")
	}
	m.feeds = append(m.feeds, gateway.Feed{Name: "ndjson", Source: m.lines, Late: true})
	return m, nil
}

// lastDay is printed at the end of the days of a virtual clock.
const lastDay = "The last trading day has ended: no more data will come. History is still served."

// finite is a feed that calls end when it has no more events.
type finite struct {
	feed.Source
	end func()
}

// Run implements feed.Source.
func (f finite) Run(ctx context.Context, sink feed.Sink) error {
	err := f.Source.Run(ctx, sink)
	if err == nil && ctx.Err() == nil {
		f.end()
	}
	return err
}

// ValidSpeed reports whether a feed can play at a speed: above 0 and finite.
func ValidSpeed(speed float64) bool { return speed > 0 && !math.IsInf(speed, 1) }

// greet prints the addresses, the users and commands to try.
func greet(std command.Streams, o devOptions, b gateway.Bound, m *devMarket, token string, demo bool, took time.Duration) {
	p := command.NewPaint(std.Out)
	program := command.ProgramName()
	url := ""
	if b.REST != command.DefaultURL {
		url = " --url " + b.REST
	}
	seed := fmt.Sprintf("seed %d", o.seed)
	if o.speed != 1 {
		seed += fmt.Sprintf(", speed %g", o.speed)
	}
	if b.Silent == "" {
		fmt.Fprintf(std.Out, "%s in %d ms. Simulated market, %s, %s.\n", p.Bold("Ready"), took.Milliseconds(), seed, m.hours)
	} else {
		fmt.Fprintf(std.Out, "%s without data: nothing came from %s within %d ms. Simulated market, %s, %s.\n", p.Bold("Running"), b.Silent, took.Milliseconds(), seed, m.hours)
	}
	fmt.Fprintf(std.Out, "  Console      %s/\n", b.REST)
	fmt.Fprintf(std.Out, "  REST         %s\n", b.REST)
	fmt.Fprintf(std.Out, "  Stream       %s\n", b.Stream)
	fmt.Fprintf(std.Out, "  Docs         %s/docs\n", b.REST)
	fmt.Fprintf(std.Out, "  Clients      %s/client/ for Python, TypeScript and Go\n", b.REST)
	if m.lines != nil {
		fmt.Fprintf(std.Out, "  JSON lines   %s\n", m.lines.Addr())
	}
	if b.Admin != "" {
		secret := token
		if os.Getenv("RUEDA_ADMIN_TOKEN") != "" {
			secret = "..."
		}
		fmt.Fprintf(std.Out, "  Operators    http://%s, with RUEDA_ADMIN_TOKEN=%s\n", b.Admin, secret)
	}
	if demo {
		fmt.Fprintf(std.Out, "  Users        %s/%s with all rights, %s/%s with quotes only\n", command.DemoUser, command.DemoUser, command.BasicUser, command.BasicUser)
	} else {
		fmt.Fprintf(std.Out, "  Users        those of %s\n", o.data)
	}
	fmt.Fprintf(std.Out, "  Instruments  %s\n", m.listed)
	if demo {
		suggest(std, m, program, b.REST, url)
	}
	fmt.Fprintln(std.Out, p.Faint("Press Ctrl-C to stop."))
}

// suggest prints commands to try as demo.
func suggest(std command.Streams, m *devMarket, program, rest, url string) {
	fmt.Fprintf(std.Out, "  Try\n")
	fmt.Fprintf(std.Out, "    %s watch %s%s\n", program, command.QuoteShell("GGAL|BYMA|24hs"), url)
	fmt.Fprintf(std.Out, "    %s watch %s --book --depth 5%s\n", program, command.QuoteShell("AL30|BYMA|CI"), url)
	if len(m.recorded) > 0 {
		fmt.Fprintf(std.Out, "    %s watch %s%s\n", program, command.QuoteShell(m.recorded[0]), url)
	}
	fmt.Fprintf(std.Out, "    curl -s %s/auth/token -H 'Content-Type: application/json' -d '{\"grant_type\":\"password\",\"username\":\"demo\",\"password\":\"demo\"}'\n", rest)
}

// checkListen returns an error if the value of a flag is not an address to listen on. "" is valid:
// there is no listener.
func checkListen(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" || strings.HasPrefix(address, "unix:") {
		return nil
	}
	right := net.JoinHostPort("127.0.0.1", "8080")
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		right = net.JoinHostPort("127.0.0.1", address)
	} else if net.ParseIP(address) != nil || address == "localhost" {
		right = net.JoinHostPort(address, "8080")
	}
	return command.Fail(command.ExitUsage, fmt.Errorf("--%s %q is not of the form host:port", flag, address), "Write --"+flag+" "+right)
}

// explainListen adds the next step to an error about an address to listen on.
func explainListen(err error, address, setting string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		host, _, _ := net.SplitHostPort(address)
		return command.Fail(command.ExitError, fmt.Errorf("%s is in use by another program", address),
			fmt.Sprintf("Choose another with %s %s, or let the system choose with port 0.", setting, net.JoinHostPort(host, "9080")))
	case errors.Is(err, gateway.ErrInsecure) && setting == "--listen":
		return command.Fail(command.ExitUsage, err, "rueda dev is for this machine only: listen on 127.0.0.1. For other machines, use rueda serve with TLS, or --allow-remote in a network that you trust.")
	case errors.Is(err, gateway.ErrInsecure):
		return command.Fail(command.ExitUsage, err, "Listen on 127.0.0.1, or serve with TLS certificate files. Behind a proxy that terminates\nTLS, set insecure = true in the configuration.")
	}
	return err
}
