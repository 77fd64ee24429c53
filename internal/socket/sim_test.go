package socket

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

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
		for range 2000 { // unread answers
			if _, err := c.nc.Write([]byte(frame(opText, `{"action":"subscriptions","id":"`+id+`"}`))); err != nil {
				break
			}
		}
		waitFor(t, "the connection's end", func() bool { return s.Stats().Open == 0 && s.Stats().PendingBytes == 0 })
		if _, err := io.Copy(io.Discard, c.r); err == nil {
			t.Error("it ended in order")
		}
	})
}
