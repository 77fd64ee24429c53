package sse

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/wire"
)

const (
	// commentInterval is the longest time without output in an event stream. After longer silence,
	// proxies close a connection.
	commentInterval = 15 * time.Second

	// writeTimeout bounds how long a write to the client may take.
	writeTimeout = 30 * time.Second

	// sendBuffer limits how many bytes the kernel holds for a client, as on a WebSocket. A larger
	// buffer would hide that a client is slow.
	sendBuffer = 64 << 10

	// reconnectMillis is how many milliseconds a client waits before it connects again.
	reconnectMillis = 3000
)

// sseWriter converts the frames of a session to server-sent events or JSON lines. It holds back the
// last event until it knows whether a position follows, which becomes the id of the event.
type sseWriter struct {
	conn   *socket.LocalConn
	lines  bool
	last   time.Time // of the last write
	frames []byte    // received and not converted yet
	ended  bool      // the session is over
	pinged bool      // the session has sent a ping, and a pong is due

	out       []byte // converted and not written yet
	held      []byte // event that waits for its id; its memory is reused
	holding   bool
	retrySent bool
}

// run writes the stream to the client of q until the session or the connection ends. It returns how
// many bytes it wrote.
func (s *sseWriter) run(w http.ResponseWriter, q *api.Request) (written int64) {
	if q.Method == http.MethodHead {
		return 0
	}
	limitSendBuffer(q.Conn, sendBuffer)
	out := http.NewResponseController(w)
	// Without this, the deadline for reading a request would end the stream.
	if err := out.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0
	}
	for {
		s.addFrames()
		if len(s.out) > 0 {
			n, err := writeFlush(w, out, s.out)
			written += int64(n)
			if err != nil {
				return written
			}
			s.out, s.last = s.out[:0], time.Now()
		}
		if s.ended {
			return written
		}
		// Send the pong only after the write, so that a client that accepts no data counts as
		// disconnected.
		if s.pinged {
			s.pinged = false
			s.conn.Send([]byte(`{"action":"pong"}`))
		}
		switch err := s.receive(q.Context(), s.last.Add(commentInterval)); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.last = time.Now()
			s.comment()
		case err != nil:
			return written
		}
	}
}

// next returns the next message in the frames that were received, or nil after the last one. A
// close frame ends the session.
func (s *sseWriter) next() []byte {
	first, payload, size := frame.Split(s.frames)
	if size == 0 || first != frame.Text { // otherwise a close frame, which is the last one
		s.ended = s.ended || size > 0
		s.frames = nil
		return nil
	}
	s.frames = s.frames[size:]
	return payload
}

// receive waits for frames of the session. The error is os.ErrDeadlineExceeded if there are none
// until that time.
func (s *sseWriter) receive(ctx context.Context, until time.Time) (err error) {
	s.frames, err = s.conn.Next(ctx, until)
	return err
}

// addFrames converts the received frames and appends them to the output.
func (s *sseWriter) addFrames() {
	for msg := s.next(); msg != nil; msg = s.next() {
		if string(msg) == wire.Ping {
			s.pinged = true
			s.release("")
			s.comment()
			continue
		}
		s.add(msg)
	}
	s.release("")
}

// add appends a message to the output, or holds it back as the newest event.
func (s *sseWriter) add(payload []byte) {
	m := control(payload)
	switch {
	case m.kind == wire.PositionType:
		s.addPosition(m.text("position"))
		return
	case s.lines:
		s.out = append(append(s.out, payload...), '\n')
		return
	}
	s.release("")
	switch {
	case !s.retrySent:
		s.retrySent = true
		s.out = appendRetry(s.out, reconnectMillis)
	case m.text("reason") == string(wire.ShuttingDown):
		v := m.body.Get("reconnect_in_ms")
		s.out = appendRetry(s.out, whole(v.Text))
	}
	s.held, s.holding = append(s.held[:0], payload...), true
	if position := m.text("position"); position != "" {
		s.release(position)
	}
}

// addPosition makes position the id of the newest event.
func (s *sseWriter) addPosition(position string) {
	switch {
	case s.lines:
	case s.holding:
		s.release(position)
	default: // clients keep an id without data, and see no event
		s.out = append(appendID(s.out, position), '\n')
	}
}

// release appends the event that was held back to the output. Its id is position, unless that is
// empty.
func (s *sseWriter) release(position string) {
	if !s.holding {
		return
	}
	s.holding = false
	if position != "" {
		s.out = appendID(s.out, position)
	}
	// A message is one line: its JSON has no line break.
	s.out = append(append(append(s.out, "data: "...), s.held...), "\n\n"...)
}

// comment appends an empty comment to the output, so that proxies keep the connection open. JSON
// lines have no comments; Alive messages have this effect there.
func (s *sseWriter) comment() {
	if !s.lines {
		s.out = append(s.out, ":\n\n"...)
	}
}

func appendID(b []byte, position string) []byte {
	return append(append(append(b, "id: "...), position...), '\n')
}

func appendRetry(b []byte, ms int) []byte {
	return append(strconv.AppendInt(append(b, "retry: "...), int64(ms), 10), '\n')
}

// whole parses a whole number below 2^31. It returns 0 for any other text.
func whole(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// writeFlush writes and flushes b with a time limit of writeTimeout.
func writeFlush(w io.Writer, out *http.ResponseController, b []byte) (int, error) {
	if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := w.Write(b)
	if err == nil {
		err = out.Flush()
	}
	return n, err
}

// limitSendBuffer limits how many bytes the kernel holds for the client of c, if the connection
// supports this.
func limitSendBuffer(c net.Conn, size int) {
	for c != nil {
		switch under := c.(type) {
		case interface{ SetWriteBuffer(int) error }:
			_ = under.SetWriteBuffer(size) // fails if the connection is closed
			return
		case interface{ NetConn() net.Conn }:
			c = under.NetConn()
		default:
			return
		}
	}
}

// message is a control message of the session. The zero message stands for a message with data.
type message struct {
	kind string
	body wire.Value
}

// control parses a control message. It returns the zero message for a message with data, whose type
// has a single letter.
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

// text returns the string in a member, or "" without one.
func (m *message) text(name string) string {
	v := m.body.Get(name)
	return v.Text
}

// failure converts an Error message of the session to a failure of the request.
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
