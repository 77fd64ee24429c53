package client_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/client"
)

// TestPingsScript checks that pings of a gateway that reads nothing cost no memory: one pong
// answers all that came before it.
func TestPingsScript(t *testing.T) {
	const pings = 10_000
	pongs := 0
	f := &fake{scripts: []func(*fakeConn){func(c *fakeConn) {
		c.begin()
		c.want(subscribe)
		c.send(accepted)
		for range pings {
			_ = c.Write(c.ctx, websocket.MessageText, []byte(`{"action":"ping"}`))
		}
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		for {
			_, data, err := c.Read(ctx)
			if err != nil {
				return
			}
			if strings.Contains(string(data), "pong") {
				pongs++
			}
		}
	}}}
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		change, ok := ev.(client.StateChange)
		return !ok || change.State != client.Waiting
	})
	if pongs == 0 || pongs > 10 {
		t.Errorf("%d pongs for %d pings", pongs, pings)
	}
}

// TestCaughtUpScript checks that a CaughtUp without a resume changes nothing.
func TestCaughtUpScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){func(c *fakeConn) {
		c.begin()
		c.want(subscribe)
		c.send(caughtUp, caughtUp, accepted, tradeText(1))
		c.drain()
	}}}
	var s seen
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		s.add(ev)
		return !s.has("trade 1")
	})
	if !s.has("live") {
		t.Errorf("%q", s.list)
	}
}

// TestNoticesScript checks that a flood of warnings waits for a program that is slow.
func TestNoticesScript(t *testing.T) {
	const most, warnings = 10, 200_000
	sent := 0
	f := &fake{queue: most, scripts: []func(*fakeConn){func(c *fakeConn) {
		c.begin()
		c.want(subscribe)
		c.send(accepted)
		for ; sent < warnings; sent++ {
			if c.Write(c.ctx, websocket.MessageText, []byte(`{"type":"Warning","code":1,"reason":"new","msg":"Again"}`)) != nil {
				return
			}
		}
	}}}
	play(t, f, client.Set{Trades: []string{ggal}}, func(c *client.Client, ev client.Event) bool {
		if _, ok := ev.(client.Notice); !ok {
			return true
		}
		time.Sleep(time.Minute)
		if n := c.Health().Queued; n > 80_000 {
			t.Errorf("%d events wait", n)
		}
		return false
	})
}

// pinged is a connection of a client that gets a ping of WebSocket with what it reads, once on is
// true.
type pinged struct {
	net.Conn
	on     *atomic.Bool
	closed func()
}

// Read implements net.Conn.
func (c *pinged) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:len(p)-2])
	if err == nil && c.on.Load() {
		n += copy(p[n:], "\x89\x00")
	}
	return n, err
}

// Close implements net.Conn.
func (c *pinged) Close() error {
	if c.on.Load() {
		c.closed()
	}
	return c.Conn.Close()
}

// TestLeaveScript leaves the loop while the client writes a pong of WebSocket that nobody reads.
func TestLeaveScript(t *testing.T) {
	var on atomic.Bool
	var left, ended time.Time
	var closed chan struct{}
	f := &fake{
		wrap: func(conn net.Conn) net.Conn {
			return &pinged{Conn: conn, on: &on, closed: sync.OnceFunc(func() {
				if ended.IsZero() {
					ended = time.Now()
					close(closed)
				}
			})}
		},
		scripts: []func(*fakeConn){func(c *fakeConn) {
			closed = make(chan struct{})
			c.begin()
			c.want(subscribe)
			c.send(accepted)
			time.Sleep(time.Second)
			on.Store(true)
			c.send(`{"action":"ping"}`)
			<-closed
		}},
	}
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		change, ok := ev.(client.StateChange)
		if !ok || change.State != client.Live {
			return true
		}
		time.Sleep(2 * time.Second)
		left = time.Now()
		return false
	})
	if took := ended.Sub(left); took != 0 {
		t.Errorf("the connection ended %v after the loop", took)
	}
}
