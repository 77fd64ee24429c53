// Package readahead reads the messages of a network connection in large pieces: from the network to
// a buffer, and from there to blocks of memory that many messages share.
package readahead

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"time"
)

const (
	bufferSize = 64 << 10 // bytes that are read from the network at once
	blockSize  = 16 << 10 // bytes of messages that are allocated together
	minFree    = 512      // bytes at the end of a block that are used
)

// DialFunc opens a network connection.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Conn is a network connection with a buffer for what it receives.
type Conn struct {
	net.Conn
	Empty func()    // called by Read before it waits for the network; nil: nothing
	At    time.Time // when the newest bytes arrived, for the goroutine that reads

	r *bufio.Reader
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.r.Buffered() > 0 {
		return c.r.Read(p)
	}
	if c.Empty != nil {
		c.Empty()
	}
	n, err := c.r.Read(p)
	c.At = time.Now()
	return n, err
}

// Dialer returns a function that opens connections as dial does, each as a *Conn.
func Dialer(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &Conn{Conn: conn, r: bufio.NewReaderSize(conn, bufferSize)}, nil
	}
}

// Of returns the Conn below a connection, perhaps with TLS between; nil: there is none.
func Of(conn net.Conn) *Conn {
	for {
		switch c := conn.(type) {
		case *Conn:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// Blocks has the free part of a block of memory. The zero Blocks is ready to use. A copy that is
// taken after Free, and stored back later, gives up what was read meanwhile.
type Blocks struct{ free []byte }

// Message reads a message to its end. It is a part of a block, or has an array of its own, and
// nothing overwrites it later.
func (b *Blocks) Message(r io.Reader) ([]byte, error) {
	data := b.Free(minFree)
	for {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, max(blockSize, 2*cap(data))), data...)
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF { // one that is wrapped is of the connection
			return b.Use(data), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Free returns an empty slice with space for n bytes or more. What is appended to it stays when Use
// gets it.
func (b *Blocks) Free(n int) []byte {
	if cap(b.free) < n {
		b.free = make([]byte, 0, max(blockSize, n))
	}
	return b.free
}

// Use returns what was appended to the result of Free, without space after it.
func (b *Blocks) Use(data []byte) []byte {
	if b.free = nil; cap(data) <= blockSize {
		b.free = data[len(data):]
	}
	return slices.Clip(data)
}
