package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/engine/web"
)

// ServerConfig configures a Server. Handler is required; the other fields have defaults.
type ServerConfig struct {
	Handler http.Handler
	Secure  web.HTTPS // see Config

	ReadHeaderTimeout time.Duration // for the header section of a request; 0: 5 s
	ReadTimeout       time.Duration // for a whole request; 0: 10 s
	WriteTimeout      time.Duration // from the end of the header section to the end of the answer; 0: 30 s
	IdleTimeout       time.Duration // between two requests; 0: 60 s
	ShutdownTimeout   time.Duration // for running requests when the ctx of Run ends; 0: 10 s
	MaxHeaderBytes    int           // request line and header section; net/http adds 4 KiB; 0: 16 KiB

	MaxConns           int           // 0: 10,000
	MaxConnsPerAddress int           // from one address, or one /64 of IPv6; 0: 1,000
	Proxies            proxy.Trusted // whose connections are not counted by address

	Logger *slog.Logger // nil discards
}

// Server serves HTTP/1.1 with limits of time and size.
type Server struct {
	http    http.Server
	log     *slog.Logger
	timeout time.Duration
	https   web.HTTPS
	panics  *atomic.Uint64
	conns   *connLimiter
}

const (
	defaultConns           = 10_000
	defaultConnsPerAddress = 1_000
)

// SetLimits replaces ServerConfig.MaxConns and MaxConnsPerAddress. Connections that are already
// open stay open. Any goroutine may call it.
func (s *Server) SetLimits(most, perAddress int) {
	s.conns.setLimits(cmp.Or(most, defaultConns), cmp.Or(perAddress, defaultConnsPerAddress))
}

// Panics returns how many connections have ended with a panic outside of a request.
func (s *Server) Panics() uint64 { return s.panics.Load() }

// NewServer returns a Server. Call Run to start it.
func NewServer(cfg ServerConfig) *Server {
	cfg.ReadHeaderTimeout = cmp.Or(cfg.ReadHeaderTimeout, 5*time.Second)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 10*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 30*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 60*time.Second)
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, 10*time.Second)
	cfg.MaxHeaderBytes = cmp.Or(cfg.MaxHeaderBytes, 16<<10)
	cfg.MaxConns = cmp.Or(cfg.MaxConns, defaultConns)
	cfg.MaxConnsPerAddress = cmp.Or(cfg.MaxConnsPerAddress, defaultConnsPerAddress)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// HTTP/2 has no upgrade of a connection to a WebSocket.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	panics := new(atomic.Uint64)
	conns := newConnLimiter(&cfg, panics)
	return &Server{
		conns:   conns,
		log:     cfg.Logger,
		panics:  panics,
		https:   cfg.Secure,
		timeout: cfg.ShutdownTimeout,
		http: http.Server{
			Handler:                      conns.serve(cfg.Handler),
			ReadHeaderTimeout:            cfg.ReadHeaderTimeout,
			ReadTimeout:                  cfg.ReadTimeout,
			WriteTimeout:                 cfg.WriteTimeout,
			IdleTimeout:                  cfg.IdleTimeout,
			MaxHeaderBytes:               cfg.MaxHeaderBytes,
			Protocols:                    &protocols,
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
			ConnContext:                  withConn,
			ConnState:                    conns.setState,
		},
	}
}

// Run serves the connections of l until ctx ends. Then it closes l, waits up to ShutdownTimeout for
// running requests, and returns nil. It leaves hijacked connections (the stream) to their owner.
// For TLS, l must be from crypto/tls, and its Config must offer only http/1.1. Call Run once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	served := make(chan error, 1)
	go func() {
		served <- s.http.Serve(&listener{Listener: l, log: s.log, panics: s.panics, https: s.https, limiter: s.conns, anonymous: newAnonymousLog()})
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	if err := s.http.Shutdown(ending); err != nil {
		s.log.Warn("requests were cut off", "error", err)
		_ = s.http.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
