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
	// commentInterval is the longest silence of an event stream. Proxies close connections that are
	// silent for longer.
	commentInterval = 15 * time.Second

	// writeTimeout is how long a client may accept no data.
	writeTimeout = 30 * time.Second

	// sendBuffer bounds the data that the kernel holds for a client of the stream, so that it does
	// not hide a backlog; as on a socket.
	sendBuffer = 64 << 10

	// reconnectMillis is when a client reconnects after it lost its connection, in milliseconds.
	reconnectMillis = 3000
)

// sseWriter turns the frames of a session into server-sent events, or JSON lines. It holds back the
// last event of a piece of output, because its position may follow.
type sseWriter struct {
	conn   *socket.LocalConn
	lines  bool
	last   time.Time // of the last write
	frames []byte    // not read yet
	ended  bool      // the session is over
	pinged bool      // by the session; a pong is due

	out       []byte // to write
	held      []byte // event that waits for its id; its memory is reused
	holding   bool
	retrySent bool
}

// run writes the stream to the client of q until either ends, and returns the number of bytes.
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
		// The pong waits for the write, so that a client that accepts nothing counts as
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

// next returns the next message of the frames that were received, or nil if there is none.
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

// receive waits for frames of the session until a time.
func (s *sseWriter) receive(ctx context.Context, until time.Time) (err error) {
	s.frames, err = s.conn.Next(ctx, until)
	return err
}

// addFrames adds the frames that were received to the output.
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

// add adds a message to the output.
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

// addPosition adds the position of the stream after the messages that were added.
func (s *sseWriter) addPosition(position string) {
	switch {
	case s.lines:
	case s.holding:
		s.release(position)
	default: // clients keep an id without data, and see no event
		s.out = append(appendID(s.out, position), '\n')
	}
}

// release adds the event that was held back, with its id if that is known.
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

// comment adds an empty comment, which keeps the connection open. JSON lines have no comments;
// Alive marks replace them.
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

// whole returns a whole number that is not negative, or 0 for any other text.
func whole(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// writeFlush writes and flushes b within writeTimeout.
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

// limitSendBuffer bounds the data that the kernel holds for the client of c, if c supports that.
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
