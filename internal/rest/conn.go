package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// listener wraps the connections it accepts.
type listener struct {
	net.Listener
	log    *slog.Logger
	secure bool
	panics *atomic.Uint64
	logged time.Time // the last line that a connection was not accepted
}

const (
	acceptAgain  = 100 * time.Millisecond // the wait after a connection could not be accepted
	acceptLogged = time.Second            // between two log lines that say so
)

// Accept gives the next connection that has an address. The address is taken here and nowhere
// else. An error that may pass, such as that there are no descriptors, is waited out: net/http
// would end at some of them.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if passing(err) {
			if now := time.Now(); now.Sub(l.logged) >= acceptLogged {
				l.logged = now
				l.log.Error("connection not accepted", keyError, err)
			}
			time.Sleep(acceptAgain)
			continue
		}
		if err != nil {
			return nil, err
		}
		if from := c.RemoteAddr(); from != nil {
			return &conn{Conn: c, from: from, log: l.log, panics: l.panics, secure: l.secure}, nil
		}
		_ = c.Close() // it was reset before it came here, and nothing can be counted or logged of it
	}
}

// passing says whether an error of accept says nothing against the next call: it is the system's,
// and not that the listener is none (any more).
func passing(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.EBADF && errno != syscall.EINVAL && errno != syscall.ENOTSOCK
}

// conn stands between net/http and a connection, for two things that no handler
// can see. It watches the header sections that are read, for what net/http mends
// in silence: a Content-Length beside a Transfer-Encoding, a repeated
// Content-Length, a folded line. A server and a proxy that mend them differently
// disagree on where a request ends, which lets one client put words in
// another's mouth (request smuggling; RFC 9112, sections 5.2 and 11.2). And it puts the
// envelope around what net/http itself answers, in plain text, to a request that it
// cannot read.
type conn struct {
	net.Conn
	from    net.Addr // its peer
	log     *slog.Logger
	panics  *atomic.Uint64
	secure  bool         // by TLS
	framing framing      // of the goroutine that reads
	verdict atomic.Int32 // of framing, for handlers
	last    atomic.Bool  // the request that must be the last was handled
}

// Verdicts on a connection; they only rise.
const (
	framingSound int32 = iota
	framingLast        // where the request being read ends is not followed: it must be the last
	framingBad         // a header section was ambiguous
)

// RemoteAddr implements net.Conn. It is never nil.
func (c *conn) RemoteAddr() net.Addr { return c.from }

// Read reads, and watches what it reads.
func (c *conn) Read(p []byte) (n int, err error) {
	defer c.caught(&n, &err) // net/http reads on a goroutine of its own too, where nobody else does
	n, err = c.Conn.Read(p)
	if verdict := c.framing.feed(p[:n]); verdict > c.verdict.Load() {
		c.verdict.Store(verdict) // before net/http sees the bytes, so in time for their handler
	}
	return n, err
}

// plainAnswer is what follows the status line when net/http refuses a request
// before there is a handler. Answers of handlers have a Date and other fields.
const plainAnswer = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write writes, and puts a plain answer of net/http into the envelope.
func (c *conn) Write(p []byte) (n int, err error) {
	defer c.caught(&n, &err)
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
	c.log.LogAttrs(context.Background(), slog.LevelInfo, "request not understood",
		slog.String(keyRequest, id), slog.Int(keyStatus, code), slog.String(keyReason, string(reason)),
		slog.String(keyAddress, c.from.String()))
	if _, err := c.Conn.Write(web.NewError(code, reason, cmp.Or(msg, usual)).Append(nil, id, c.secure)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// caught makes a panic an error of this connection. It is to be deferred.
func (c *conn) caught(n *int, err *error) {
	v := recover()
	if v == nil {
		return
	}
	logPanic(c.log, c.panics, v)
	*n, *err = 0, net.ErrClosed
	_ = c.Close() // it is of no use any more
}

// logPanic logs and counts a panic outside of a request; its value may quote what a client sent.
func logPanic(log *slog.Logger, panics *atomic.Uint64, v any) {
	panics.Add(1)
	log.LogAttrs(context.Background(), slog.LevelError, "connection panicked",
		slog.String(keyType, fmt.Sprintf("%T", v)), slog.String(keyStack, string(debug.Stack())))
}

// CloseWrite closes the sending half, so that a client that is still sending
// reads its answer before the connection is reset. net/http looks for it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// checkFraming refuses a request on a connection where a header section was
// ambiguous, and makes the request the last one of a connection that can no longer
// be watched. It is called once a request.
func checkFraming(q *request) *wire.Fault {
	c, ok := q.Context().Value(connKey{}).(*conn)
	if !ok {
		return nil // not served by a Server
	}
	verdict := c.verdict.Load()
	if verdict == framingSound {
		return nil
	}
	q.out.Set("Connection", "close")
	if verdict == framingLast && !c.last.Swap(true) {
		return nil
	}
	return wire.NewFault(wire.InvalidRequest, "The length of the request is ambiguous")
}
