package marketdata

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// screen prints lines and, on a terminal, keeps a block of text below them in its place. Each line
// is one write, so that a reader gets it at once. It is safe for concurrent use.
type screen struct {
	out     io.Writer
	inPlace bool

	mu      sync.Mutex
	block   string        // the newest block
	shown   string        // the block on the terminal
	render  func() string // makes the block for a redraw; nil: show does
	changed bool          // since the last redraw
}

// change calls f, which changes what render shows, while no redraw runs. The next redraw calls
// render.
func (s *screen) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed = true
}

// line prints text above the block.
func (s *screen) line(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(text, s.shown)
}

// write replaces the block on the terminal by text and another block.
func (s *screen) write(text, block string) error {
	if n := strings.Count(s.shown, "\n"); n > 0 {
		text = fmt.Sprintf("\x1b[%dA\x1b[J", n) + text
	}
	s.shown = block
	_, err := io.WriteString(s.out, text+block)
	return err
}

// show prints a block or, on a terminal, replaces the block with the next redraw.
func (s *screen) show(block string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inPlace {
		return s.write(block, "")
	}
	first := s.block == ""
	if s.block = block; first {
		return s.write("", block)
	}
	return nil
}

// redraw draws the block if it has changed.
func (s *screen) redraw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed {
		s.block, s.changed = s.render(), false
	}
	if s.block == s.shown {
		return nil
	}
	return s.write("", s.block)
}

// around writes to another stream of the same terminal, above the block.
type around struct {
	*screen
	to io.Writer
}

func (a *around) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	block := a.shown
	if err := a.write("", ""); err != nil {
		return 0, err
	}
	n, err := a.to.Write(text)
	if err != nil {
		return n, err
	}
	return n, a.write("", block)
}
