package rest

import (
	"errors"
	"log/slog"
	"net"
	"testing"
)

// scripted is a listener that gives what a test has put into it.
type scripted struct {
	net.Listener
	next []func() (net.Conn, error)
}

func (l *scripted) Accept() (net.Conn, error) {
	if len(l.next) == 0 {
		return nil, net.ErrClosed
	}
	f := l.next[0]
	l.next = l.next[1:]
	return f()
}

// anonymous is a connection whose getpeername failed.
type anonymous struct{ visitor }

func (*anonymous) RemoteAddr() net.Addr { return nil }

// TestNoAddress closes connections that have no address, and goes on.
func TestNoAddress(t *testing.T) {
	gone, here := new(anonymous), &visitor{from: "192.0.2.1:80"}
	give := func(c net.Conn) func() (net.Conn, error) {
		return func() (net.Conn, error) { return c, nil }
	}
	l := listener{Listener: &scripted{next: []func() (net.Conn, error){give(gone), give(here)}}, log: slog.New(slog.DiscardHandler)}
	c, err := l.Accept()
	if err != nil || c.RemoteAddr().String() != here.from {
		t.Fatalf("accepted %v, %v", c, err)
	}
	if !gone.closed || here.closed {
		t.Errorf("closed: %v without an address, %v with one", gone.closed, here.closed)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the last: %v", err)
	}
}
