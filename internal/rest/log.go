package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Keys of the log.
const (
	keyRequest  = "request_id"
	keyMethod   = "method"
	keyRoute    = "route"
	keyStatus   = "status"
	keyReason   = "reason"
	keyBytes    = "bytes"
	keyDuration = "duration"
	keyAddress  = "address"
	keyUser     = "user"
	keyError    = "error"
	keyType     = "type"
	keyStack    = "stack"
)

// logAccess writes the line of the access log: debug for what a machine asks to
// see whether the server lives, info for the rest. It names the route and not
// the path, which is the client's text and may be anything, a token too.
func (h *Handler) logAccess(q *request, a *answer, took time.Duration) {
	level := slog.LevelInfo
	name := "none"
	if q.route != nil {
		name = q.route.path
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
		slog.String(keyRequest, q.id),
		slog.String(keyMethod, knownMethod(q.Method)),
		slog.String(keyRoute, name),
		slog.Int(keyStatus, a.status),
		slog.Int64(keyBytes, a.written),
		slog.Duration(keyDuration, took),
		slog.String(keyAddress, q.address.String()))
	if q.user.ID != "" {
		attrs = append(attrs, slog.String(keyUser, q.user.ID))
	}
	if a.reason != "" {
		attrs = append(attrs, slog.String(keyReason, string(a.reason)))
	}
	h.log.LogAttrs(ctx, level, "request", attrs...)
}

// knownMethod is m if it is a method of RFC 9110 or 5789; any other text is the client's own.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
