package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/wire"
)

const (
	// commentEvery is how long an event stream is silent at most: proxies cut what is for longer.
	commentEvery = 15 * time.Second

	// writeWait is how long a client may take nothing at all.
	writeWait = 30 * time.Second

	// sendBuffer is what the kernel may hold for a client of the stream, so that it does not hide
	// how far behind the client is; as on a socket.
	sendBuffer = 64 << 10

	// retryFirst is when a client whose connection is lost is to come back, in milliseconds.
	retryFirst = 3000
)

// follower turns what comes by a tap into events, or lines. It holds one message back while
// more are at hand, to know whether its position comes behind it.
type follower struct {
	tap    *tap
	lines  bool
	last   time.Time // something was written
	pinged bool      // by the stream; a pong is owed

	out   []byte // to be written
	held  []byte // an event that waits for its id; its memory is reused
	holds bool
	told  bool // retry was
}

// give takes a message of the stream.
func (s *follower) give(payload []byte) {
	m := control(payload)
	switch {
	case m.kind == wire.PositionType:
		s.mark(m.text("position"))
		return
	case s.lines:
		s.out = append(append(s.out, payload...), '\n')
		return
	}
	s.release("")
	switch {
	case !s.told:
		s.told = true
		s.out = appendRetry(s.out, retryFirst)
	case m.text("reason") == string(wire.ShuttingDown):
		v := m.body.Get("reconnect_in_ms")
		s.out = appendRetry(s.out, whole(v.Text))
	}
	s.held, s.holds = append(s.held[:0], payload...), true
	if place := m.text("position"); place != "" {
		s.release(place)
	}
}

// mark takes the position that the stream has after what was given.
func (s *follower) mark(place string) {
	switch {
	case s.lines:
	case s.holds:
		s.release(place)
	default: // an id without data is taken note of, and is no event
		s.out = append(appendID(s.out, place), '\n')
	}
}

// release lets the message go that was held back.
func (s *follower) release(place string) {
	if !s.holds {
		return
	}
	s.holds = false
	if place != "" {
		s.out = appendID(s.out, place)
	}
	// A message is one line: JSON has no line break in it.
	s.out = append(append(append(s.out, "data: "...), s.held...), "\n\n"...)
}

func appendID(b []byte, place string) []byte {
	return append(append(append(b, "id: "...), place...), '\n')
}

func appendRetry(b []byte, ms int) []byte {
	return append(strconv.AppendInt(append(b, "retry: "...), int64(ms), 10), '\n')
}

// whole is a whole number that is not negative; 0 where the text is none.
func whole(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// feed writes the stream to a client until either ends, and returns how much it wrote.
func (h *Handler) feed(w http.ResponseWriter, q *request, s *follower) (written int64) {
	defer func() { _ = s.tap.conn.Close() }() // an end of a pipe closes without fail
	if q.Method == http.MethodHead {
		return 0
	}
	stop := context.AfterFunc(q.Context(), func() { _ = s.tap.conn.Close() })
	defer stop()
	q.narrow()
	out := http.NewResponseController(w)
	// The server's time for reading a request would end this one, which goes on.
	if err := out.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0
	}
	for {
		ended := s.collect()
		if len(s.out) > 0 {
			n, err := writeSoon(w, out, s.out)
			written += int64(n)
			if err != nil {
				return written
			}
			s.out, s.last = s.out[:0], time.Now()
		}
		if ended != nil {
			return written
		}
		// A ping of the stream is answered once the client has taken something: who takes
		// nothing at all does not seem to be there.
		if s.pinged {
			s.pinged = false
			if s.tap.send([]byte(`{"action":"pong"}`), time.Now().Add(answerWait)) != nil {
				return written
			}
		}
	}
}

// writeSoon writes and flushes within writeWait.
func writeSoon(w io.Writer, out *http.ResponseController, b []byte) (int, error) {
	if err := out.SetWriteDeadline(time.Now().Add(writeWait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := w.Write(b)
	if err == nil {
		err = out.Flush()
	}
	return n, err
}

// collect takes what the stream has, waiting for it if need be. An error is its end; there may be
// something to write all the same.
func (s *follower) collect() error {
	for {
		msg, err := s.tap.buffered()
		switch {
		case errors.Is(err, errTapWaits):
			s.release("")
			if len(s.out) > 0 {
				return nil
			}
			if err := s.wait(); err != nil || len(s.out) > 0 {
				return err
			}
		case err != nil:
			s.release("")
			return err
		case string(msg) == wire.Ping:
			s.pinged = true
			s.release("")
			s.comment()
			return nil
		default:
			if s.give(msg); len(s.out) >= sendBuffer {
				return nil
			}
		}
	}
}

// wait reads from the stream. After a silence there is a comment to write.
func (s *follower) wait() error {
	err := s.tap.read(s.last.Add(commentEvery))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.last = time.Now()
		s.comment()
		return nil
	}
	return err
}

// comment says nothing, to keep the connection open. JSON lines have no comments: there, Alive
// marks do that.
func (s *follower) comment() {
	if !s.lines {
		s.out = append(s.out, ":\n\n"...)
	}
}

// narrow bounds what the kernel takes for a client, where the connection is one that can.
func (q *request) narrow() {
	c, _ := q.Context().Value(connKey{}).(net.Conn)
	for c != nil {
		switch under := c.(type) {
		case *conn:
			c = under.Conn
		case interface{ SetWriteBuffer(int) error }:
			_ = under.SetWriteBuffer(sendBuffer) // fails where the connection is gone
			return
		case interface{ NetConn() net.Conn }:
			c = under.NetConn()
		default:
			return
		}
	}
}
