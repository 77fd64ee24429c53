package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/gateway"
)

// Config is the argument of "start".
type Config struct {
	Instruments int  // generated; 0: 1
	Market      bool // the simulated market with that many instruments instead
	Board       string

	Conns       int           // expected connections
	PerUser     int           // connections of a user; 0: 8
	Flush       time.Duration // Config.Stream.FlushInterval
	Ping        time.Duration
	PongTimeout time.Duration
	MaxWaiting  int
	MaxAge      time.Duration
	MaxBacklog  int
	PerTurn     int
	TradesKept  int
	Procs       int    // GOMAXPROCS; 0: the default of rueda serve
	Certificate string // certificate and key files; "": no TLS
	Key         string
	IOUring     bool
	Journal     bool            // with a journal
	Delays      []time.Duration // of delayed data; needs Journal
	Folder      string          // of the journal

	TLSByGoroutines bool
}

// Version is the version of the protocol between a measurement and this program: requests,
// arguments, answers, and the layout of proc.Board. A program ignores fields that it does not know,
// so every change of a field or of its meaning needs a new version. Check may accept older ones as
// long as the workloads of bench.Compare need nothing newer.
const Version = 1

// Started is the answer to "start".
type Started struct {
	Address string
	REST    string
	Limits  string // raised limits
	Version int    // of the protocol; 0, from programs older than this field: 1
}

// Check returns an error if the program has another version of the protocol.
func (s *Started) Check() error {
	if v := max(1, s.Version); v != Version {
		return fmt.Errorf("the serving program has version %d of the protocol of measurements, this program has version %d", v, Version)
	}
	return nil
}

// listPatience is the maximum time until the instruments are listed.
const listPatience = 30 * time.Second

type server struct {
	cfg       Config
	feed      *benchFeed
	gateway   *gateway.Gateway
	admin     string // address of the administrator's listener
	cancel    context.CancelFunc
	ended     chan error
	busy      bool
	profiling *os.File
}

// Run runs a server: it answers requests until in ends.
func Run(in io.Reader, out io.Writer) error {
	if _, err := proc.RaiseFiles(); err != nil {
		return err
	}
	s := &server{ended: make(chan error, 1)}
	err := proc.Serve(in, out, map[string]proc.Handler{
		"start":   proc.Handle(s.start),
		"publish": proc.Handle(s.publish),
		"stop":    proc.Handle(s.stop),
		"memory":  proc.Handle(s.memory),
		"scrape":  proc.Handle(s.scrape),
		"stats":   proc.Handle(s.stats),
		"profile": proc.Handle(s.profile),
	})
	if s.cancel != nil {
		s.cancel()
		err = errors.Join(err, <-s.ended)
	}
	return err
}

func (s *server) start(cfg Config) (*Started, error) {
	if s.gateway != nil {
		return nil, errors.New("started already")
	}
	gateway.SpareProcessors() // as rueda serve
	if cfg.Procs > 0 {
		runtime.GOMAXPROCS(cfg.Procs)
	}
	s.cfg = cfg
	s.feed = newFeed(&s.cfg)
	if cfg.Board != "" {
		board, err := proc.OpenBoard(cfg.Board)
		if err != nil {
			return nil, err
		}
		s.feed.board = board
	}
	bound := make(chan gateway.Bound, 1)
	config, limits := s.config()
	config.OnReady = func(b gateway.Bound) { bound <- b }
	g, err := gateway.New(context.Background(), config)
	if err != nil {
		return nil, err
	}
	s.gateway, s.feed.gateway = g, g
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- g.Run(ctx) }()
	select {
	case b := <-bound:
		s.admin = b.Admin
		// The gateway is ready before its market has any instruments.
		select {
		case <-s.feed.listed:
			return &Started{Address: b.Address, REST: b.REST, Limits: limits, Version: Version}, nil
		case <-time.After(listPatience):
			return nil, fmt.Errorf("the instruments were not listed within %v", listPatience)
		}
	case err := <-s.ended:
		s.ended <- nil
		return nil, fmt.Errorf("the gateway ended: %w", err)
	}
}

