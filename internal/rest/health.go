package rest

import (
	"log/slog"
	"net/http"

	"github.com/ruedahq/rueda/wire"
)

// live is GET /livez: the process answers.
func (h *Handler) live(*request) (result, error) {
	return result{object: []byte(`{"status":"live"}`)}, nil
}

// ready is GET /readyz. The route is open to anyone, and so is the reason why the gateway is
// not ready. A balancer asks every few seconds, so the log has it at debug, as other health checks.
func (h *Handler) ready(q *request) (result, error) {
	if err := h.cfg.Ready(); err != nil {
		h.log.LogAttrs(q.Context(), slog.LevelDebug, "not ready", slog.String(keyRequest, q.id), slog.Any(keyError, err))
		return result{}, &wire.Fault{Reason: wire.Unavailable, Msg: "Not ready: " + err.Error(), RetryAfter: 1}
	}
	return result{object: []byte(`{"status":"ready"}`)}, nil
}

// jwks is GET /.well-known/jwks.json, an RFC 7517 key set without envelope.
func (h *Handler) jwks(q *request) (result, error) {
	body, etag := h.cfg.Auth.JWKS()
	q.out.Set("Cache-Control", "public, max-age=300")
	return q.tagged(etag, result{status: http.StatusOK, raw: body}), nil
}

// tagged is r with its entity tag, or 304 without a body where the client has it.
func (q *request) tagged(etag string, r result) result {
	q.out.Set("ETag", etag)
	if matched, ok := matchesETag(q.Header.Values("If-None-Match"), etag); ok {
		q.out.Set("ETag", matched)
		return result{status: http.StatusNotModified}
	}
	return r
}
