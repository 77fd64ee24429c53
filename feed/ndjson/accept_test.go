package ndjson

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// nameless is a listener of one connection whose getpeername fails. It then ends the context.
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

// TestProducerWithoutAddress checks that a connection that was reset before it was accepted is
// closed and that the source continues.
func TestProducerWithoutAddress(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Anonymous: true})
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

// exhausted is a listener whose Accept fails a number of times. It then ends the context.
type exhausted struct {
	net.Listener
	errno syscall.Errno
	left  int
	end   context.CancelFunc
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left--; l.left < 0 {
		l.end()
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.errno)}
}

// TestAcceptFails makes Accept fail for a minute for lack of resources. The source continues after
// it and logs once a second.
func TestAcceptFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s, err := New(Config{Listen: "127.0.0.1:0", Anonymous: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			var owned sync.WaitGroup
			l := &exhausted{errno: errno, left: 600, end: cancel}
			if err := s.accept(ctx, l, nil, &owned); !errors.Is(err, context.Canceled) || l.left != -1 {
				t.Errorf("%v: accept ended with %v, %d failures were left", errno, err, l.left)
			}
			if took, n := time.Since(begin), strings.Count(log.String(), "\n"); took != time.Minute || n != 60 {
				t.Errorf("%v: %v, %d lines in the log", errno, took, n)
			}
		})
	}
}
