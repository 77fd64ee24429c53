package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/proxy"
)

// ServerConfig is what a Server is made of. Handler is needed; the zero value of
// every other field means the default named with it.
type ServerConfig struct {
	Handler http.Handler
	Secure  bool // as of Config

	ReadHeaderTimeout time.Duration // for a request's header section: 5 s
	ReadTimeout       time.Duration // for a whole request: 10 s
	WriteTimeout      time.Duration // from the end of the header section to the end of the answer: 30 s
	IdleTimeout       time.Duration // between two requests: 60 s
	ShutdownTimeout   time.Duration // for requests being answered when Run's ctx ends: 10 s
	MaxHeaderBytes    int           // of a request line and header section; net/http allows 4 KiB on top: 16 KiB

	MaxConns           int           // at a time: 10,000
	MaxConnsPerAddress int           // of one address, IPv6 of one /64: 1,000
	Proxies            proxy.Trusted // in front, whose connections are not counted by address

	Logger *slog.Logger // discarded
}

// Server serves HTTP/1.1 within bounds of time and size.
type Server struct {
	http    http.Server
	log     *slog.Logger
	timeout time.Duration
	secure  bool
	panics  *atomic.Uint64
}

// Panics counts the faults of our own that were met in reading, writing and counting connections,
// each of which has ended one.
func (s *Server) Panics() uint64 { return s.panics.Load() }

// NewServer makes a Server.
func NewServer(cfg ServerConfig) *Server {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&cfg.ReadHeaderTimeout, 5 * time.Second},
		{&cfg.ReadTimeout, 10 * time.Second},
		{&cfg.WriteTimeout, 30 * time.Second},
		{&cfg.IdleTimeout, 60 * time.Second},
		{&cfg.ShutdownTimeout, 10 * time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	for _, f := range []struct {
		field *int
		value int
	}{{&cfg.MaxHeaderBytes, 16 << 10}, {&cfg.MaxConns, 10_000}, {&cfg.MaxConnsPerAddress, 1_000}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// HTTP/2 would take the streams of /stream away from its connection.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	panics := new(atomic.Uint64)
	return &Server{
		log:     cfg.Logger,
		panics:  panics,
		secure:  cfg.Secure,
		timeout: cfg.ShutdownTimeout,
		http: http.Server{
			Handler:                      cfg.Handler,
			ReadHeaderTimeout:            cfg.ReadHeaderTimeout,
			ReadTimeout:                  cfg.ReadTimeout,
			WriteTimeout:                 cfg.WriteTimeout,
			IdleTimeout:                  cfg.IdleTimeout,
			MaxHeaderBytes:               cfg.MaxHeaderBytes,
			Protocols:                    &protocols,
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
			ConnContext:                  withConn,
			ConnState:                    newGuests(&cfg, panics).follow,
		},
	}
}

// Run serves the connections of l until ctx ends; then it accepts no more, waits
// for the requests being answered, closes l and returns nil. Connections that
// were hijacked (the stream) are their owner's. For TLS, l is of crypto/tls, and
// its Config must offer http/1.1 alone. A Server runs once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(&listener{Listener: l, log: s.log, panics: s.panics, secure: s.secure}) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	if err := s.http.Shutdown(ending); err != nil {
		s.log.Warn("requests were cut off", keyError, err)
		_ = s.http.Close() // what it could say is of no use any more
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
