package rest

import (
	"log/slog"
	"net/http"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// alive is the body of the answer to GET /livez.
const alive = `{"status":"live"}`

// live serves GET /livez. It always succeeds while the process can answer.
func (h *Handler) live(*request) (api.Result, error) {
	return api.Result{Object: []byte(alive)}, nil
}

// Starting returns the handler for a gateway that is still reading its journal. It answers GET
// /livez with 200 and every other request, including GET /readyz, with 503.
func Starting(secure web.HTTPS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: api.Request{Request: r, ID: web.RequestID(r.Header["X-Request-Id"]...), Out: w.Header()}}
		if r.URL.Path == "/livez" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			a := answer{status: http.StatusOK, body: wire.AppendEnvelope(nil, []byte(alive))}
			a.write(w, q, secure)
			return
		}
		web.NewError(http.StatusServiceUnavailable, wire.Unavailable, "Not ready: starting", "Retry-After", "1").Write(w, q.ID, secure)
	})
}

// ready serves GET /readyz. The answer states why the gateway is not ready, to anyone. The reason
// is logged at level debug only, because load balancers ask every few seconds.
func (h *Handler) ready(q *request) (api.Result, error) {
	if err := h.cfg.Ready(); err != nil {
		h.log.LogAttrs(q.Context(), slog.LevelDebug, "not ready", slog.String("request_id", q.ID), slog.Any("error", err))
		return api.Result{}, &wire.Fault{Reason: wire.Unavailable, Msg: "Not ready: " + err.Error(), RetryAfter: 1}
	}
	return api.Result{Object: []byte(`{"status":"ready"}`)}, nil
}

// refusesAll returns the fault with which a gateway that serves no clients at present refuses r. It
// returns nil if the gateway serves clients, and for /livez and /readyz. The error of serves says
// why it does not.
func refusesAll(serves func() error, r *http.Request) *wire.Fault {
	if serves == nil || r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		return nil
	}
	if err := serves(); err != nil {
		return &wire.Fault{Reason: wire.Unavailable, Msg: "Serves no clients: " + err.Error(), RetryAfter: 1}
	}
	return nil
}
