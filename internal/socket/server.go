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
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/proxy"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// Why a connection is not taken.
var (
	ErrClosed      = errors.New("server is shutting down")
	ErrFull        = errors.New("too many connections")
	ErrAddressFull = errors.New("too many unauthenticated connections of one address")
)

// Config of a Server. Env and Hub are needed, the rest may be left zero.
type Config struct {
	Env *session.Env // shared by all sessions
	Hub *stream.Hub  // what they subscribe to

	Shards     int      // goroutines that run sessions; 0: one a core
	Path       string   // of the endpoint, for Listen; "": /stream
	Origins    []string // pages that may connect, as https://app.example.com; none: the request's own host; "*": all
	MaxMessage int      // bytes of a client's message; 0: 64 KiB

	MaxOpen                      int     // connections; 0: 20,000
	MaxUnauthenticated           int     // of them, those that have not authenticated; 0: half of MaxOpen, at most 10,000
	MaxUnauthenticatedPerAddress int     // likewise of one address (IPv6: of one /64); 0: 32
	HandshakeBurst               int     // handshakes an address may make at once; 0: 200
	HandshakeRate                float64 // handshakes a second an address gets back; 0: 20

	Verifiers     int           // token checks at a time; 0: four a core
	VerifyTimeout time.Duration // of one; 0: 5 s
	CloseTimeout  time.Duration // for the last output and the peer's close frame; 0: 2 s

	HeadTimeout time.Duration // for a client of Listen to send its handshake; 0: 10 s
	MaxHeads    int           // clients of Listen that have not sent theirs; 0: 8,192

	// FlushInterval is how long a shard that is busy collects messages for one write; 0:
	// 5 ms; negative: it never waits.
	FlushInterval time.Duration
	IOUring       bool // hand the writes of a sweep to the kernel together, where it can
	SendBuffer    int  // bytes that the kernel may hold for a connection (SO_SNDBUF); 0: 64 KiB

	Secure  bool          // the connections are of TLS, where net/http has them too
	Proxies proxy.Trusted // proxies in front, whose word on the client's address is taken; none: it is the peer's
	Logger  *slog.Logger  // nil discards
}

func (c *Config) fill() {
	// A program may run more goroutines at a time than it has cores, for those that wait in the kernel.
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
	orInt(&c.SendBuffer, 64<<10) // the kernel must not hide a backlog
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
		c.HandshakeRate = 20
	}
	c.Path = cmp.Or(c.Path, "/stream")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// client is the address of a request's client, that of the connection's peer given.
func (c *Config) client(peer netip.Addr, h http.Header) netip.Addr {
	if len(c.Proxies) == 0 {
		return peer
	}
	return c.Proxies.Client(peer, h["Forwarded"], h["X-Forwarded-For"])
}

// peerOf is the address of a request's peer.
func peerOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// A Server runs the stream's connections. As an http.Handler it is the endpoint
// that they are opened at.
type Server struct {
	cfg        Config
	gate       *gate
	seats      *seats
	checks     *checks
	shards     []*shard
	buffers    buffers
	kernel     kernel
	trap       func(*conn, step) // of tests; nil: none
	panics     atomic.Uint64     // that were caught
	behind     behind
	requests   *requests
	shakes     chan struct{}  // a place for each handshake of TLS that is at work
	goroutines sync.WaitGroup // readers and writers of pumps, and handshakes of TLS
}

// behind counts the connections whose sockets are full.
type behind struct {
	lines atomic.Int64
	bytes atomic.Int64
}

// New makes a Server. It takes connections at once, and serves them once Run runs.
func New(cfg Config) *Server {
	cfg.fill()
	if cfg.Env.Origin.IsZero() {
		cfg.Env.Origin = time.Now()
	}
	s := &Server{
		cfg:   cfg,
		gate:  newGate(cfg.HandshakeRate, cfg.HandshakeBurst),
		seats: newSeats(&cfg),

		shakes: make(chan struct{}, runtime.NumCPU()),
	}
	s.requests = newRequests(&s.kernel)
	s.checks = newChecks(&s.cfg, &s.panics)
	for range cfg.Shards {
		s.shards = append(s.shards, newShard(s))
	}
	return s
}

// Run serves connections until ctx ends. Then it closes them all (Error
// shutting_down, 4503) and returns when the last is gone and every goroutine of
// the server has returned, which takes no longer than Config.CloseTimeout unless
// a token check does. It is called once.
func (s *Server) Run(ctx context.Context) error {
	var shards sync.WaitGroup
	for _, sh := range s.shards {
		shards.Go(sh.run)
	}
	<-ctx.Done()
	s.seats.shutOut()
	for _, sh := range s.shards {
		sh.post(input{kind: inputDismiss, fault: &wire.Fault{Reason: wire.ShuttingDown}})
	}
	<-s.seats.empty
	s.checks.close()
	for _, sh := range s.shards {
		sh.stop()
	}
	shards.Wait()
	s.goroutines.Wait()
	return nil
}

