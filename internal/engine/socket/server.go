package socket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/connlog"
	"github.com/ruedahq/rueda/internal/engine/socket/counters"
	"github.com/ruedahq/rueda/internal/engine/socket/listing"
	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/internal/engine/tlslimit"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// Errors of Open for a connection that is not accepted.
var (
	ErrClosed = errors.New("server is shutting down")
	ErrFull   = errors.New("too many connections")
)

// Config of a Server. Env and Hub are required; the other fields have defaults.
type Config struct {
	Env *session.Env // shared by all sessions
	Hub *hub.Hub     // for all sessions

	Shards     int      // event loops; 0: one for each core
	Path       string   // of the endpoint, for Listen; "": /stream
	Hosts      []string // names of Host for pages without Origins, besides addresses and localhost; nil: all
	Origins    []string // allowed origins of pages, such as https://app.example.com; none: the host of the request; "*": all
	Scheme     string   // of pages of the host of the request, https or http; "": either
	MaxMessage int      // of a client, in bytes; 0: 64 KiB

	MaxOpen                      int     // connections; 0: 20,000
	MaxUnauthenticated           int     // connections without authentication; 0: half of MaxOpen, at most 10,000
	MaxUnauthenticatedPerAddress int     // from one address (IPv6: one /64); 0: 32
	HandshakeBurst               int     // handshakes of an address at once; 0: 200
	HandshakeRate                float64 // further handshakes of an address, per second; 0: 100

	Verifiers     int           // concurrent token checks; 0: four for each core
	VerifyTimeout time.Duration // of a token check; 0: 5 s
	CloseTimeout  time.Duration // for the last output and the peer's close frame; 0: 2 s

	HeadTimeout time.Duration // for the request of a client of Listen; 0: 10 s
	MaxHeads    int           // clients of Listen that have not sent their request; 0: 8,192

	// FlushInterval is how long a busy shard collects messages for one write; 0: 5 ms; negative: no
	// waiting.
	FlushInterval time.Duration
	IOUring       bool // submit the writes of a flush to io_uring, if available
	SendBuffer    int  // SO_SNDBUF in bytes; 0: 64 KiB

	Secure  web.HTTPS     // whether clients connect by HTTPS; answers then have Strict-Transport-Security
	Proxies proxy.Trusted // proxies that are trusted for the client address; none: the peer's address counts
	Logger  *slog.Logger  // nil discards
}

