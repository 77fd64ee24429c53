package rest

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// upgrade passes a request for the stream to Config.Stream, which answers it in all cases. It logs
// a panic and answers internal if the answer has not begun.
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
			panic(http.ErrAbortHandler)
		}
		a.write(w, q, h.cfg.Secure)
	}()
	h.cfg.Stream.ServeHTTP(out, q.Request.Request)
}

// upgradeWriter passes an answer on, and gives the underlying connection to Hijack instead of the
// conn. After the handshake the connection does not carry HTTP, so that nothing needs to check it.
type upgradeWriter struct {
	http.ResponseWriter
	begun bool // the answer has begun
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
	if checked, ok := c.(*conn); ok {
		c = checked.Conn
	}
	return c, rw, err
}
