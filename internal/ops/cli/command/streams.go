package command

import (
	"context"
	"io"
)

// Streams are the standard streams of a command.
type Streams struct {
	In   io.Reader
	Out  io.Writer // data
	Err  io.Writer // everything else
	Exit func(int) // ends the process; nil: no call
}

// ExitOnInterrupt ends the process when ctx ends, until stop is called. It is for work that cannot
// be interrupted and needs no cleanup, such as reading a configuration.
func (s Streams) ExitOnInterrupt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if s.Exit != nil {
			s.Exit(ExitInterrupted)
		}
	})
}