func (c *Config) fill() {
	// GOMAXPROCS may exceed the number of cores, for goroutines that wait in the kernel.
	cores := min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	orInt := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	orInt(&c.Shards, cores)
	orInt(&c.MaxMessage, 64<<10)
	orInt(&c.MaxOpen, 20_000)
	orInt(&c.MaxUnauthenticated, max(1, min(10_000, c.MaxOpen/2)))
	orInt(&c.MaxUnauthenticatedPerAddress, 32)
	orInt(&c.HandshakeBurst, 200)
	orInt(&c.Verifiers, 4*cores)
	orInt(&c.MaxHeads, 8<<10)
	orInt(&c.SendBuffer, 64<<10) // small, so that the kernel does not hide a backlog
	orTime := func(v *time.Duration, otherwise time.Duration) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	orTime(&c.VerifyTimeout, 5*time.Second)
	orTime(&c.CloseTimeout, 2*time.Second)
	orTime(&c.HeadTimeout, 10*time.Second)
	c.FlushInterval = max(0, cmp.Or(c.FlushInterval, 5*time.Millisecond))
	if c.HandshakeRate <= 0 {
		c.HandshakeRate = 100
	}
	c.Path = cmp.Or(c.Path, "/stream")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// client returns the client address of a request from peer.
func (c *Config) client(peer netip.Addr, h http.Header) netip.Addr {
	if len(c.Proxies) == 0 {
		return peer
	}
	return c.Proxies.Client(peer, h["Forwarded"], h["X-Forwarded-For"])
}

// Server serves the connections of the stream. Its ServeHTTP is their endpoint.
type Server struct {
	cfg              Config
	handshakeLimiter *handshakeLimiter
	slots            *connSlots
	verifiers        *verifier.Pool
	shards           []*shard
	buffers          buffers
	kernel           kernel
	onStep           func(*conn, step) // test hook; nil: none
	panics           atomic.Uint64     // recovered
	maxMessage       atomic.Int64
	backlog          backlog
	collector        counters.Collector
	lister           listing.Collector
	connLog          *connlog.Log
	requests         *httpListener
	tlsLimiter       *tlslimit.Limiter
	tlsSlots         chan struct{}  // bounds concurrent TLS handshakes
	goroutines       sync.WaitGroup // of netConns and TLS handshakes
}

// backlog counts the connections with full sockets, and their buffered output.
type backlog struct {
	conns atomic.Int64
	bytes atomic.Int64
}

// tlsPerUpgrade is how many TLS connections an address may make at once for each handshake of the
// stream. Programs that send requests may connect for each of them.
const tlsPerUpgrade = 5

// New returns a Server. It accepts connections immediately and serves them during Run.
func New(cfg Config) *Server {
	cfg.fill()
	if cfg.Env.Origin.IsZero() {
		cfg.Env.Origin = time.Now()
	}
	s := &Server{
		cfg:              cfg,
		handshakeLimiter: newHandshakeLimiter(cfg.HandshakeRate, cfg.HandshakeBurst),
		slots:            newConnSlots(&cfg),
		tlsLimiter:       tlslimit.New(cfg.HandshakeBurst, cfg.HandshakeRate, tlsPerUpgrade*cfg.HandshakeBurst, cfg.Proxies),

		tlsSlots: make(chan struct{}, runtime.NumCPU()),
		connLog:  connlog.New(cfg.Logger),
	}
	s.maxMessage.Store(int64(cfg.MaxMessage))
	s.requests = newHTTPListener(&s.kernel)
	s.verifiers = verifier.New(verifier.Config{
		Verify: s.cfg.Env.Verify, Admit: s.cfg.Env.Admit, Timeout: s.cfg.VerifyTimeout, Max: s.cfg.Verifiers,
		Panicked: func(v any) {
			s.panics.Add(1)
			s.cfg.Logger.Error("token check panicked", "panic", panicText(v), "stack", string(debug.Stack()))
		},
	})
	for range cfg.Shards {
		s.shards = append(s.shards, newShard(s))
	}
	return s
}

// Run serves connections until ctx ends. Then it closes them (Error shutting_down, 4503) and
// returns when all goroutines of the server have ended, after at most Config.CloseTimeout unless a
// token check takes longer. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	var shards, log sync.WaitGroup
	defer log.Wait()
	logCtx, endLog := context.WithCancel(context.WithoutCancel(ctx))
	defer endLog()
	log.Go(func() { s.connLog.Run(logCtx) })
	for _, sh := range s.shards {
		shards.Go(sh.run)
	}
	<-ctx.Done()
	s.slots.close()
	for _, sh := range s.shards {
		sh.post(input{kind: inputCloseAll, fault: &wire.Fault{Reason: wire.ShuttingDown}})
	}
	<-s.slots.empty
	s.verifiers.Close()
	for _, sh := range s.shards {
		sh.stop()
	}
	shards.Wait()
	s.goroutines.Wait()
	return nil
}

// Drain accepts no more connections. Each session is notified when to reconnect and closed at that
// time, spread over the window. Drain returns when all connections are closed, or the error of ctx
// if that ends before. Unauthenticated connections keep their own time limit.
func (s *Server) Drain(ctx context.Context, window time.Duration) error {
	s.slots.close()
	s.cfg.Env.Registry.Drain(window)
	select {
	case <-s.slots.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain connections: %w", context.Cause(ctx))
	}
}