// Drain takes no more connections, and has every session told when to reconnect
// and closed at that moment, spread over the window. It returns when all are
// gone, or with the error of ctx when that ends before. A connection that never
// authenticated is left to its own time limit.
func (s *Server) Drain(ctx context.Context, window time.Duration) error {
	s.seats.shutOut()
	s.cfg.Env.Registry.Drain(window)
	select {
	case <-s.seats.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain connections: %w", context.Cause(ctx))
	}
}

// Stats are figures for readiness and measurements.
type Stats struct {
	Open            int  // connections
	Unauthenticated int  // of them, those that have not authenticated
	Draining        bool // no more are taken

	Behind       int    // connections whose sockets are full
	PendingBytes int64  // held for them
	Panics       uint64 // faults of our own, each of which has ended one connection
	Sweeps       uint64 // in which the shards gave out what was published
	Writes       uint64 // to sockets
}

// Stats counts the connections.
func (s *Server) Stats() Stats {
	open, waiting, shut := s.seats.count()
	st := Stats{
		Open: open, Unauthenticated: waiting, Draining: shut,
		Panics: s.panics.Load(),
		Behind: int(s.behind.lines.Load()), PendingBytes: s.behind.bytes.Load(),
	}
	for _, sh := range s.shards {
		st.Sweeps += sh.counts.sweeps.Load()
		st.Writes += sh.counts.writes.Load()
	}
	return st
}

// Peer is who is at the other end of a connection.
type Peer struct {
	Address  netip.Addr
	Identity *session.Identity // of the handshake's token, verified; nil: none was sent
	Mark     session.Mark      // of before it was verified

	// Positions has what is sent of the stream be followed by where in the stream that is. See
	// session.Session.TellPositions.
	Positions bool
}

// Serve takes a connection whose handshake is done, and returns at once. On an error,
// ErrClosed, ErrFull or ErrAddressFull, the connection stays the caller's.
func (s *Server) Serve(nc net.Conn, peer Peer) error {
	c := s.newConn(peer)
	if err := s.seat(c); err != nil {
		return err
	}
	s.attach(c, nc, nil, nil)
	return nil
}

// newConn makes a connection of the lighter shard, to be a pump.
func (s *Server) newConn(peer Peer) *conn {
	c := &conn{shard: s.lighter(), fd: noLine, extras: new(extras)}
	c.open = &opening{
		conn: c, address: peer.Address, key: clientaddr.Client(peer.Address),
		identity: peer.Identity, mark: peer.Mark, positions: peer.Positions,
	}
	return c
}

// lighter is the shard with the fewest connections.
func (s *Server) lighter() *shard {
	lighter := s.shards[0]
	for _, sh := range s.shards[1:] {
		if sh.load.Load() < lighter.load.Load() {
			lighter = sh
		}
	}
	return lighter
}

// seat gives a connection a place among those open.
func (s *Server) seat(c *conn) error {
	evicted, err := s.seats.take(c.open, c.open.identity != nil)
	if err != nil {
		return err
	}
	c.seated = true
	if evicted != nil {
		evicted.Post(session.Notice{Kind: session.Overload})
	}
	return nil
}

// attach sets a seated connection going: greeting is written before anything
// else, and early is handled as the first bytes of the peer. Where there is a door, a
// TCP connection becomes a line, so that a proxy that asks for streams on connections that
// carried other requests before costs no goroutines.
func (s *Server) attach(c *conn, nc net.Conn, greeting, early []byte) {
	if greeting != nil {
		c.own().greeting = greeting
	}
	c.shard.load.Add(1)
	if c.shard.door != nil {
		if fd, ok := c.shard.kernel.adopt(nc); ok {
			c.fd = fd
			c.shard.post(input{kind: inputStart, conn: c, data: early})
			return
		}
	}
	c.pump = newPump(c, nc, early)
	c.shard.post(input{kind: inputStart, conn: c})
	c.pump.start(s.cfg.SendBuffer)
}

// moment is t as deadlines are counted; time is the way back.
func (s *Server) moment(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return max(1, moment(t.Sub(s.cfg.Env.Origin)))
}

func (s *Server) time(m moment) time.Time { return s.cfg.Env.Origin.Add(time.Duration(m)) }
