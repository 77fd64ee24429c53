package socket

import (
	"cmp"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// ServeHTTP upgrades the request to a WebSocket connection, or refuses it with the error envelope
// of REST.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.upgrade(w, r); f != nil {
		if f.Status == http.StatusUpgradeRequired {
			f.Header.Set("Upgrade", "websocket") // RFC 9110, section 15.5.22
			f.Header.Set("Connection", "Upgrade")
		}
		f.Write(w, web.RequestID(r.Header["X-Request-Id"]...), s.cfg.Secure)
	}
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *refusal {
	peer := Peer{Address: s.cfg.client(web.Peer(r), r.Header), Mark: s.cfg.Env.Registry.Mark()}
	h, f := checkUpgrade(&upgradeRequest{
		method: r.Method, major: r.ProtoMajor, minor: r.ProtoMinor,
		host: r.Host, query: r.URL.RawQuery, body: r.ContentLength != 0, header: r.Header,
	}, s.cfg.Hosts, s.cfg.Origins, s.cfg.Scheme)
	v := s.knownToken(h.token, peer.Address)
	key := s.handshakeKey(h.token, v, peer.Address)
	key.invalid = f != nil
	if wait, ok := s.handshakeLimiter.Allow(key, time.Now()); !ok {
		return s.handshakeLimiter.refusal(wait)
	}
	if f != nil {
		return f
	}
	if h.token != "" {
		if v == nil {
			v = s.verifiers.SubmitAndWait(r.Context(), h.token, peer.Address)
		}
		if v.Fault != nil {
			return notVerified(v.Fault)
		}
		peer.Identity = v.Identity
	}
	c := s.newConn(peer)
	c.handshake.upgrade = h
	if err := s.acquireSlot(c); err != nil {
		return unavailable("Too many open connections")
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.slots.release(c.handshake)
		s.cfg.Logger.Error("hijacking the connection failed", "error", err)
		return internalError()
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

// knownToken returns the result for a known token, or nil if a verifier must check it: a refusal of
// the client's address is recorded, which may block.
func (s *Server) knownToken(token string, client netip.Addr) *verifier.Result {
	if token == "" || s.cfg.Env.Known == nil {
		return nil
	}
	identity, fault, ok := s.cfg.Env.Known(token)
	if !ok || fault == nil && !identity.Allows(client) {
		return nil
	}
	return &verifier.Result{Identity: identity, Fault: fault}
}

func tooMany(msg string, wait time.Duration) *refusal {
	return web.NewError(http.StatusTooManyRequests, wire.RateLimited, msg, "Retry-After", strconv.Itoa(max(1, web.Seconds(wait))))
}

func unavailable(msg string) *refusal {
	return web.NewError(http.StatusServiceUnavailable, wire.Unavailable, msg, "Retry-After", "5")
}

func internalError() *refusal {
	return web.NewError(http.StatusInternalServerError, wire.Internal, "Internal error")
}

// notVerified returns the refusal of a Bearer token.
func notVerified(fault *wire.Fault) *refusal {
	status := fault.Reason.Socket()
	msg := cmp.Or(fault.Msg, status.Msg)
	var f *refusal
	switch status.Code {
	case http.StatusUnauthorized:
		return unauthorized(fault.Reason, msg)
	case http.StatusServiceUnavailable:
		f = unavailable(msg)
	default:
		f = web.NewError(status.Code, fault.Reason, msg)
	}
	if fault.RetryAfter > 0 {
		f.Header.Set("Retry-After", strconv.Itoa(fault.RetryAfter))
	}
	return f
}
