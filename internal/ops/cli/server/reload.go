package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/internal/ops/sdnotify"
)

// reloader reads the configuration of a running gateway again.
type reloader struct {
	name    string // of the file
	systemd *sdnotify.Notifier

	mu       sync.Mutex // held during a reload
	settings *config.Settings
	gateway  *gateway.Gateway
	status   string // for systemd, once the gateway is ready
}

// ready reports to systemd that the gateway is ready, with its status.
func (r *reloader) ready(status string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
	return r.systemd.Ready(status)
}

// reload reads the configuration again, and applies what can change while the gateway runs. Each
// line of the error names a mistake; then nothing has changed.
func (r *reloader) reload(ctx context.Context, by gateway.Caller) (gateway.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.settings.Gateway.Logger
	began := r.systemd.Reloading()
	defer func() {
		if err := errors.Join(began, r.systemd.Ready(r.status)); err != nil {
			log.Warn("systemd not notified", "error", err)
		}
	}()
	done, err := r.apply(ctx, by)
	if err != nil {
		log.Error("configuration not applied, keeping the old one", "file", r.name, "error", err)
		return done, err
	}
	log.Warn("configuration read again", "file", r.name, "applied", list(done.Applied), "restart", list(done.Restart))
	return done, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// apply does the work of reload.
func (r *reloader) apply(ctx context.Context, by gateway.Caller) (done gateway.Reloaded, _ error) {
	log := func(config.Log) (*slog.Logger, *slog.LevelVar) { return r.settings.Gateway.Logger, nil }
	next, err := config.Read(r.name, log)
	if err != nil {
		return done, err
	}
	_ = next.Users.Close() // only its mistakes are of interest
	for _, text := range next.Warnings {
		r.settings.Gateway.Logger.Warn("weak setting in the configuration", "reason", text)
	}
	c := r.settings.Changes(next)
	if err := r.gateway.Change(ctx, by, c.Change); err != nil {
		return done, err
	}
	c.Commit()
	return gateway.Reloaded{Applied: c.Change.Names, Restart: c.Restart}, nil
}

// serve reads the configuration again after each signal, until ctx ends.
func (r *reloader) serve(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			_, _ = r.reload(ctx, gateway.Caller{}) // which is logged
		case <-ctx.Done():
			return
		}
	}
}
