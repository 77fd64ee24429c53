package ndjson

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Config configures the address and the limits of a Source. New requires one of Token, TLS with
// client certificates, and a Unix socket, unless Anonymous is set.
type Config struct {
	// Listen is host:port, where port 0 picks a free port, or unix:PATH. A Unix socket has mode 0600.
	Listen string
	Token  string // secret of the Hello; at least 32 characters; "": not checked
	// TokenNow returns the current secret and replaces Token; nil: the secret does not change.
	// Connected producers stay connected.
	TokenNow  func() string
	TLS       *tls.Config // nil: not encrypted
	Insecure  bool        // allows a Listen address outside the loopback interface without TLS
	Anonymous bool        // accepts every program that can connect; for development

	MaxProducers   int // concurrent connections, and as many that have not sent a Hello; 0 means 64
	MaxInstruments int // defined in one Run, by producers of one certificate, or by all without one; 0 means 10,000
	// invalid lines in a row before a producer is closed; 0 means 100
	MaxFaults int
	// a producer that accepts no answer for this long is closed; 0 means 5 s
	AnswerTimeout time.Duration
	HelloTimeout  time.Duration   // for the TLS handshake and the Hello; 0 means 5 s
	Markets       []market.Market // known markets: their hours, and whether prices may be below 0
	OnListen      func(net.Addr)  // called by Run when it listens; may be nil
	Logger        *slog.Logger    // nil: no logging
}

// MaxLine is the maximum length of a line in bytes, without its line feed.
const MaxLine = 1 << 20

// MinToken is the minimum length of Config.Token.
const MinToken = 32

// Source listens for producers. It implements feed.Source.
type Source struct {
	config  Config
	refuse  func(ctx context.Context, from string) // see OnWrongToken
	address string
	socket  string                    // path of the Unix socket; "": address is a TCP address
	zones   map[string]*time.Location // time zones of config.Markets, by name

	mu       sync.Mutex
	listener net.Listener // opened by Listen for the next Run; nil: Run opens one
	addr     net.Addr
	conns    map[net.Conn]struct{}
	pending  []*producer // have not sent a valid Hello; the oldest first
	stats    Stats
	down     map[string]bool // markets whose feed was down when the last Run ended

	unknown, crossed, negative, foreign, refused, gaps limitedLog
}

// Stats holds the counters of all runs together.
type Stats struct {
	Producers int // connected now
	Lines     int // without blank lines
	Events    int // published, including gaps and feed status added by the Source
	Faults    int // lines skipped and events rejected
	Gaps      int // in SQ
	Repeated  int // lines that the log has already
	Ignored   int // quotes of instruments whose quotes are derived from the book
	Unknown   int // lines with unknown members; they are accepted
	Crossed   int // of Faults: books crossed outside an auction
	Negative  int // of Faults: prices below 0 in a market that has none
	Foreign   int // of Faults: lines about instruments of another producer
	Refused   int // connections without a valid Hello
}

// New checks the configuration and returns a Source. It does not listen yet.
func New(config Config) (*Source, error) {
	if config.Listen == "" {
		return nil, errors.New("ndjson: listen address is missing")
	}
	s := &Source{zones: make(map[string]*time.Location), conns: make(map[net.Conn]struct{}), down: make(map[string]bool)}
	err := s.parseListen(&config)
	if err != nil {
		return nil, err
	}
	if err := config.checkSecrets(s.socket != ""); err != nil {
		return nil, err
	}
	if config.MaxProducers <= 0 {
		config.MaxProducers = 64
	}
	if config.MaxInstruments <= 0 {
		config.MaxInstruments = 10_000
	}
	if config.MaxFaults <= 0 {
		config.MaxFaults = 100
	}
	if config.AnswerTimeout <= 0 {
		config.AnswerTimeout = 5 * time.Second
	}
	if config.HelloTimeout <= 0 {
		config.HelloTimeout = 5 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s.config = config
	for _, m := range config.Markets {
		if s.zones[m.Timezone], err = time.LoadLocation(m.Timezone); err != nil {
			return nil, fmt.Errorf("ndjson: time zone of market %s: %w", m.ID, err)
		}
	}
	return s, nil
}

// Listen opens the address before Run, so that a program can report a bad address before it reports
// that it is ready. Producers wait until Run. The listener is closed by the next Run or by Close.
func (s *Source) Listen(ctx context.Context) error {
	listener, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener, s.addr = listener, listener.Addr()
	return nil
}

// Close closes a listener that Listen opened and that no Run has used.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	err := s.listener.Close()
	s.listener, s.addr = nil, nil
	return err
}

