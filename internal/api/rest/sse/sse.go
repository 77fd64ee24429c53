// Package sse serves the stream over HTTP, as server-sent events or JSON lines. It is a host of
// sessions, like package socket with its WebSocket connections. It passes the token and a subscribe
// to a session and writes the session's messages. The session handles tokens, rights, limits, slow
// clients and the shutdown. It reports a position after each piece of the stream, which becomes the
// id of an event.
package sse

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/wire"
)

// answerTimeout bounds how long the session may take to answer the token and the subscribe
// together.
const answerTimeout = 10 * time.Second

// Route returns the function that serves GET /market/stream?trades=a,b&quotes=c, a subscription to
// the stream. connect opens a session for a client. If connect is nil, the function answers
// not_found.
func Route(connect func(client netip.Addr) (*socket.LocalConn, error)) func(*api.Request) (api.Result, error) {
	return func(q *api.Request) (api.Result, error) {
		if connect == nil {
			return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The stream is not served here"}
		}
		subscribe, f := subscribeMessage(q)
		if f != nil {
			return api.Result{}, f
		}
		c, err := connect(q.Address)
		if err != nil {
			return api.Result{}, &wire.Fault{Reason: wire.Unavailable, Msg: "No place for another connection", RetryAfter: 5}
		}
		s := &sseWriter{conn: c, lines: q.Media == api.MediaLines, last: time.Now()}
		if err := s.open(q.Context(), q.Token, q.Params.Get("slow"), subscribe); err != nil {
			c.Close()
			return api.Result{}, err
		}
		q.Out.Set("Content-Type", q.Media)
		q.Out.Set("X-Accel-Buffering", "no") // a proxy that collects answers would hold events back
		return api.Result{
			Status: http.StatusOK,
			Stream: func(w http.ResponseWriter) int64 { return s.run(w, q) },
			Done:   c.Close,
		}, nil
	}
}

// open sends the token and the subscribe to the session and waits for both answers. slow is the
// parameter of that name, or "".
func (s *sseWriter) open(ctx context.Context, token, slow string, subscribe []byte) error {
	until := time.Now().Add(answerTimeout)
	auth := wire.AppendString([]byte(`{"action":"auth_token","token":`), token)
	if slow != "" {
		auth = wire.AppendString(append(auth, `,"slow":`...), slow)
	}
	if err := s.ask(ctx, append(auth, '}'), "Success", until); err != nil {
		return err
	}
	return s.ask(ctx, subscribe, "Subscription", until)
}

// ask sends msg to the session and waits for an answer of the type want. An Error becomes a
// failure. ask adds all other messages to the output, including the answer. It leaves out Success,
// which the HTTP status replaces.
func (s *sseWriter) ask(ctx context.Context, msg []byte, want string, until time.Time) error {
	s.conn.Send(msg)
	for {
		answer := s.next()
		if answer == nil {
			if s.ended || s.receive(ctx, until) != nil {
				return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 1}
			}
			continue
		}
		m := control(answer)
		if m.kind == "Error" {
			return m.failure()
		}
		if m.kind != "Success" {
			s.add(answer)
		}
		if m.kind == want {
			return nil
		}
	}
}
