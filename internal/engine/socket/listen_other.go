//go:build !linux || 386

package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"
)

// Listen returns errors.ErrUnsupported, because there is no epoll. Connections come from an
// http.Server and have two goroutines each.
func (s *Server) Listen(context.Context, string, *tls.Config) (net.Addr, error) {
	return nil, errors.ErrUnsupported
}

type uring struct{}

func newUring(*kernel) (*uring, error) { return nil, errors.ErrUnsupported }

func (u *uring) full() bool              { return false }
func (u *uring) add(*conn, []byte)       {}
func (u *uring) flush(func(*send)) error { return errors.ErrUnsupported }
func (u *uring) close()                  {}

// There is no event loop on these systems. Nothing below is called.

type poller struct{}

type pollEvent struct {
	Events uint32
	Fd     int32
}

const (
	eventsWritable = 1 << iota
	eventsReadable
	eventsHangup
	eventsLost
	watchConn

	idWakeup   = -1
	idListener = -2
)

func (p *poller) wake()                          {}
func (p *poller) peek() []pollEvent              { return nil }
func (p *poller) wait(time.Duration) []pollEvent { return nil }
func (p *poller) unwatch(int)                    {}

func (p *poller) watch(int, int32, uint32) error { return errors.ErrUnsupported }

func (l *eventLoop) accept(time.Time)       {}
func (l *eventLoop) resumeAccept(time.Time) {}
func (l *eventLoop) closeListener()         {}
func (l *eventLoop) close()                 {}

func (k *kernel) adopt(net.Conn) (int32, bool) { return noFD, false }
func (k *kernel) read(int32, []byte) int       { return ioFailed }
func (k *kernel) write(int32, []byte) int      { return ioFailed }
func (k *kernel) close(int32, bool)            {}
func (k *kernel) shutdown(int32)               {}
func (k *kernel) peer(int32) (a netip.Addr)    { return a }
