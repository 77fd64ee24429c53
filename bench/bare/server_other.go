//go:build !linux

package bare

import (
	"errors"
	"io"
)

// Run needs epoll.
func Run(io.Reader, io.Writer) error { return errors.ErrUnsupported }
