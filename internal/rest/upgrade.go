package rest

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// upgrade hands a request for the stream over. All answers, refusals too, are
// those of Config.Stream.
func (h *Handler) upgrade(w http.ResponseWriter, q *request) {
	out := &upgradeWriter{ResponseWriter: w}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		a := h.panicked(q, p)
		if out.begun {
			panic(http.ErrAbortHandler) // all that is left is to hang up
		}
		a.write(w, q)
	}()
	h.cfg.Stream.ServeHTTP(out, q.Request)
}

// upgradeWriter gives who hijacks the connection itself, which no longer
// carries HTTP to be watched and whose options may be set.
type upgradeWriter struct {
	http.ResponseWriter
	begun bool // the answer has
}

// WriteHeader implements http.ResponseWriter.
func (w *upgradeWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *upgradeWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Hijack implements http.Hijacker.
func (w *upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun = true
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if watched, ok := c.(*conn); ok {
		c = watched.Conn
	}
	return c, rw, err
}
