package rest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/openapi"
	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// logRoutes are the administrator's routes about the log.
type logRoutes struct {
	handler *Handler
	mu      sync.Mutex     // held during a change, so that audit rows have the order of changes
	level   *slog.LevelVar // nil: the level cannot be changed
	record  func(ctx context.Context, events ...audit.Event) error
}

// routes returns the functions that serve them.
func (l *logRoutes) routes() map[string]serveFunc {
	return map[string]serveFunc{
		"GET /admin/log-level": l.show,
		"PUT /admin/log-level": l.set,
	}
}

// logLevel returns the name of a level. A level between two names has the name of the higher one,
// from which on lines are written.
func logLevel(level slog.Level) string {
	switch {
	case level <= slog.LevelDebug:
		return "debug"
	case level <= slog.LevelInfo:
		return "info"
	case level <= slog.LevelWarn:
		return "warn"
	}
	return "error"
}

// result returns the answer with the current level.
func (l *logRoutes) result() api.Result {
	return api.Result{Object: []byte(`{"level":"` + logLevel(l.level.Level()) + `"}`)}
}

// levelHere refuses requests to a gateway whose log has a fixed level.
func (l *logRoutes) levelHere() error {
	if l.level == nil {
		return wire.NewFault(wire.UnsupportedOption, "The level of this gateway's log is fixed")
	}
	return nil
}

// show serves GET /admin/log-level.
func (l *logRoutes) show(*request) (api.Result, error) {
	if err := l.levelHere(); err != nil {
		return api.Result{}, err
	}
	return l.result(), nil
}

// set serves PUT /admin/log-level. The level changes only after its row in the audit log is stored.
func (l *logRoutes) set(q *request) (api.Result, error) {
	next, err := readBody(q, api.MediaJSON, maxTokenBody, readLogLevel)
	if err != nil {
		return api.Result{}, err
	}
	if err := l.levelHere(); err != nil {
		return api.Result{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := logLevel(l.level.Level()); before != logLevel(next) {
		from := auth.Caller(q.origin())
		err := l.record(q.Context(), audit.Event{
			Time: time.Now(), Kind: audit.SettingChanged, Actor: q.actor, Address: from.Address.Unmap().String(), Client: from.Client,
			Detail: "log level " + logLevel(next) + ", was " + before,
		})
		if err != nil {
			l.handler.log.LogAttrs(q.Context(), slog.LevelWarn, "log level not changed", slog.String("request_id", q.ID), slog.Any("error", err))
			return api.Result{}, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
		}
		l.handler.log.LogAttrs(q.Context(), slog.LevelWarn, "log level changed to "+logLevel(next), slog.String("request_id", q.ID))
		l.level.Set(next)
	}
	return l.result(), nil
}

// readLogLevel parses the body of PUT /admin/log-level.
func readLogLevel(data []byte) (level slog.Level, f *wire.Failure) {
	body, err := wire.ParseJSON(data)
	if err != nil || body.Kind != wire.Object {
		return 0, &wire.Failure{Fault: wire.Fault{Reason: wire.BadJSON}}
	}
	v := body.Get("level")
	if v.Kind == wire.Absent {
		return 0, wire.NewFailure(wire.InvalidRequest, "level", "is missing")
	}
	if v.Kind != wire.String || !slices.Contains(openapi.LogLevels(), v.Text) || level.UnmarshalText([]byte(v.Text)) != nil {
		return 0, wire.NewFailure(wire.BadField, "level", "must be one of "+strings.Join(openapi.LogLevels(), ", "))
	}
	return level, nil
}
