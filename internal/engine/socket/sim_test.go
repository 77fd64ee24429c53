package socket

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestReset checks that a connection is reset at the request of its client: the answer arrives, and
// then the peer's TCP reports the reset, on every transport.
func TestReset(t *testing.T) {
	forAllTransports(t, func(t *testing.T, tr transport) {
		s := openServer(t, tr, func(c *Config) {
			c.Env.Fault = func(string, market.InstrumentID) (string, *wire.Fault) { return "", nil }
		})
		c := s.connect("")
		c.auth("ana")
		c.send(`{"action":"sim","fault":"disconnect","id":1}`)
		c.want(`"type":"Sim"`, `"fault":"disconnect"`)
		_, payload, err := c.next()
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q, %v", payload, err)
		}
		waitFor(t, "the connection's end", func() bool { return s.Stats().Open == 0 })
	})
}

// TestResetBehindFullSocket resets a connection whose client reads nothing.
func TestResetBehindFullSocket(t *testing.T) {
	forAllTransports(t, func(t *testing.T, tr transport) {
		s := openServer(t, tr, func(c *Config) {
			c.Env.Fault = func(string, market.InstrumentID) (string, *wire.Fault) { return "", nil }
			c.Env.Burst, c.Env.Refusals = 1<<20, 1<<20
		})
		c := s.connect("")
		c.auth("ana")
		c.send(`{"action":"sim","fault":"disconnect","id":1}`)
		id := strings.Repeat("x", 36)
		var err error
		for i := 0; i < 2000 && err == nil; i++ { // unread answers
			_, err = io.WriteString(c.nc, frame(opText, `{"action":"subscriptions","id":"`+id+`"}`))
		}
		waitFor(t, "the connection's end", func() bool { return s.Stats().Open == 0 && s.Stats().PendingBytes == 0 })
		// The kernel reports a reset once. If this machine was slow, a write has got it already.
		if err == nil {
			_, err = io.Copy(io.Discard, c.r)
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("ended with %v, want a reset", err)
		}
	})
}

// lingerConn is a connection that records whether it was closed before SetLinger.
type lingerConn struct {
	net.Conn
	closed atomic.Bool
	linger atomic.Bool
}

func (c *lingerConn) SetNoDelay(bool) error    { return nil }
func (c *lingerConn) SetWriteBuffer(int) error { return nil }
func (c *lingerConn) CloseWrite() error        { return nil }

func (c *lingerConn) SetLinger(int) error {
	synctest.Wait() // a reader that may close it now does so
	c.linger.Store(!c.closed.Load())
	return nil
}

func (c *lingerConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// TestResetBeforeReaderCloses resets a connection whose reader waits for the shard: the reader
// closes the socket only after the reset was requested of the kernel, and not in order.
func TestResetBeforeReaderCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		near, far := net.Pipe()
		defer far.Close()
		nc := &lingerConn{Conn: near}
		p := newNetConn(&conn{shard: s.shards[0]}, nc, []byte("input that the shard has not used"))
		p.start(0)
		synctest.Wait()
		p.release(true)
		s.goroutines.Wait()
		if !nc.linger.Load() {
			t.Error("the reader closed the connection in order")
		}
	})
}
