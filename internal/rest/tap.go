package rest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ruedahq/rueda/internal/frame"
)

// tap is the client's end of a stream connection inside of the process: the client's side of
// RFC 6455 over a net.Pipe, in the little that two ends which know each other need of it. It
// belongs to one goroutine.
type tap struct {
	conn net.Conn
	buf  []byte // from at on: what was read and not given out
	at   int
	out  []byte
}

// tapBuffer is how much is read at once.
const tapBuffer = 32 << 10

func newTap(c net.Conn) *tap { return &tap{conn: c, buf: make([]byte, 0, tapBuffer)} }

// errTapClosed says that the server closed the stream in order.
var errTapClosed = errors.New("the stream was closed")

// errTapWaits says that no whole message has been read yet.
var errTapWaits = errors.New("no whole message yet")

// buffered is the next message that was read already, or errTapWaits. It is valid until the
// next call of read.
func (t *tap) buffered() ([]byte, error) {
	first, payload, size := frame.Split(t.buf[t.at:])
	t.at += size
	switch {
	case size == 0:
		return nil, errTapWaits
	case first == frame.Text:
		return payload, nil
	case first == frame.Close:
		return nil, errTapClosed
	}
	return nil, fmt.Errorf("read the stream: frame %#x was not agreed on", first)
}

// read takes more from the connection, up to a time; the zero Time: for as long as it takes.
func (t *tap) read(until time.Time) error {
	n := len(t.buf) - t.at
	if t.at > 0 {
		copy(t.buf, t.buf[t.at:])
	}
	t.buf, t.at = t.buf[:n], 0
	if n == cap(t.buf) {
		t.buf = append(t.buf, make([]byte, n)...)[:n]
	} else if n == 0 && cap(t.buf) > 4*tapBuffer {
		t.buf = make([]byte, 0, tapBuffer) // after a huge message
	}
	if err := t.conn.SetReadDeadline(until); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	n, err := t.conn.Read(t.buf[len(t.buf):cap(t.buf)])
	t.buf = t.buf[:len(t.buf)+n]
	if err != nil && n == 0 {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

// next is the next message, waited for up to a time.
func (t *tap) next(until time.Time) ([]byte, error) {
	for {
		msg, err := t.buffered()
		if !errors.Is(err, errTapWaits) {
			return msg, err
		}
		if err := t.read(until); err != nil {
			return nil, err
		}
	}
}

// send sends a message. Its mask is zero: nothing stands between the two ends that a mask
// could protect (RFC 6455, section 10.3).
func (t *tap) send(msg []byte, until time.Time) error {
	b := frame.AppendMasked(t.out[:0], frame.Text, 0, msg)
	t.out = b[:0]
	if err := t.conn.SetWriteDeadline(until); err != nil {
		return fmt.Errorf("write to the stream: %w", err)
	}
	if _, err := t.conn.Write(b); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("write to the stream: %w", err)
	}
	return nil
}
