package client_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
)

// halved is a connection that reads the second trade in two parts: the first one together with the
// trade before it, and the second one when the program has that trade.
type halved struct {
	net.Conn
	got  <-chan struct{}
	rest []byte
}

// Read implements net.Conn.
func (h *halved) Read(p []byte) (int, error) {
	if h.rest != nil {
		<-h.got
		n := copy(p, h.rest)
		h.rest = h.rest[n:]
		if len(h.rest) == 0 {
			h.rest = nil
		}
		return n, nil
	}
	n, err := h.Conn.Read(p)
	if err != nil || !bytes.Contains(p[:n], []byte(`"N":1,`)) {
		return n, err
	}
	second := make([]byte, 4<<10)
	m, err := h.Conn.Read(second)
	h.rest = second[m/2 : m]
	return n + copy(p[n:], second[:m/2]), err
}

// TestPartOfFrame checks that a program gets an event although the connection has a part of the
// next message.
func TestPartOfFrame(t *testing.T) {
	got := make(chan struct{})
	f := &fake{
		scripts: []func(*fakeConn){func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(1), tradeText(2))
			c.drain()
		}},
		wrap: func(c net.Conn) net.Conn { return &halved{Conn: c, got: got} },
	}
	var s seen
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		s.add(ev)
		if ev, ok := ev.(*client.Trade); ok && ev.N == 1 {
			close(got)
		}
		return !s.has("trade 2")
	})
	if want := []string{"connecting", "authenticating", "syncing", "live", "trade 1", "trade 2"}; !slices.Equal(s.list, want) {
		t.Errorf("%q", s.list)
	}
}

// TestSlowProgram checks that a connection on which the client waits for the program does not count
// as silent, and that the program gets everything in order.
func TestSlowProgram(t *testing.T) {
	const trades = 300
	f := &fake{queue: 4, scripts: []func(*fakeConn){func(c *fakeConn) {
		c.begin()
		c.want(subscribe)
		c.send(accepted)
		for n := range trades {
			c.send(tradeText(n + 1))
		}
		c.drain()
	}}}
	var s seen
	want := []string{"connecting", "authenticating", "syncing", "live"}
	for n := range trades {
		want = append(want, fmt.Sprintf("trade %d", n+1))
	}
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		s.add(ev)
		if ev, ok := ev.(*client.Trade); ok && ev.N%100 == 1 {
			time.Sleep(time.Minute) // more than the times after which a connection is silent
		}
		return len(s.list) < len(want)
	})
	if !slices.Equal(s.list, want) {
		t.Errorf("%q", s.list)
	}
}