// Addr returns the address that Run or Listen listens on, or nil.
func (s *Source) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Stats returns the current counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Source) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// Run implements feed.Source.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	registry := newRegistry(s, sink, fail)
	var goroutines sync.WaitGroup
	goroutines.Go(func() {
		<-ctx.Done()
		_ = listener.Close() // nothing was written to it
		s.closeAll()
	})
	err = s.accept(ctx, listener, registry, &goroutines)
	fail(err)
	goroutines.Wait()
	s.mu.Lock()
	s.addr = nil
	s.mu.Unlock()
	return context.Cause(ctx)
}

// listen returns the listener opened by Listen, or opens one.
func (s *Source) listen(ctx context.Context) (net.Listener, error) {
	s.mu.Lock()
	listener := s.listener
	s.listener = nil
	s.mu.Unlock()
	if listener == nil {
		var err error
		if listener, err = s.open(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.addr = listener.Addr()
	s.mu.Unlock()
	if s.config.OnListen != nil {
		s.config.OnListen(listener.Addr())
	}
	return listener, nil
}

// accept accepts connections until the context ends or accepting fails permanently.
func (s *Source) accept(ctx context.Context, listener net.Listener, registry *registry, goroutines *sync.WaitGroup) error {
	failures := 0
	var logged time.Time
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // the source is ending
			}
			return ctx.Err()
		case err != nil:
			// Most likely the process has no free file descriptors. Some may become free again.
			if failures++; failures >= 100 && !temporary(err) {
				return fmt.Errorf("ndjson: accept: %w", err)
			}
			if now := time.Now(); now.Sub(logged) >= time.Second {
				logged = now
				s.config.Logger.Warn("accept failed", "error", err)
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		failures = 0
		if from := conn.RemoteAddr(); from != nil {
			s.admit(ctx, conn, from, registry, goroutines)
		} else {
			_ = conn.Close() // it was reset before it was accepted
		}
	}
}

// temporary reports whether an error of accept is due to a resource that may become free again.
func temporary(err error) bool {
	for _, errno := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OnWrongToken has a function called with the address of each Hello that has a wrong token, on the
// goroutine of the connection. Call it before Run.
func (s *Source) OnWrongToken(do func(ctx context.Context, from string)) { s.refuse = do }

// admit starts to read from a connection. At most MaxProducers connections wait for their Hello;
// the next one closes the oldest of them.
func (s *Source) admit(ctx context.Context, conn net.Conn, from net.Addr, registry *registry, goroutines *sync.WaitGroup) {
	p := newProducer(s, registry, conn, from)
	var oldest *producer
	s.mu.Lock()
	s.conns[conn] = struct{}{}
	s.pending = append(s.pending, p)
	if len(s.pending) > s.config.MaxProducers {
		oldest = s.pending[0]
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	s.mu.Unlock()
	if oldest != nil {
		oldest.evicted.Store(true)
		_ = oldest.socket.Close() // the bytes are not read
	}
	goroutines.Go(func() {
		defer s.release(p)
		f := p.hello(ctx)
		if f == nil {
			f = s.enter(ctx, p)
		}
		if f == nil {
			if f = p.resume(ctx); f != nil {
				p.registry.leave(p)
				s.count(func(c *Stats) { c.Producers-- })
				close(p.left)
			}
		}
		if f != nil {
			if ctx.Err() == nil { // otherwise the source is ending
				p.refuse(f)
			}
			return
		}
		p.log.Info("producer connected")
		err := p.run(ctx)
		s.count(func(c *Stats) { c.Producers-- })
		close(p.left)
		p.log.Info("producer disconnected", "lines", p.line, "error", err)
	})
}

// enter counts a producer and registers its name. A producer of the same name is disconnected
// first.
func (s *Source) enter(ctx context.Context, p *producer) *wire.Fault {
	if err := p.registry.enter(ctx, p); errors.Is(err, errForeign) {
		return wire.NewFault(wire.Forbidden, "line 1: a producer with another certificate has this name")
	} else if err != nil {
		return wire.NewFault(wire.ShuttingDown, "")
	}
	s.mu.Lock()
	full := s.stats.Producers >= s.config.MaxProducers
	if !full {
		s.stats.Producers++
		s.pending = slices.DeleteFunc(s.pending, func(other *producer) bool { return other == p })
	}
	s.mu.Unlock()
	if full {
		p.registry.leave(p)
		close(p.left)
		return wire.NewFault(wire.Overloaded, fmt.Sprintf("%d producers are connected, which is the limit", s.config.MaxProducers))
	}
	return nil
}

func (s *Source) release(p *producer) {
	s.mu.Lock()
	delete(s.conns, p.socket)
	s.pending = slices.DeleteFunc(s.pending, func(other *producer) bool { return other == p })
	s.mu.Unlock()
	_ = p.socket.Close() // all that matters was flushed
}

func (s *Source) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // the source ends
	}
}
