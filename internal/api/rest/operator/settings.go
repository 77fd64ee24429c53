package operator

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/wire"
)

// whoami serves GET /admin/operator, which describes the operator of the request's token.
func (r *Routes) whoami(q *Request) (api.Result, error) {
	return object(adminapi.Operator{Name: q.Name, Role: q.Role})
}

// Reload reads the configuration again and applies it, after a row in the audit log is stored; by
// has the actor of that row. applied names the changed settings that apply now, and restart those
// that need a restart. If mistakes is not empty, nothing has changed. err is an error of the audit
// log.
type Reload func(ctx context.Context, by audit.Event) (applied, restart, mistakes []string, err error)

// maxMistakes bounds how many mistakes an answer lists.
const maxMistakes = 20

// reload serves POST /admin/reload.
func (r *Routes) reload(q *Request) (api.Result, error) {
	if r.cfg.Reload == nil {
		return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway cannot read its configuration again")
	}
	by := audit.Event{Actor: q.Actor, Address: q.Client.Address.Unmap().String(), Client: q.Client.Client}
	applied, restart, mistakes, err := r.cfg.Reload(q.Context(), by)
	switch {
	case err != nil:
		r.cfg.Logger.LogAttrs(q.Context(), slog.LevelWarn, "configuration not applied", slog.String("request_id", q.ID), slog.Any("error", err))
		return api.Result{}, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
	case len(mistakes) > 0:
		f := wire.NewFailure(wire.UnsupportedOption, "configuration", mistakes[0])
		f.Msg = "The configuration has mistakes, and nothing was changed"
		for _, text := range mistakes[1:min(len(mistakes), maxMistakes)] {
			f.Details = append(f.Details, wire.Detail{Field: "configuration", Msg: text})
		}
		return api.Result{}, f
	}
	return object(struct {
		Applied []string `json:"applied"`
		Restart []string `json:"restart"`
	}{append([]string{}, applied...), append([]string{}, restart...)})
}

// levelName returns the name of a level. A level between two names has the higher name, because
// lines are written from that level on.
func levelName(level slog.Level) string {
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

// levelHere returns a fault if the level of the gateway's log is fixed.
func (r *Routes) levelHere() error {
	if r.cfg.LogLevel == nil {
		return wire.NewFault(wire.UnsupportedOption, "The level of this gateway's log is fixed")
	}
	return nil
}

// level returns the answer that contains the current level.
func (r *Routes) level() (api.Result, error) {
	return api.Result{Object: []byte(`{"level":"` + levelName(r.cfg.LogLevel.Level()) + `"}`)}, nil
}

// logLevel serves GET /admin/log-level.
func (r *Routes) logLevel(*Request) (api.Result, error) {
	if err := r.levelHere(); err != nil {
		return api.Result{}, err
	}
	return r.level()
}

// setLogLevel serves PUT /admin/log-level. It changes the level only after a row in the audit log
// is stored.
func (r *Routes) setLogLevel(q *Request) (api.Result, error) {
	body, err := q.ReadBody(api.MediaJSON, MaxBody)
	if err != nil {
		return api.Result{}, err
	}
	next, f := readLogLevel(body)
	if f != nil {
		return api.Result{}, f
	}
	if err := r.levelHere(); err != nil {
		return api.Result{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := levelName(r.cfg.LogLevel.Level())
	if before == levelName(next) {
		return r.level()
	}
	err = r.cfg.Record(q.Context(), audit.Event{
		Time: time.Now(), Kind: audit.SettingChanged, Actor: q.Actor, Address: q.Client.Address.Unmap().String(), Client: q.Client.Client,
		Detail: "log level " + levelName(next) + ", was " + before,
	})
	if err != nil {
		r.cfg.Logger.LogAttrs(q.Context(), slog.LevelWarn, "log level not changed", slog.String("request_id", q.ID), slog.Any("error", err))
		return api.Result{}, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
	}
	r.cfg.Logger.LogAttrs(q.Context(), slog.LevelWarn, "log level changed", slog.String("log_level", levelName(next)), slog.String("request_id", q.ID))
	r.cfg.LogLevel.Set(next)
	return r.level()
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
