package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// rawConn is the WebSocket connection of a raw client. It does not decode rows as JSON, because
// thousands of clients share the processors with the nodes.
type rawConn struct {
	net.Conn
	buf        []byte
	start, end int // buf[start:end] was received and is not yet returned
}

const (
	dialTime   = 5 * time.Second
	maxMessage = 4 << 20
)

var errProtocol = errors.New("invalid answer of the WebSocket server")

// dialRaw connects to the stream of an edge, from the address of a client. The connection is closed
// when ctx ends.
func dialRaw(ctx context.Context, number int, address string) (*rawConn, error) {
	conn, err := dialFrom(number)(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &rawConn{Conn: conn, buf: make([]byte, 8<<10)}
	if err := c.upgrade(address); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// upgrade sends the handshake and reads the answer.
func (c *rawConn) upgrade(address string) error {
	const end = "\r\n\r\n"
	if err := c.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", address)
	if err != nil {
		return err
	}
	for {
		if err := c.fill(); err != nil {
			return err
		}
		if i := bytes.Index(c.buf[:c.end], []byte(end)); i >= 0 {
			c.start = i + len(end)
			break
		}
	}
	if !bytes.HasPrefix(c.buf, []byte("HTTP/1.1 101 ")) {
		return fmt.Errorf("%w: %.40q", errProtocol, c.buf[:c.end])
	}
	return c.SetDeadline(time.Time{})
}

// fill reads from the connection into buf, which it enlarges up to maxMessage.
func (c *rawConn) fill() error {
	if c.start > 0 {
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	}
	if c.end == len(c.buf) {
		if c.end >= maxMessage {
			return fmt.Errorf("%w: longer than %d bytes", errProtocol, maxMessage)
		}
		c.buf = slices.Grow(c.buf, len(c.buf))[:2*len(c.buf)]
	}
	n, err := c.Read(c.buf[c.end:])
	c.end += n
	return err
}

// next returns the next text message, which is valid until the next call. It answers pings. The
// error is net.ErrClosed after a close frame, and errProtocol for another kind of frame.
func (c *rawConn) next() ([]byte, error) {
	for {
		first, payload, size := frame.Split(c.buf[c.start:c.end])
		if size == 0 {
			if err := c.fill(); err != nil {
				return nil, err
			}
			continue
		}
		c.start += size
		switch first {
		case frame.Text:
			return payload, nil
		case frame.Ping:
			if err := c.write(frame.Pong, payload); err != nil {
				return nil, err
			}
		case frame.Pong:
		case frame.Close:
			return nil, net.ErrClosed
		default:
			return nil, fmt.Errorf("%w: first byte %#x", errProtocol, first)
		}
	}
}

// send sends a message as JSON.
func (c *rawConn) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.write(frame.Text, text)
}

// write sends one masked frame.
func (c *rawConn) write(first byte, payload []byte) error {
	_, err := c.Write(frame.AppendMasked(nil, first, 0x1a2b3c4d, payload))
	return err
}

// rowOf returns the instrument identifier and the N of a trade, cancel or correction. ok is false
// for any other text.
func rowOf(text []byte) (id []byte, n uint64, ok bool) {
	const head, idKey, numberKey = `{"type":"`, `"I":"`, `","N":`
	rest, ok := bytes.CutPrefix(text, []byte(head))
	if !ok || len(rest) < 3 || bytes.IndexByte([]byte("TXC"), rest[0]) < 0 || string(rest[1:3]) != `",` {
		return nil, 0, false
	}
	if _, rest, ok = bytes.Cut(rest, []byte(idKey)); !ok {
		return nil, 0, false
	}
	if id, rest, ok = bytes.Cut(rest, []byte(numberKey)); !ok {
		return nil, 0, false
	}
	digits := bytes.IndexAny(rest, ",}")
	if digits < 0 {
		return nil, 0, false
	}
	n, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	return id, n, err == nil
}
