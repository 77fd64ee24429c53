// Package stream is a client of a gateway for black-box tests: a WebSocket by hand, the messages of
// the protocol, and the REST routes that tests need. It shares no code with the gateway.
package stream

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"
)

// Socket is one connection to /stream. One goroutine may read while others write.
type Socket struct {
	conn  net.Conn
	r     *bufio.Reader
	batch bool
	queue []json.RawMessage // of a batch

	mu sync.Mutex // of writes
}

// Closed is the error of a connection that the gateway closed.
type Closed struct {
	Code   int
	Reason string
}

func (c *Closed) Error() string { return fmt.Sprintf("closed: %d %s", c.Code, c.Reason) }

// ErrProtocol is wrapped by errors about frames that violate RFC 6455 or the contract.
var ErrProtocol = errors.New("violation of the protocol")

// Options are those of a connection.
type Options struct {
	Batch  bool // rueda.v1.json.batch
	Buffer int  // receive buffer of the kernel in bytes; 0 is that of the system
}

// Dial connects to /stream of an address such as 127.0.0.1:8080.
func Dial(ctx context.Context, address string, o Options) (*Socket, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && o.Buffer != 0 {
		_ = tcp.SetReadBuffer(o.Buffer)
	}
	s := &Socket{conn: conn, r: bufio.NewReader(conn), batch: o.Batch}
	if err := s.handshake(address); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *Socket) handshake(address string) error {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	protocol := ""
	if s.batch {
		protocol = "Sec-WebSocket-Protocol: rueda.v1.json.batch\r\n"
	}
	_ = s.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(s.conn, "GET /stream HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s\r\n", address, key, protocol); err != nil {
		return err
	}
	answer, err := http.ReadResponse(s.r, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return &Refused{Status: answer.StatusCode, Reason: reason(answer.Body)}
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if answer.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		return fmt.Errorf("%w: Sec-WebSocket-Accept", ErrProtocol)
	}
	return s.conn.SetDeadline(time.Time{})
}

// Close ends the connection without a close frame.
func (s *Socket) Close() { _ = s.conn.Close() }

// Send sends one text message.
func (s *Socket) Send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return s.write(1, text)
}

func (s *Socket) write(opcode byte, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	frame := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:])
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := s.conn.Write(frame)
	return err
}

// Read returns the next message. The error is a *[Closed] if the gateway closed the connection, and
// wraps [ErrProtocol] if it broke a rule. A deadline that has passed is a net.Error with Timeout.
func (s *Socket) Read(deadline time.Time) (*Message, error) {
	_ = s.conn.SetReadDeadline(deadline)
	for len(s.queue) == 0 {
		// A timeout must not end a frame in the middle: only its first byte waits for the deadline.
		if _, err := s.r.Peek(2); err != nil {
			return nil, err
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if err := s.frame(); err != nil {
			return nil, err
		}
		_ = s.conn.SetReadDeadline(deadline)
	}
	text := s.queue[0]
	s.queue = s.queue[1:]
	m := &Message{Text: text}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", ErrProtocol, err, text)
	}
	return m, nil
}

// frame reads one frame, answers a ping, and puts messages into the queue.
func (s *Socket) frame() error {
	head := make([]byte, 2)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return broken(err)
	}
	size := uint64(head[1] & 0x7f)
	long := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
	if _, err := io.ReadFull(s.r, long); err != nil {
		return broken(err)
	}
	switch len(long) {
	case 2:
		size = uint64(binary.BigEndian.Uint16(long))
	case 8:
		size = binary.BigEndian.Uint64(long)
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 || size > 4<<20 {
		return fmt.Errorf("%w: frame % x of %d bytes", ErrProtocol, head, size)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(s.r, payload); err != nil {
		return broken(err)
	}
	switch head[0] & 0xf {
	case 1:
		if !utf8.Valid(payload) {
			return fmt.Errorf("%w: a text that is not UTF-8", ErrProtocol)
		}
		if !s.batch {
			s.queue = append(s.queue, payload)
			return nil
		}
		if err := json.Unmarshal(payload, &s.queue); err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return nil
	case 8:
		c := &Closed{}
		if len(payload) >= 2 {
			c.Code, c.Reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
		_ = s.write(8, payload)
		return c
	case 9:
		return s.write(10, payload)
	case 10:
		return nil
	}
	return fmt.Errorf("%w: opcode %d", ErrProtocol, head[0]&0xf)
}

// broken is the error of a connection that ended inside of a frame.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("inside of a frame: %v", err) // a timeout here ends the connection too
}
