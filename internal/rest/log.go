package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// logAccess writes a record of the access log: at debug for health checks, at info for other
// requests. It has the route instead of the path, which may contain anything, even a token.
func (h *Handler) logAccess(q *request, a *answer, took time.Duration) {
	level := slog.LevelInfo
	name := "none"
	if q.route != nil {
		name = q.Path
		if q.route.probe {
			level = slog.LevelDebug
		}
	}
	ctx := context.WithoutCancel(q.Context())
	if !h.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("request_id", q.ID),
		slog.String("method", knownMethod(q.Method)),
		slog.String("route", name),
		slog.Int("status", a.status),
		slog.Int64("bytes", a.written),
		slog.Duration("duration", took),
		slog.String("address", q.Address.String()))
	if q.User.ID != "" {
		attrs = append(attrs, slog.String("user", q.User.ID))
	}
	if a.reason != "" {
		attrs = append(attrs, slog.String("reason", string(a.reason)))
	}
	h.log.LogAttrs(ctx, level, "request", attrs...)
}

// knownMethod returns a method of RFC 9110 or 5789, and "other" for another text of the client.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
