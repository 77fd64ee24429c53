package progress

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Progress shows the progress of a command: on a terminal in one line that is overwritten,
// elsewhere in a new line every ten seconds, if it has changed. Write other output through it, so
// that the two do not mix.
type Progress struct {
	out      io.Writer
	terminal bool // the output is a terminal on which lines can be overwritten

	mu    sync.Mutex
	shown string // the newest line
}

// New returns a Progress that writes to out. terminal means that out is a terminal on which lines
// can be overwritten.
func New(out io.Writer, terminal bool) *Progress { return &Progress{out: out, terminal: terminal} }

const eraseLine = "\r\x1b[K"

// Write implements io.Writer. It writes b above the progress line.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal || p.shown == "" {
		return p.out.Write(b)
	}
	if _, err := io.WriteString(p.out, eraseLine); err != nil {
		return 0, err
	}
	n, err := p.out.Write(b)
	if err == nil {
		_, err = io.WriteString(p.out, p.shown)
	}
	return n, err
}

// During shows the result of text until stop is called.
func (p *Progress) During(ctx context.Context, text func() string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var shower sync.WaitGroup
	shower.Go(func() { p.run(ctx, text) })
	return func() {
		cancel()
		shower.Wait()
	}
}

// run shows the result of text until ctx ends.
func (p *Progress) run(ctx context.Context, text func() string) {
	every := 10 * time.Second
	if p.terminal {
		every = time.Second / 4
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.show("")
			return
		case <-tick.C:
			p.show(text())
		}
	}
}

// show writes a progress line, on a terminal over the previous one. An empty line removes it.
func (p *Progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == "" && p.shown == "" || line == p.shown && !p.terminal {
		return
	}
	p.shown = line
	switch {
	case p.terminal:
		fmt.Fprint(p.out, eraseLine+line)
	case line != "":
		fmt.Fprintf(p.out, "%s  %s\n", time.Now().Format("15:04:05"), line)
	}
}

// Bar returns a progress bar for a fraction between 0 and 1.
func Bar(part float64) string {
	const width = 24
	part = min(max(part, 0), 1)
	full := int(part * width)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + fmt.Sprintf("] %3.0f %%", part*100)
}

// Thousands formats a number with commas between groups of three digits.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Bytes formats a number of bytes with a suitable unit.
func Bytes(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
