//go:build !linux

package load

import (
	"errors"
	"io"
)

// Run needs epoll.
func Run(io.Reader, io.Writer) error { return errors.ErrUnsupported }

type loop struct{}

func (*loop) message(*conn, []byte)   {}
func (*loop) say(*conn, byte, []byte) {}
