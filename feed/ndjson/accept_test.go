package ndjson

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// nameless is a listener of one connection whose getpeername failed; then it ends the context.
type nameless struct {
	net.Listener
	conn net.Conn
	end  context.CancelFunc
}

func (l *nameless) Accept() (net.Conn, error) {
	c := l.conn
	if l.conn = nil; c == nil {
		l.end()
		return nil, net.ErrClosed
	}
	return c, nil
}

type noAddress struct{ net.Conn }

func (noAddress) RemoteAddr() net.Addr { return nil }

// TestProducerWithoutAddress closes a connection that was reset before it was accepted, and goes on.
func TestProducerWithoutAddress(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var owned sync.WaitGroup
	if err := s.accept(ctx, &nameless{conn: noAddress{far}, end: cancel}, nil, &owned); !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if n := s.Stats().Producers; n != 0 {
		t.Errorf("%d producers", n)
	}
	owned.Wait()
}