// Stats are counters for readiness and measurements.
type Stats struct {
	Open            int  // connections
	Unauthenticated int  // connections without authentication
	Draining        bool // accepts no more connections

	Behind       int    // connections with full sockets
	PendingBytes int64  // buffered for them
	Panics       uint64 // recovered; each has ended one connection
	Flushes      uint64 // of published messages, by all shards
	Writes       uint64 // to sockets
	Refused      uint64 // handshakes above the limit of an address
}

// Counters returns the counters of all shards together, and which shards did not answer in time.
func (s *Server) Counters() (total counters.Shard, stale []bool) {
	return s.collector.Collect(len(s.shards), func(i int, reply chan<- counters.Answer) {
		sh := s.shards[i]
		sh.post(input{kind: inputTask, task: func(time.Time) {
			sh.figures.Stream = sh.stream.Figures
			reply <- counters.Answer{Index: i, Shard: sh.figures.Copy()}
		}})
	})
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	open, unauthenticated, draining := s.slots.count()
	st := Stats{
		Open: open, Unauthenticated: unauthenticated, Draining: draining,
		Panics: s.panics.Load(), Refused: s.handshakeLimiter.refused.Load(),
		Behind: int(s.backlog.conns.Load()), PendingBytes: s.backlog.bytes.Load(),
	}
	for _, sh := range s.shards {
		st.Flushes += sh.counts.flushes.Load()
		st.Writes += sh.counts.writes.Load()
	}
	return st
}

// Peer is the other end of a connection.
type Peer struct {
	Address  netip.Addr
	Identity *session.Identity // of the Bearer token of the handshake; nil: none was sent
	Mark     session.Mark      // from before the token was verified
}

// newConn returns a connection of the least loaded shard, without a transport.
func (s *Server) newConn(peer Peer) *conn {
	c := &conn{shard: s.leastLoaded(), fd: noFD, optional: new(optional)}
	c.handshake = &handshakeState{
		conn: c, address: peer.Address, key: clientaddr.Client(peer.Address),
		identity: peer.Identity, mark: peer.Mark,
	}
	return c
}

// leastLoaded returns the shard with the fewest connections.
func (s *Server) leastLoaded() *shard {
	lighter := s.shards[0]
	for _, sh := range s.shards[1:] {
		if sh.load.Load() < lighter.load.Load() {
			lighter = sh
		}
	}
	return lighter
}

// acquireSlot counts c as an open connection.
func (s *Server) acquireSlot(c *conn) error {
	evicted, err := s.slots.acquire(c.handshake, c.handshake.identity != nil)
	if err != nil {
		return err
	}
	c.hasSlot = true
	if evicted != nil {
		evicted.Post(session.Event{Kind: session.Overload})
	}
	return nil
}

// attach starts a connection that has a slot: it writes response first and handles early as the
// first input. If there is an event loop, a TCP connection moves to it, which saves its goroutines
// behind a proxy that reuses connections.
func (s *Server) attach(c *conn, nc net.Conn, greeting, early []byte) {
	if greeting != nil {
		c.ensureControl().response = greeting
	}
	c.shard.load.Add(1)
	if c.shard.loop != nil {
		if fd, ok := c.shard.kernel.adopt(nc); ok {
			c.fd = fd
			c.shard.post(input{kind: inputStart, conn: c, data: early})
			return
		}
	}
	c.netConn = newNetConn(c, nc, early)
	c.shard.post(input{kind: inputStart, conn: c})
	c.netConn.start(s.cfg.SendBuffer)
}

// deadline converts t to a deadline, and time converts it back.
func (s *Server) deadline(t time.Time) deadline {
	if t.IsZero() {
		return 0
	}
	return max(1, deadline(t.Sub(s.cfg.Env.Origin)))
}

func (s *Server) time(m deadline) time.Time { return s.cfg.Env.Origin.Add(time.Duration(m)) }
