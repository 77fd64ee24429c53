package cli

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// program is a command line that runs in this process.
type program struct {
	t      *testing.T
	out    <-chan string // lines of standard output; closed at the end
	talk   *transcript
	status <-chan int
	stop   context.CancelFunc
}

// transcript is the standard error of a program.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start runs a command line until the test ends or stops it.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	lines, status := make(chan string, 1024), make(chan int, 1)
	p := &program{t: t, out: lines, talk: &transcript{}, status: status, stop: stop}
	var both sync.WaitGroup
	both.Go(func() {
		status <- run(ctx, args, command.Streams{In: strings.NewReader(""), Out: w, Err: p.talk})
		w.Close()
	})
	both.Go(func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done(): // the test does not read any more
			}
		}
	})
	t.Cleanup(func() {
		stop()
		both.Wait()
		if t.Failed() {
			t.Logf("rueda %s said:\n%s", strings.Join(args, " "), p.talk)
		}
	})
	return p
}

// patience bounds each wait, for a busy machine.
const patience = time.Minute

// line waits for a line of standard output that matches, and returns its submatches.
func (p *program) line(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		select {
		case line, ok := <-p.out:
			if !ok {
				p.t.Fatalf("ended without a line like %s; said:\n%s", pattern, p.talk)
			}
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-late:
			p.t.Fatalf("no line like %s; said:\n%s", pattern, p.talk)
		}
	}
}

// said waits for a match on standard error, and returns its submatches.
func (p *program) said(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for {
		if m := re.FindStringSubmatch(p.talk.String()); m != nil {
			return m
		}
		select {
		case <-look.C:
		case <-late:
			p.t.Fatalf("never said %s, but:\n%s", pattern, p.talk)
		}
	}
}

// exit waits for the end and returns the status.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case status := <-p.status:
		return status
	case <-time.After(patience):
		p.t.Fatalf("does not end; said:\n%s", p.talk)
	}
	return 0
}
