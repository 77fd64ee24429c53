package socket

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// ServeHTTP upgrades the request to a WebSocket connection, or refuses it with the error envelope
// of REST.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.upgrade(w, r); f != nil {
		f.write(w, requestID(r.Header.Get("X-Request-Id")), s.cfg.Secure)
	}
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *refusal {
	peer := Peer{Address: s.cfg.client(peerOf(r), r.Header)}
	if wait, ok := s.handshakeLimiter.Allow(peer.Address, time.Now()); !ok {
		return s.handshakeLimiter.refusal(wait)
	}
	h, f := checkUpgrade(&upgradeRequest{
		method: r.Method, major: r.ProtoMajor, minor: r.ProtoMinor,
		host: r.Host, query: r.URL.RawQuery, body: r.ContentLength != 0, header: r.Header,
	}, s.cfg.Origins)
	if f != nil {
		return f
	}
	if h.token != "" {
		peer.Mark = s.cfg.Env.Registry.Mark()
		v := s.verifiers.submitAndWait(r.Context(), h.token)
		if v.fault != nil {
			return notVerified(v.fault)
		}
		peer.Identity = v.identity
	}
	c := s.newConn(peer)
	c.handshake.upgrade = h
	if err := s.acquireSlot(c); err != nil {
		return noSlot(err)
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.slots.release(c.handshake)
		s.cfg.Logger.Error("hijacking the connection failed", "error", err)
		return &refusal{status: http.StatusInternalServerError, reason: wire.Internal, msg: "Internal error"}
	}
	// Bytes after the handshake are in the buffer of the HTTP server.
	var early []byte
	if n := rw.Reader.Buffered(); n > 0 {
		early = make([]byte, n)
		_, _ = rw.Reader.Read(early) // returns the buffered bytes
	}
	if h, ok := nc.(*httpConn); ok { // came from Listen, and may have unread bytes
		nc, early = h.Conn, append(early, h.early...)
	}
	s.attach(c, nc, h.appendSwitching(nil), early)
	return nil
}

// noSlot returns the refusal for an error of acquireSlot.
func noSlot(err error) *refusal {
	if errors.Is(err, ErrAddressFull) {
		return tooMany("Too many unauthenticated connections from this address", time.Second)
	}
	return unavailable("Too many open connections")
}

func tooMany(msg string, wait time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, reason: wire.RateLimited, msg: msg,
		retryAfter: max(1, seconds(wait))}
}

func unavailable(msg string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, reason: wire.Unavailable, msg: msg, retryAfter: 5}
}

// notVerified returns the refusal of a Bearer token.
func notVerified(fault *wire.Fault) *refusal {
	msg := fault.Msg
	if msg == "" {
		msg = fault.Reason.Socket().Msg
	}
	switch code := fault.Reason.Socket().Code; code {
	case http.StatusUnauthorized:
		return unauthorized(fault.Reason, msg)
	case http.StatusServiceUnavailable:
		f := unavailable(msg)
		if fault.RetryAfter > 0 {
			f.retryAfter = fault.RetryAfter
		}
		return f
	default:
		return &refusal{status: code, reason: fault.Reason, msg: msg, retryAfter: fault.RetryAfter}
	}
}

// requestID returns the client's X-Request-Id if it is valid, otherwise a new one.
func requestID(id string) string {
	if id == "" || len(id) > 64 {
		return rand.Text()
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return rand.Text()
		}
	}
	return id
}

// appendTo appends the refusal as a complete HTTP/1.1 response with Connection: close, for
// connections that net/http does not serve.
func (f *refusal) appendTo(b []byte, id string, secure bool) []byte {
	failure := wire.Failure{Fault: wire.Fault{Reason: f.reason, Msg: f.msg}}
	body := wire.AppendFailure(nil, f.status, &failure, id)
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(f.status), 10)
	b = append(append(b, ' '), http.StatusText(f.status)...)
	b = append(b, "\r\nConnection: close\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	for name, value := range f.fields(secure) {
		b = append(append(append(append(b, "\r\n"...), name...), ": "...), value...)
	}
	b = append(append(b, "\r\nX-Request-Id: "...), id...)
	return append(append(b, "\r\n\r\n"...), body...)
}
