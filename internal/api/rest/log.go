package rest

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

// logAccess writes a record of the access log, at level debug for health checks and at info for all
// other requests. The record contains the route instead of the path, because a path may contain
// anything, even a token.
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
	granted := q.grant != "" && a.status < http.StatusBadRequest // package auth limits these by user
	if q.User.ID == "" && !granted && !h.anonymous.due(ctx, h.log, q.Address, time.Now()) {
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

// knownMethod returns m if it is a method of RFC 9110 or 5789, and "other" for any other text.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}

// Limits of the log records about requests without a user, so that a flood of requests does not
// fill the disk.
const (
	anonymousPerMinute      = 60 // from one address
	anonymousPerMinuteInAll = 1200
	leftOutReportedInterval = time.Minute
)

// anonymousLog limits the log records about requests without a user, for each address and in total.
type anonymousLog struct {
	limiter *ratelimit.Limiter[netip.Prefix]

	mu       sync.Mutex
	left     int // requests that were not logged and not reported yet
	reported time.Time
}

func newAnonymousLog() *anonymousLog {
	return &anonymousLog{limiter: ratelimit.NewLimiter[netip.Prefix](maxKeys)}
}

// due reports whether to log a request from address a. At most once a minute, it logs how many
// requests were left out.
func (l *anonymousLog) due(ctx context.Context, log *slog.Logger, a netip.Addr, now time.Time) bool {
	due, left := l.take(a, now)
	if left > 0 {
		log.LogAttrs(ctx, slog.LevelWarn, "requests without a user not logged", slog.Int("count", left))
	}
	return due
}

// take counts a request from address a, and reports whether to log it. left is the number of
// requests that were left out since the last report, or 0 if no report is due now.
func (l *anonymousLog) take(a netip.Addr, now time.Time) (due bool, left int) {
	own, all := ratelimit.Per(anonymousPerMinute, time.Minute, anonymousPerMinute), ratelimit.Per(anonymousPerMinuteInAll, time.Minute, anonymousPerMinuteInAll)
	due = true
	if key := clientaddr.Client(a); key.IsValid() {
		_, wait := l.limiter.Take(key, own, now)
		due = wait == 0
	}
	if due {
		_, wait := l.limiter.Take(netip.Prefix{}, all, now)
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
