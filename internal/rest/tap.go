package rest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
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

// maxTapFrame bounds a frame of the server's own: the deepest book as one message is the largest.
const maxTapFrame = 64 << 20

func newTap(c net.Conn) *tap { return &tap{conn: c, buf: make([]byte, 0, tapBuffer)} }

// errTapClosed says that the server closed the stream in order.
var errTapClosed = errors.New("the stream was closed")

// errTapWaits says that no whole message has been read yet.
var errTapWaits = errors.New("no whole message yet")

// Opcodes of RFC 6455, section 5.2, with the bit of a last fragment.
const (
	tapText  = 0x81
	tapClose = 0x88
)

// buffered is the next message that was read already, or errTapWaits. It is valid until the
// next call of read.
func (t *tap) buffered() ([]byte, error) {
	b := t.buf[t.at:]
	if len(b) < 2 {
		return nil, errTapWaits
	}
	head, n := 2, int(b[1])
	switch {
	case n == 126 && len(b) >= 4:
		head, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	case n == 127 && len(b) >= 10:
		size := binary.BigEndian.Uint64(b[2:])
		if size > maxTapFrame {
			return nil, fmt.Errorf("read the stream: a message of %d bytes", size)
		}
		head, n = 10, int(size)
	case n >= 126:
		return nil, errTapWaits
	}
	if len(b) < head+n {
		return nil, errTapWaits
	}
	switch b[0] {
	case tapText:
		t.at += head + n
		return b[head : head+n], nil
	case tapClose:
		return nil, errTapClosed
	}
	return nil, fmt.Errorf("read the stream: frame %#x was not agreed on", b[0])
}

// read takes more from the connection, up to a time; the zero Time: for as long as it takes.
func (t *tap) read(until time.Time) error {
	n := copy(t.buf[:cap(t.buf)], t.buf[t.at:])
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
	b := append(t.out[:0], tapText)
	switch n := len(msg); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	b = append(b, 0, 0, 0, 0)
	b = append(b, msg...)
	t.out = b[:0]
	if err := t.conn.SetWriteDeadline(until); err != nil {
		return fmt.Errorf("write to the stream: %w", err)
	}
	if _, err := t.conn.Write(b); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("write to the stream: %w", err)
	}
	return nil
}
