package marketdata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// stdinName is the name of standard input as a file.
const stdinName = "-"

// pipe is standard input, or another file that can be read only once. It holds what was read, until
// Rewind or Release.
type pipe struct {
	ctx     context.Context
	in      io.Reader
	held    []byte
	at      int // next byte of held
	holding bool
	close   func() error
}

// openPipe opens a file if it can be read only once. It returns nil for other files. When ctx ends,
// a read that waits for data returns the error of ctx, and so does openPipe itself while it waits
// for the other end of a named pipe.
func openPipe(ctx context.Context, std command.Streams, name string) (*pipe, error) {
	var file *os.File
	var err error
	if name != stdinName {
		info, e := os.Stat(name)
		if e != nil || info.Mode().IsRegular() || info.IsDir() {
			return nil, nil // the caller reports what is wrong with a path
		}
		file, err = openWaiting(ctx, name)
	} else if f, ok := std.In.(*os.File); ok {
		file, err = interruptible(f)
	}
	if err != nil {
		return nil, err
	}
	p := &pipe{ctx: ctx, in: std.In, holding: true, close: func() error { return nil }}
	if file != nil {
		p.in = file
		stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) }) // files that cannot wait have no deadline
		p.close = func() error {
			stop()
			return file.Close()
		}
	} else if c, ok := std.In.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		p.close = func() error {
			stop()
			return nil
		}
	}
	return p, nil
}

// retryOpen is the pause between two attempts to end the wait for a named pipe.
const retryOpen = 10 * time.Millisecond

// openWaiting opens a named pipe. It waits until another process has it open for writing.
func openWaiting(ctx context.Context, name string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		file, err := os.Open(name)
		opened <- result{file, err}
	}()
	var r result
	select {
	case r = <-opened:
	case <-ctx.Done():
		for waits := true; waits; { // the goroutine may not have begun to wait
			if writer, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				_ = writer.Close() // nothing was written
			}
			select {
			case r = <-opened:
				waits = false
			case <-time.After(retryOpen):
			}
		}
		if r.err == nil {
			r.err = errors.Join(ctx.Err(), r.file.Close())
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("open pipe: %w", r.err)
	}
	return r.file, nil
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	if p.at < len(p.held) {
		n := copy(b, p.held[p.at:])
		if p.at += n; p.at == len(p.held) && !p.holding {
			p.held, p.at = nil, 0
		}
		return n, nil
	}
	n, err := p.in.Read(b)
	if p.holding {
		p.held = append(p.held, b[:n]...)
		p.at = len(p.held)
	}
	if err != nil && p.ctx.Err() != nil {
		err = p.ctx.Err()
	}
	return n, err
}

// Rewind returns to the beginning, once.
func (p *pipe) Rewind() { p.at, p.holding = 0, false }

// Release forgets what was read.
func (p *pipe) Release() {
	p.holding = false
	p.held = append([]byte(nil), p.held[p.at:]...)
	p.at = 0
}

// Close releases the file.
func (p *pipe) Close() error { return p.close() }
