package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// listener wraps each connection that it accepts in a conn.
type listener struct {
	net.Listener
	log    *slog.Logger
	https  web.HTTPS
	panics *atomic.Uint64
	logged time.Time // last log record of a failed accept

	limiter   *connLimiter
	anonymous *anonymousLog // of requests that net/http refuses
}

const (
	acceptRetry  = 100 * time.Millisecond // wait after a failed accept
	acceptLogged = time.Second            // between two log records of failed accepts
)

// Accept returns the next connection. It closes connections that were reset before their address
// was read. It retries after a temporary error, such as a lack of descriptors, because net/http
// stops at some of them.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if isTemporary(err) {
			if now := time.Now(); now.Sub(l.logged) >= acceptLogged {
				l.logged = now
				l.log.Error("connection not accepted", "error", err)
			}
			time.Sleep(acceptRetry)
			continue
		}
		if err != nil {
			return nil, err
		}
		if from := c.RemoteAddr(); from != nil {
			return &conn{Conn: c, from: from, log: l.log, panics: l.panics, https: l.https, limiter: l.limiter, anonymous: l.anonymous}, nil
		}
		_ = c.Close() // it was reset already
	}
}

// isTemporary reports whether the next accept may succeed after an error: the error comes from the
// system, and does not mean that the listener is closed.
func isTemporary(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.EBADF && errno != syscall.EINVAL && errno != syscall.ENOTSOCK
}

// conn is a connection of net/http that does two things which no handler can do.
//
// First, it checks the header sections of requests for faults that net/http silently repairs: a
// Content-Length next to a Transfer-Encoding, a repeated Content-Length, and a folded line. A
// server and a proxy that repair them differently disagree about where a request ends, which allows
// request smuggling (RFC 9112, sections 5.2 and 11.2).
//
// Second, if net/http cannot parse a request, conn replaces its plain-text answer with the
// envelope.
type conn struct {
	net.Conn
	from    net.Addr // peer
	log     *slog.Logger
	panics  *atomic.Uint64
	https   web.HTTPS    // of answers
	framing framing      // owned by the goroutine that reads
	state   atomic.Int32 // of framing, for handlers
	last    atomic.Bool  // the last request that is allowed was handled

	limiter   *connLimiter
	anonymous *anonymousLog
}

// SetWaiting records whether the connection's current request waits for its client. If waits is
// true, the limiter may close the connection to accept a new one.
func (c *conn) SetWaiting(waits bool) { c.limiter.setWaiting(c, waits) }

// States of conn.state. A state never changes to a lower one.
const (
	framingSound int32 = iota
	framingLast        // the end of the current request is not tracked: it must be the last one
	framingBad         // a header section was ambiguous
)

// RemoteAddr returns the address that the connection had when it was accepted. It is never nil.
func (c *conn) RemoteAddr() net.Addr { return c.from }

// NetConn returns the underlying connection.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn, and checks the header sections in the data.
func (c *conn) Read(p []byte) (n int, err error) {
	defer c.recoverPanic(&n, &err) // net/http also reads on a goroutine of its own
	n, err = c.Conn.Read(p)
	if state := c.framing.feed(p[:n]); state > c.state.Load() {
		c.state.Store(state) // before net/http sees the bytes, so in time for their handler
	}
	return n, err
}

// plainAnswer is the text after the status line with which net/http refuses a request before it
// calls a handler. Answers of handlers differ, because they have a Date and other fields.
const plainAnswer = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write implements net.Conn. It replaces a plain-text answer of net/http with the envelope.
func (c *conn) Write(p []byte) (n int, err error) {
	defer c.recoverPanic(&n, &err)
	line, rest, _ := bytes.Cut(p[:min(len(p), 256)], []byte("\r"))
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || !bytes.HasPrefix(rest, []byte(plainAnswer[1:])) {
		return c.Conn.Write(p)
	}
	reason, msg := wire.InvalidRequest, "Request not understood"
	switch {
	case bytes.HasPrefix(line, []byte("HTTP/1.1 431 ")):
		reason, msg = wire.HeadersTooBig, ""
	case bytes.HasPrefix(line, []byte("HTTP/1.1 501 ")):
		reason, msg = wire.NotImplemented, ""
	}
	code, usual := statusOf(reason)
	id := web.RequestID()
	peer, _ := netip.ParseAddrPort(c.from.String()) // peers without an address count together
	if c.anonymous.due(context.Background(), c.log, peer.Addr().Unmap(), time.Now()) {
		c.log.LogAttrs(context.Background(), slog.LevelInfo, "request not understood",
			slog.String("request_id", id), slog.Int("status", code), slog.String("reason", string(reason)),
			slog.String("address", c.from.String()))
	}
	if _, err := c.Conn.Write(web.NewError(code, reason, cmp.Or(msg, usual)).Append(nil, id, c.https)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// recoverPanic closes the connection after a panic and makes Read or Write return net.ErrClosed.
// Callers must defer it.
func (c *conn) recoverPanic(n *int, err *error) {
	v := recover()
	if v == nil {
		return
	}
	logPanic(c.log, c.panics, v)
	*n, *err = 0, net.ErrClosed
	_ = c.Close()
}

// logPanic counts and logs a panic outside of a request. It logs the type of v but not its value,
// which may quote a client.
func logPanic(log *slog.Logger, panics *atomic.Uint64, v any) {
	panics.Add(1)
	log.LogAttrs(context.Background(), slog.LevelError, "connection panicked",
		slog.String("type", fmt.Sprintf("%T", v)), slog.String("stack", string(debug.Stack())))
}

// CloseWrite closes the sending half of the connection. net/http calls it, so that a client that is
// still sending can read the answer before the connection is reset.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// rawConn returns the innermost connection, below TLS and all other layers of c.
func rawConn(c net.Conn) net.Conn {
	for {
		layer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = layer.NetConn()
	}
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, or nil if no Server serves the request.
func connOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return c
}

// checkFraming returns a fault if the connection has had an ambiguous header section. A request
// with a chunked body, which framing does not track, becomes the last one of its connection. It
// must be called once for each request.
func checkFraming(q *request) *wire.Fault {
	c, ok := q.Conn.(*conn)
	if !ok {
		return nil // not served by a Server
	}
	state := c.state.Load()
	if state == framingSound {
		return nil
	}
	q.Out.Set("Connection", "close")
	if state == framingLast && !c.last.Swap(true) {
		return nil
	}
	return wire.NewFault(wire.InvalidRequest, "The length of the request is ambiguous")
}
