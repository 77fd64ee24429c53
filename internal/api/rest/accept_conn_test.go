package rest

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a listener that returns prepared results.
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

// TestNoAddress checks that a connection without an address is closed and the listener continues.
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

// TestAcceptErrors has accept fail for a minute with each temporary error. The listener retries ten
// times a second and logs once a second. A permanent error ends it.
func TestAcceptErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNRESET,
		syscall.ECONNABORTED, syscall.ENOTCONN, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EINTR, syscall.EAGAIN} {
		synctest.Test(t, func(t *testing.T) {
			begin, calls := time.Now(), 0
			script := new(scripted)
			fail := func() (net.Conn, error) {
				calls++
				return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}
			}
			for range 600 {
				script.next = append(script.next, fail)
			}
			here := &visitor{from: "192.0.2.1:80"}
			script.next = append(script.next, func() (net.Conn, error) { return here, nil })
			var log bytes.Buffer
			l := listener{Listener: script, log: slog.New(slog.NewTextHandler(&log, nil))}
			if c, err := l.Accept(); err != nil || c.RemoteAddr().String() != here.from {
				t.Errorf("%v: accepted %v, %v", errno, c, err)
			}
			if took := time.Since(begin); calls != 600 || took != time.Minute {
				t.Errorf("%v: %d calls in %v", errno, calls, took)
			}
			if n := strings.Count(log.String(), "\n"); n != 60 {
				t.Errorf("%v: %d lines in the log", errno, n)
			}
		})
	}
	for _, err := range []error{net.ErrClosed, io.EOF, os.NewSyscallError("accept4", syscall.EBADF), os.NewSyscallError("accept4", syscall.EINVAL)} {
		l := listener{Listener: &scripted{next: []func() (net.Conn, error){func() (net.Conn, error) { return nil, err }}}, log: slog.New(slog.DiscardHandler)}
		if _, got := l.Accept(); !errors.Is(got, err) {
			t.Errorf("%v: got %v", err, got)
		}
	}
}
