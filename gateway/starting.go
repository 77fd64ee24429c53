package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/certificate"
)

// StartStep is a step of New that reads the journal.
type StartStep string

// Values of StartStep, with the unit of Config.OnStart's done and total.
const (
	ReadsJournal        StartStep = "reading the journal"   // bytes
	RestoresInstruments StartStep = "restoring instruments" // instruments
)

// AnswerStarting answers requests at the address of a gateway until stop is called: GET /livez with
// 200 and all other requests with 503. Probes then do not mistake a long start for a failure. Call
// AnswerStarting before New, which may read a large journal for minutes. Call stop before Run,
// which opens the address itself.
//
// AnswerStarting does nothing if the system chooses the port or the configuration has a Listener.
// It returns an error if the address cannot be opened or the certificate cannot be read.
func AnswerStarting(ctx context.Context, cfg Config) (stop func(), err error) {
	cfg.Listen = cmp.Or(cfg.Listen, defaultListen)
	if err := checkAddress(&cfg); err != nil {
		return nil, err
	}
	if _, port, _ := net.SplitHostPort(cfg.Listen); port == "0" || cfg.Listener != nil {
		return func() {}, nil
	}
	g := Gateway{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	if cfg.TLS != (TLS{}) {
		if g.certificate, err = certificate.Load(certificate.Files(cfg.TLS), g.log); err != nil {
			return nil, err
		}
	}
	l, err := listen(ctx, cfg.Listen, cfg.Insecure || g.certificate != nil)
	if err != nil {
		return nil, err
	}
	if g.certificate != nil {
		l = tls.NewListener(l, g.certificate.Config())
	}
	server := rest.NewServer(rest.ServerConfig{
		Handler: rest.Starting(g.overHTTPS()), Secure: g.overHTTPS(), Logger: g.log, ShutdownTimeout: time.Second,
		MaxConns: cfg.Limits.Requests, MaxConnsPerAddress: cfg.Limits.RequestsPerAddress, Proxies: cfg.Proxies,
	})
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Run(ctx, l); err != nil && !errors.Is(err, net.ErrClosed) {
			g.log.Warn("requests are not answered during the start", "error", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}, nil
}
