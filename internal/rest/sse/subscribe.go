// Package sse serves the stream over HTTP, as server-sent events or JSON lines. It is a host of
// sessions, besides the WebSocket connections of package socket: it passes the token and a
// subscribe to a session and writes the session's messages. Tokens, rights, limits, slow clients
// and the shutdown are therefore the session's. The id of an event is the position that the session
// reports after each piece of the stream.
package sse

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/internal/socket"
	"github.com/ruedahq/rueda/wire"
)

// answerTimeout bounds the answers of the session to the token and the subscribe.
const answerTimeout = 10 * time.Second

// Query returns the parameters of the route.
func Query() []string {
	return append(channels(), "depth", "conflate", "interval", "snapshot", "alive", "start", "slow")
}

func channels() []string {
	return []string{"trades", "quotes", "order_book", "status", "summary", "bars"}
}

// Media returns the media types of the stream, the default one first.
func Media() []string { return []string{api.MediaEvents, api.MediaLines} }

// Route returns the function of GET /market/stream?trades=a,b&quotes=c, a subscription to the
// stream. connect opens its session; nil: the route is not found.
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

// open authenticates the session and subscribes.
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

// ask sends a message and waits for its answer. Other messages are for the client, and the answer
// too unless it is Success, which the HTTP status replaces.
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

// subscribeMessage returns the subscribe message for a query and Last-Event-ID. The session checks
// the values.
func subscribeMessage(q *api.Request) ([]byte, *wire.Failure) {
	b := append([]byte(nil), `{"action":"subscribe"`...)
	some := false
	for _, channel := range channels() {
		text := q.Params.Get(channel)
		if text == "" {
			continue
		}
		some = true
		b = append(wire.AppendString(append(b, ','), channel), ':')
		b = wire.AppendStrings(b, strings.Split(text, ","))
	}
	if !some {
		return nil, wire.NewFailure(wire.BadField, "trades", "is missing: name trades, quotes, order_book, status, summary or bars with identifiers")
	}
	for _, name := range [...]string{"conflate", "interval"} {
		if text := q.Params.Get(name); text != "" {
			b = append(wire.AppendString(append(b, ','), name), ':')
			b = wire.AppendString(b, text)
		}
	}
	var f *wire.Failure
	if b, f = appendOptions(b, q); f != nil {
		return nil, f
	}
	if b, f = appendStart(b, q); f != nil {
		return nil, f
	}
	return append(b, '}'), nil
}

// appendOptions appends the fields of a subscribe that are not strings.
func appendOptions(b []byte, q *api.Request) ([]byte, *wire.Failure) {
	switch depth := q.Params.Get("depth"); depth {
	case "":
	case "0", "1", "5", "10", "25":
		b = append(append(b, `,"depth":`...), depth...)
	default:
		return nil, wire.NewFailure(wire.BadField, "depth", "must be 1, 5, 10, 25 or 0 (all)")
	}
	for _, name := range [...]string{"snapshot", "alive"} {
		text := q.Params.Get(name)
		// JSON lines have no comments that show that the stream is alive.
		if name == "alive" && text == "" && q.Media == api.MediaLines {
			text = "true"
		}
		switch text {
		case "":
		case "true", "false":
			b = append(wire.AppendString(append(b, ','), name), ':')
			b = append(b, text...)
		default:
			return nil, wire.NewFailure(wire.BadField, name, "must be true or false")
		}
	}
	return b, nil
}

// appendStart appends where the stream begins: after Last-Event-ID, which a client sends that
// reconnects, or else at start.
func appendStart(b []byte, q *api.Request) ([]byte, *wire.Failure) {
	start := q.Params.Get("start")
	ids := q.Header.Values("Last-Event-Id")
	if len(ids) == 0 {
		if start != "" {
			b = wire.AppendString(append(b, `,"start":`...), start)
		}
		return b, nil
	}
	cut := strings.LastIndexByte(ids[0], ':')
	if len(ids) > 1 || cut <= 0 {
		return nil, wire.NewFailure(wire.BadField, "Last-Event-ID", "is not an event id of this stream")
	}
	b = wire.AppendString(append(b, `,"resume":{"epoch":`...), ids[0][:cut])
	b = wire.AppendString(append(b, `,"position":`...), ids[0])
	return append(b, '}'), nil
}

// message is a control message of the session; the zero message stands for data.
type message struct {
	kind string
	body wire.Value
}

// control reads a control message. For data, whose type has one letter, it returns the zero
// message.
func control(payload []byte) (m message) {
	const head = len(`{"type":"`)
	if len(payload) > head+1 && payload[head+1] == '"' {
		return m
	}
	body, err := wire.ParseJSON(payload)
	if err != nil {
		return m
	}
	kind := body.Get("type")
	return message{kind.Text, body}
}

// text returns a member that is a string, or "".
func (m *message) text(name string) string {
	v := m.body.Get(name)
	return v.Text
}

// failure returns an Error of the session as a failure of the request.
func (m *message) failure() *wire.Failure {
	f := &wire.Failure{Fault: wire.Fault{Reason: wire.Reason(m.text("reason")), Msg: m.text("msg"), Hint: m.text("hint")}}
	if wait := m.body.Get("retry_after"); wait.Kind == wire.Number {
		f.RetryAfter = whole(wait.Text)
	}
	rejected := m.body.Get("rejected")
	for i := range rejected.Items {
		r := message{body: rejected.Items[i]}
		f.Details = append(f.Details, wire.Detail{Field: r.text("channel"), Msg: r.text("instrument") + ": " + r.text("msg")})
	}
	return f
}
