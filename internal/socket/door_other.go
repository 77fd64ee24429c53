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

// Listen returns errors.ErrUnsupported: there is no epoll here, and all connections
// come by an http.Server with a goroutine to read and one to write for each.
func (s *Server) Listen(context.Context, string, *tls.Config) (net.Addr, error) {
	return nil, errors.ErrUnsupported
}

type uring struct{}

func newUring(*kernel) (*uring, error) { return nil, errors.ErrUnsupported }

func (u *uring) full() bool              { return false }
func (u *uring) add(*conn, []byte)       {}
func (u *uring) flush(func(*send)) error { return errors.ErrUnsupported }
func (u *uring) close()                  {}

// Without Listen there is no door, and no line: nothing of this is called.

type poller struct{}

type pollEvent struct {
	Events uint32
	Fd     int32
}

const (
	anyRoom = 1 << iota
	anyInput
	anyWary
	anyLoss
	watchLine

	idBell     = -1
	idListener = -2
)

func (p *poller) ring()                          {}
func (p *poller) peek() []pollEvent              { return nil }
func (p *poller) wait(time.Duration) []pollEvent { return nil }
func (p *poller) forget(int)                     {}

func (p *poller) watch(int, int32, uint32) error { return errors.ErrUnsupported }

func (sh *shard) accept(time.Time)    {}
func (sh *shard) openAgain(time.Time) {}
func (sh *shard) closeListener()      {}
func (sh *shard) closeDoor()          {}

func (k *kernel) adopt(net.Conn) (int32, bool) { return noLine, false }
func (k *kernel) read(int32, []byte) int       { return lineBroken }
func (k *kernel) write(int32, []byte) int      { return lineBroken }
func (k *kernel) close(int32, bool)            {}
func (k *kernel) shutdown(int32)               {}
func (k *kernel) peer(int32) (a netip.Addr)    { return a }
