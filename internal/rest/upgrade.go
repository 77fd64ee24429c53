package rest

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
)

// upgrade hands a request for the stream over. All answers, refusals too, are
// those of Config.Stream.
func (h *Handler) upgrade(w http.ResponseWriter, q *request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			h.log.LogAttrs(q.Context(), slog.LevelError, "upgrade panicked",
				slog.String(keyType, fmt.Sprintf("%T", p)), slog.String(keyStack, string(debug.Stack())))
		}
		panic(http.ErrAbortHandler) // the answer may have begun: all that is left is to hang up
	}()
	h.cfg.Stream.ServeHTTP(upgradeWriter{w}, q.Request)
}

// upgradeWriter gives who hijacks the connection itself, which no longer
// carries HTTP to be watched and whose options may be set.
type upgradeWriter struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (w upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if watched, ok := c.(*conn); ok {
		c = watched.Conn
	}
	return c, rw, err
}
