package rest

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
)

// logAccess writes a record of the access log: at debug for health checks, at info for other
// requests. It has the route instead of the path, which may contain anything, even a token.
func (h *Handler) logAccess(q *request, a *answer, took time.Duration) {
	level := slog.LevelInfo
	name := "none"
	if q.route != nil {
		name = q.Path
		if q.route.Probe {
			level = slog.LevelDebug
		}
	}
	ctx := context.WithoutCancel(q.Context())
	if !h.log.Enabled(ctx, level) {
		return
	}
	if q.User.ID == "" && a.status >= http.StatusBadRequest {
		due, left := h.refusals.due(q.Address, time.Now())
		if left > 0 {
			h.log.LogAttrs(ctx, slog.LevelWarn, "refused requests not logged", slog.Int("count", left))
		}
		if !due {
			return
		}
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

// knownMethod returns a method of RFC 9110 or 5789, and "other" for any other text.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}

// Limits of the records of refused requests without a user, so that a flood does not fill the disk.
const (
	refusalsPerMinute       = 60 // of an address
	refusalsPerMinuteInAll  = 1200
	leftOutReportedInterval = time.Minute
)

// refusalLog decides which refused requests are logged.
type refusalLog struct {
	limiter *ratelimit.Limiter[netip.Prefix]

	mu       sync.Mutex
	left     int // requests that were not logged and not reported yet
	reported time.Time
}

func newRefusalLog() *refusalLog {
	return &refusalLog{limiter: ratelimit.NewLimiter[netip.Prefix](maxKeys)}
}

// due reports whether the refusal of an address is logged. left is the number of those that were
// not, once a minute.
func (l *refusalLog) due(a netip.Addr, now time.Time) (due bool, left int) {
	key := clientaddr.Client(a)
	own, all := ratelimit.Per(refusalsPerMinute, time.Minute, refusalsPerMinute), ratelimit.Per(refusalsPerMinuteInAll, time.Minute, refusalsPerMinuteInAll)
	_, wait := l.limiter.Take(key, own, now)
	if due = wait == 0; due {
		_, wait = l.limiter.Take(netip.Prefix{}, all, now)
		due = wait == 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !due {
		l.left++
	}
	if l.left > 0 && now.Sub(l.reported) >= leftOutReportedInterval {
		left, l.left, l.reported = l.left, 0, now
	}
	return due, left
}
