package rest

import (
	"context"
	"log/slog"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// Reload reads the configuration again. applied and restart name the settings that have changed:
// those that apply now, and those that apply after a restart. With mistakes nothing has changed. by
// has the actor of the row in the audit log, which is stored first. The error is that of the audit
// log.
type Reload func(ctx context.Context, by audit.Event) (applied, restart, mistakes []string, err error)

// maxMistakes bounds the mistakes of an answer.
const maxMistakes = 20

// serveReload returns the function that serves POST /admin/reload.
func serveReload(h *Handler, reload Reload) serveFunc {
	return func(q *request) (api.Result, error) {
		if reload == nil {
			return api.Result{}, wire.NewFault(wire.UnsupportedOption, "This gateway cannot read its configuration again")
		}
		from := auth.Caller(q.origin())
		by := audit.Event{Actor: q.actor, Address: from.Address.Unmap().String(), Client: from.Client}
		applied, restart, mistakes, err := reload(q.Context(), by)
		switch {
		case err != nil:
			h.log.LogAttrs(q.Context(), slog.LevelWarn, "configuration not applied", slog.String("request_id", q.ID), slog.Any("error", err))
			return api.Result{}, &wire.Fault{Reason: wire.Unavailable, RetryAfter: 2}
		case len(mistakes) > 0:
			f := wire.NewFailure(wire.UnsupportedOption, "configuration", mistakes[0])
			f.Msg = "The configuration has mistakes, and nothing was changed"
			for _, text := range mistakes[1:min(len(mistakes), maxMistakes)] {
				f.Details = append(f.Details, wire.Detail{Field: "configuration", Msg: text})
			}
			return api.Result{}, f
		}
		return api.Result{Object: appendJSON(nil, struct {
			Applied []string `json:"applied"`
			Restart []string `json:"restart"`
		}{append([]string{}, applied...), append([]string{}, restart...)})}, nil
	}
}
