package witness

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// Conn is a client's connection to the stream. One goroutine reads, and any may write.
type Conn struct {
	nc   net.Conn
	in   *bufio.Reader
	head [headSize]byte

	mu sync.Mutex // of writes
}

// headSize is the most that Next returns of a payload: enough to recognize a message.
const headSize = 256

// dialTimeout bounds the handshake.
const dialTimeout = 10 * time.Second

// Dial connects with an access token.
func Dial(ctx context.Context, address, token string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Conn{nc: nc, in: bufio.NewReaderSize(nc, 64<<10)}
	if err := c.upgrade(address, token); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return c, nil
}

func (c *Conn) upgrade(address, token string) error {
	if err := c.nc.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	request := "GET /stream HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: Bearer " + token +
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if err := c.Write([]byte(request)); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close() // there is none after a handshake
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("answered %s", res.Status)
	}
	return c.nc.SetDeadline(time.Time{})
}

// Write writes masked frames.
func (c *Conn) Write(frames []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.nc.Write(frames)
	return err
}

// Next reads a frame and returns its first byte and the beginning of its payload, which is valid
// until the next call. It answers pings of the protocol.
func (c *Conn) Next() (first byte, start []byte, err error) {
	for {
		first, start, err = c.frame()
		if err != nil || first != frame.Text || string(start) != `{"action":"ping"}` {
			return first, start, err
		}
		if err := c.Write(Text(`{"action":"pong"}`)); err != nil {
			return 0, nil, err
		}
	}
}

func (c *Conn) frame() (first byte, start []byte, err error) {
	head, err := c.in.Peek(2)
	if err != nil {
		return 0, nil, err
	}
	first, size := head[0], int(head[1])
	skip := 2
	switch size {
	case 126:
		if head, err = c.in.Peek(4); err != nil {
			return 0, nil, err
		}
		size, skip = int(binary.BigEndian.Uint16(head[2:])), 4
	case 127:
		if head, err = c.in.Peek(frame.MaxHead); err != nil {
			return 0, nil, err
		}
		size, skip = int(binary.BigEndian.Uint64(head[2:])), frame.MaxHead
	}
	if _, err := c.in.Discard(skip); err != nil {
		return 0, nil, err
	}
	payload, err := c.in.Peek(min(size, headSize))
	if err != nil {
		return 0, nil, err
	}
	start = c.head[:copy(c.head[:], payload)]
	_, err = c.in.Discard(size)
	return first, start, err
}

// Close closes the socket.
func (c *Conn) Close() error { return c.nc.Close() }

// Text returns the frame of a text message.
func Text(message string) []byte { return frame.AppendMasked(nil, frame.Text, 0, []byte(message)) }
