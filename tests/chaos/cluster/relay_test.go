//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// TestRelay requires that each mode holds what it names, and passes on the rest. What was held
// comes later.
func TestRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := NewRelay(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	node, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	comes := func(to net.Conn, limit time.Duration) bool {
		_ = to.SetReadDeadline(time.Now().Add(limit))
		n, _ := to.Read(make([]byte, 1))
		return n == 1
	}
	for mode, held := range map[Mode]struct{ up, down bool }{Pass: {}, Hold: {true, true}, HoldUp: {up: true}, HoldDown: {down: true}} {
		r.Set(mode)
		for _, x := range []struct {
			from, to net.Conn
			held     bool
		}{{node, server, held.up}, {server, node, held.down}} {
			if _, err := fmt.Fprint(x.from, "x"); err != nil {
				t.Fatal(err)
			}
			limit := 10 * time.Second
			if x.held {
				limit = 100 * time.Millisecond
			}
			if comes(x.to, limit) == x.held {
				t.Errorf("mode %d: held is %v", mode, !x.held)
			}
		}
		r.Set(Pass)
		if held.up && !comes(server, 10*time.Second) || held.down && !comes(node, 10*time.Second) {
			t.Errorf("mode %d: what was held has not come", mode)
		}
	}
	r.Set(Refuse)
	for _, c := range []net.Conn{node, server} {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a refused connection is open: %v", err)
		}
	}
}
