package cli

import (
	"context"
	"io"
)

// streams are what a command reads and writes.
type streams struct {
	in   io.Reader
	out  io.Writer // data
	talk io.Writer // everything else
	exit func(int) // ends the process; nil: nothing does
}

// endAtOnce makes an interrupt end the process while there is nothing to put in order
// and what is done cannot be broken off: a configuration is being read. The
// caller defers what it returns.
func (s streams) endAtOnce(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if s.exit != nil {
			s.exit(exitInterrupted)
		}
	})
}
