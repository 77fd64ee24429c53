package rest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// followPath is the stream over plain HTTP.
const followPath = "/market/stream"

// answerWait is how long the stream's own answers to a token and a subscribe may take.
const answerWait = 10 * time.Second

// follow is GET /market/stream?trades=a,b&quotes=c: a subscription to the stream whose messages
// are sent as server-sent events or as JSON lines. It is a connection of the stream like any
// other, at whose client's end this function sits: so tokens, rights, limits, slow
// clients and the end of the server are what they are on a socket.
func (h *Handler) follow(q *request) (result, error) {
	if h.cfg.Connect == nil {
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The stream is not served here"}
	}
	subscribe, f := subscribeOf(q)
	if f != nil {
		return result{}, f
	}
	slow := q.params.get("slow")
	token, err := q.bearer()
	if err != nil {
		return result{}, err
	}
	near, far := net.Pipe()
	if err := h.cfg.Connect(far, q.address); err != nil {
		_ = near.Close() // an end of a pipe closes without fail
		_ = far.Close()
		return result{}, &wire.Fault{Reason: wire.Unavailable, Msg: "No place for another connection", RetryAfter: 5}
	}
	s := &follower{tap: newTap(near), lines: q.media == mediaLines, last: time.Now()}
	if err := s.open(q.Context(), token, slow, subscribe); err != nil {
		_ = near.Close()
		return result{}, err
	}
	q.out.Set("Content-Type", q.media)
	q.out.Set("X-Accel-Buffering", "no") // a proxy that collects answers would hold events back
	return result{status: http.StatusOK, stream: func(w http.ResponseWriter) int64 { return h.feed(w, q, s) }}, nil
}

// open logs in and subscribes.
func (s *follower) open(ctx context.Context, token, slow string, subscribe []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = s.tap.conn.Close() })
	defer stop()
	until := time.Now().Add(answerWait)
	auth := wire.AppendString([]byte(`{"action":"auth_token","token":`), token)
	if slow != "" {
		auth = wire.AppendString(append(auth, `,"slow":`...), slow)
	}
	if err := s.ask(append(auth, '}'), "Success", until); err != nil {
		return err
	}
	return s.ask(subscribe, "Subscription", until)
}

// ask sends a message and waits for its answer. What comes besides is for the client.
func (s *follower) ask(msg []byte, want string, until time.Time) error {
	if err := s.tap.send(msg, until); err != nil {
		return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 1}
	}
	for {
		answer, err := s.tap.next(until)
		if err != nil {
			return &wire.Fault{Reason: wire.Unavailable, RetryAfter: 1}
		}
		m := control(answer)
		if m.kind == "Error" {
			return m.failure()
		}
		if m.kind != "Success" { // which answers the token alone: the status of HTTP says as much
			s.give(answer)
		}
		if m.kind == want {
			return nil
		}
	}
}

// subscribeOf is the subscribe message that a query and Last-Event-ID ask for. Values are
// passed on as they are: the stream knows what it takes.
func subscribeOf(q *request) ([]byte, *wire.Failure) {
	b := append([]byte(nil), `{"action":"subscribe"`...)
	some := false
	for _, channel := range [...]string{"trades", "quotes", "order_book", "status", "summary", "bars"} {
		text := q.params.get(channel)
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
		if text := q.params.get(name); text != "" {
			b = append(wire.AppendString(append(b, ','), name), ':')
			b = wire.AppendString(b, text)
		}
	}
	var f *wire.Failure
	if b, f = q.appendPlain(b); f != nil {
		return nil, f
	}
	if b, f = q.appendSince(b); f != nil {
		return nil, f
	}
	return append(b, '}'), nil
}

// appendPlain appends what is no string in a subscribe.
func (q *request) appendPlain(b []byte) ([]byte, *wire.Failure) {
	switch depth := q.params.get("depth"); depth {
	case "":
	case "0", "1", "5", "10", "25":
		b = append(append(b, `,"depth":`...), depth...)
	default:
		return nil, wire.NewFailure(wire.BadField, "depth", "must be 1, 5, 10, 25 or 0 (all)")
	}
	for _, name := range [...]string{"snapshot", "alive"} {
		text := q.params.get(name)
		// A client of JSON lines has no comments to hear that all is well from.
		if name == "alive" && text == "" && q.media == mediaLines {
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

// appendSince appends where the stream is to begin: after Last-Event-ID, which a client that
// lost its connection sends, or else from start.
func (q *request) appendSince(b []byte) ([]byte, *wire.Failure) {
	start := q.params.get("start")
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

// message is a control message of the stream, as far as it matters here.
type message struct {
	kind string
	body wire.Value
}

// control reads a message whose type is a word; of data, whose type is one letter, the zero
// message is returned.
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

// text is a member that is a string.
func (m *message) text(name string) string {
	v := m.body.Get(name)
	return v.Text
}

// failure is an Error of the stream as a failure of the request.
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
