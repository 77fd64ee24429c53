package socket

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

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
	Origins    []string // pages that may connect, as https://app.example.com; none: the request's own host; "*": all
	MaxMessage int      // bytes of a client's message; 0: 64 KiB

	MaxOpen                      int     // connections; 0: 20,000
	MaxUnauthenticated           int     // of them, those that have not authenticated; 0: 10,000
	MaxUnauthenticatedPerAddress int     // likewise of one address (IPv6: of one /64); 0: 32
	HandshakeBurst               int     // handshakes an address may make at once; 0: 200
	HandshakeRate                float64 // handshakes a second an address gets back; 0: 20

	Verifiers     int           // token checks at a time; 0: four a core
	VerifyTimeout time.Duration // of one; 0: 5 s
	CloseTimeout  time.Duration // for the last output and the peer's close frame; 0: 2 s

	Address func(*http.Request) netip.Addr // the client's address; nil: the peer of the TCP connection
	Logger  *slog.Logger                   // nil discards
}

func (c *Config) fill() {
	cores := runtime.GOMAXPROCS(0)
	orInt := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	orInt(&c.Shards, cores)
	orInt(&c.MaxMessage, 64<<10)
	orInt(&c.MaxOpen, 20_000)
	orInt(&c.MaxUnauthenticated, 10_000)
	orInt(&c.MaxUnauthenticatedPerAddress, 32)
	orInt(&c.HandshakeBurst, 200)
	orInt(&c.Verifiers, 4*cores)
	if c.HandshakeRate <= 0 {
		c.HandshakeRate = 20
	}
	if c.VerifyTimeout <= 0 {
		c.VerifyTimeout = 5 * time.Second
	}
	if c.CloseTimeout <= 0 {
		c.CloseTimeout = 2 * time.Second
	}
	if c.Address == nil {
		c.Address = peerAddress
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func peerAddress(r *http.Request) netip.Addr {
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
	goroutines sync.WaitGroup // readers and writers
}

// New makes a Server. It takes connections at once, and serves them once Run runs.
func New(cfg Config) *Server {
	cfg.fill()
	if cfg.Env.Origin.IsZero() {
		cfg.Env.Origin = time.Now()
	}
	s := &Server{
		cfg:    cfg,
		gate:   newGate(cfg.HandshakeRate, cfg.HandshakeBurst),
		seats:  newSeats(&cfg),
		checks: newChecks(&cfg),
	}
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
		close(sh.quit)
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

// Stats are figures for readiness.
type Stats struct {
	Open            int  // connections
	Unauthenticated int  // of them, those that have not authenticated
	Draining        bool // no more are taken
}

// Stats counts the connections.
func (s *Server) Stats() Stats {
	open, waiting, shut := s.seats.count()
	return Stats{Open: open, Unauthenticated: waiting, Draining: shut}
}

// Serve takes a connection whose handshake is done, and returns at once. On an error, ErrClosed, ErrFull or ErrAddressFull, the
// connection stays the caller's.
func (s *Server) Serve(nc net.Conn, peer Peer) error {
	c, err := s.seat(peer)
	if err != nil {
		return err
	}
	s.attach(c, nc, nil, nil)
	return nil
}

// seat makes a connection of the lighter shard, with a place among those open.
func (s *Server) seat(peer Peer) (*conn, error) {
	lighter := s.shards[0]
	for _, sh := range s.shards[1:] {
		if sh.load.Load() < lighter.load.Load() {
			lighter = sh
		}
	}
	c := &conn{
		shard: lighter, peer: peer, key: limitKey(peer.Address), slot: noSlot,
		parser: NewParser(s.cfg.MaxMessage),
		taken:  make(chan struct{}, 1), out: make(chan *[]byte, 1), done: make(chan struct{}),
	}
	evicted, err := s.seats.take(c, peer.Identity != nil)
	if err != nil {
		return nil, err
	}
	if evicted != nil {
		evicted.Post(session.Notice{Kind: session.Overload})
	}
	lighter.load.Add(1)
	return c, nil
}

// unseat takes back what seat gave, where nothing came of the connection.
func (s *Server) unseat(c *conn) {
	c.shard.load.Add(-1)
	s.seats.leave(c)
}

// attach sets a seated connection going: greeting is written before anything
// else, and early is handled as the first bytes of the peer.
func (s *Server) attach(c *conn, nc net.Conn, greeting, early []byte) {
	c.net, c.greeting, c.early = nc, greeting, early
	switch t := nc.(type) {
	case *net.TCPConn:
		c.tcp = t
	case *tls.Conn:
		c.tcp, _ = t.NetConn().(*net.TCPConn)
		c.secure = true
	}
	c.tune()
	s.goroutines.Add(2)
	c.shard.post(input{kind: inputStart, conn: c})
	go c.read()
	go c.write()
}

// ServeHTTP is the endpoint: it upgrades the request, or refuses it with the
// error envelope of REST.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.upgrade(w, r); f != nil {
		f.write(w, requestID(r))
	}
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *refusal {
	peer := Peer{Address: s.cfg.Address(r), Client: r.UserAgent()}
	if wait, ok := s.gate.pass(peer.Address, time.Now()); !ok {
		return tooMany("Too many handshakes", wait)
	}
	h, f := checkUpgrade(&upgradeRequest{
		method: r.Method, major: r.ProtoMajor, minor: r.ProtoMinor,
		host: r.Host, query: r.URL.RawQuery, body: r.ContentLength != 0, header: r.Header,
	}, s.cfg.Origins)
	if f != nil {
		return f
	}
	if h.token != "" {
		peer.Mark = s.cfg.Env.Registry.Mark()
		v := s.checks.do(r.Context(), h.token)
		if v.fault != nil {
			return notVerified(v.fault)
		}
		peer.Identity = v.identity
	}
	c, err := s.seat(peer)
	if errors.Is(err, ErrAddressFull) {
		return tooMany("Too many unauthenticated connections of this address", time.Second)
	}
	if err != nil {
		return unavailable("No place for another connection")
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.unseat(c)
		s.cfg.Logger.Error("connection not handed over by the HTTP server", "error", err)
		return &refusal{status: http.StatusInternalServerError, reason: wire.Internal, msg: "Internal error"}
	}
	// What the client sent right after its handshake is in the HTTP server's buffer.
	var early []byte
	if n := rw.Reader.Buffered(); n > 0 {
		early = make([]byte, n)
		_, _ = rw.Reader.Read(early) // gives what is buffered
	}
	s.attach(c, nc, h.appendSwitching(nil), early)
	return nil
}

func tooMany(msg string, wait time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, reason: wire.RateLimited, msg: msg,
		retryAfter: max(1, int(math.Ceil(wait.Seconds())))}
}

func unavailable(msg string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, reason: wire.Unavailable, msg: msg, retryAfter: 5}
}

// notVerified is the refusal of a Bearer token.
func notVerified(fault *wire.Fault) *refusal {
	msg := fault.Msg
	if msg == "" {
		msg = fault.Reason.Socket().Msg
	}
	switch code := fault.Reason.Socket().Code; code {
	case http.StatusUnauthorized:
		return unauthorized(fault.Reason, msg)
	case http.StatusServiceUnavailable:
		f := unavailable(msg)
		if fault.RetryAfter > 0 {
			f.retryAfter = fault.RetryAfter
		}
		return f
	default:
		return &refusal{status: code, reason: fault.Reason, msg: msg, retryAfter: fault.RetryAfter}
	}
}

// requestID is the client's own X-Request-Id where it is sane, else a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 64 {
		return rand.Text()
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return rand.Text()
		}
	}
	return id
}