// config returns the gateway's configuration, and its deviations from the defaults in words.
func (s *server) config() (gateway.Config, string) {
	c := &s.cfg
	var settings []string
	note := func(format string, args ...any) { settings = append(settings, fmt.Sprintf(format, args...)) }
	config := gateway.Config{
		Listen: "127.0.0.1:0", Users: users{}, Version: "bench", Drain: time.Millisecond,
		Feeds:  []gateway.Feed{{Name: "bench", Source: s.feed, Late: c.Market}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		TLS:    gateway.TLS{Certificate: c.Certificate, Key: c.Key},
		Admin:  gateway.Admin{Listen: "127.0.0.1:0", Tokens: adminToken},
	}
	if c.Journal {
		config.Journal = gateway.Journal{Folder: c.Folder}
		note("journal")
	}
	for _, d := range c.Delays {
		note("delay=%v", d)
	}
	perUser := c.PerUser
	if perUser <= 0 {
		perUser = 8
	}
	const many = 10_000_000
	config.Limits = gateway.Limits{
		Connections: perUser, Sockets: max(20_000, c.Conns+1000), UnauthenticatedPerAddress: many, Handshakes: many,
		LoginsPerMinute: many, LoginBurst: many, RequestsPerMinute: many,
	}
	for _, name := range []string{"handshakes", "unauthenticated_per_address", "logins_per_minute", "login_burst", "requests_per_minute"} {
		note("limits.%s=%d", name, many)
	}
	if c.Conns > 19_000 {
		note("limits.sockets=%d", config.Limits.Sockets)
	}
	if perUser != 8 {
		note("limits.connections=%d", perUser)
	}
	config.Stream = gateway.Stream{
		PingInterval: c.Ping, PongTimeout: c.PongTimeout, BookWildcards: c.Market,
		MaxWaiting: c.MaxWaiting, MaxAge: c.MaxAge, TradesKept: c.TradesKept,
		MessagesPerFlush: c.PerTurn, FlushInterval: c.Flush, MaxBacklog: c.MaxBacklog, TLSByGoroutines: c.TLSByGoroutines, IOUring: c.IOUring,
		AuthTimeout: time.Minute, Delays: c.Delays,
	}
	note("stream.auth_timeout=1m")
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ping_interval", c.Ping}, {"pong_timeout", c.PongTimeout}, {"max_age", c.MaxAge}} {
		if d.value != 0 {
			note("stream.%s=%v", d.name, d.value)
		}
	}
	for _, d := range []struct {
		name  string
		value int
	}{{"per_turn", c.PerTurn}, {"max_waiting", c.MaxWaiting}, {"trades_kept", c.TradesKept}, {"max_backlog", c.MaxBacklog}} {
		if d.value != 0 {
			note("stream.%s=%d", d.name, d.value)
		}
	}
	if c.Flush != 0 {
		note("stream.flush_interval=%v", max(0, c.Flush))
	}
	if c.Market {
		note("stream.book_wildcards=true")
	}
	if c.TLSByGoroutines {
		note("stream.tls_by_goroutines=true")
	}
	if c.IOUring {
		note("stream.io_uring=true")
	}
	if c.Procs > 0 {
		note("GOMAXPROCS=%d", c.Procs)
	}
	return config, strings.Join(settings, " ")
}

func (s *server) publish(p pattern.Pattern) (struct{}, error) {
	if s.busy {
		return struct{}{}, errors.New("publishing already")
	}
	s.busy = true
	if s.feed.board != nil {
		s.feed.skipped, s.feed.skippedTrades = s.feed.board.Received.Load(), s.feed.board.Trades.Load()
	}
	s.feed.stop.Store(false)
	select {
	case s.feed.work <- p:
		return struct{}{}, nil
	case <-time.After(10 * time.Second):
		return struct{}{}, errors.New("the feed takes no work")
	}
}

func (s *server) stop(struct{}) (*pattern.Published, error) {
	if !s.busy {
		return nil, errors.New("nothing is published")
	}
	s.busy = false
	s.feed.stop.Store(true)
	select {
	case p := <-s.feed.done:
		return &p, nil
	case <-time.After(10 * time.Second):
		return nil, errors.New("the feed does not stop")
	}
}

// Memory is the answer to "memory", after a garbage collection.
type Memory struct {
	Resident   int64
	Peak       int64
	Heap       uint64
	Goroutines int
	Mallocs    uint64 // total
}

func (s *server) memory(struct{}) (*Memory, error) {
	runtime.GC() // FreeOSMemory collects again, which frees objects with finalizers
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now, peak, err := proc.Memory(os.Getpid())
	return &Memory{Resident: now, Peak: peak, Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(), Mallocs: m.Mallocs}, err
}

// Stats is the answer to "stats".
type Stats struct {
	Resident   int64
	Goroutines int
	Mallocs    uint64
	Gateway    gateway.Stats
}

func (s *server) stats(struct{}) (*Stats, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now, _, err := proc.Memory(os.Getpid())
	out := &Stats{Resident: now, Goroutines: runtime.NumGoroutine(), Mallocs: m.Mallocs}
	if s.feed != nil && s.gateway != nil {
		out.Gateway = s.gateway.Stats()
	}
	return out, err
}

// profile begins a CPU profile in a file, or ends it if name is "".
func (s *server) profile(name string) (struct{}, error) {
	if name == "" {
		if s.profiling == nil {
			return struct{}{}, nil
		}
		pprof.StopCPUProfile()
		err := s.profiling.Close()
		s.profiling = nil
		return struct{}{}, err
	}
	f, err := os.Create(name)
	if err != nil {
		return struct{}{}, err
	}
	s.profiling = f
	return struct{}{}, pprof.StartCPUProfile(f)
}
