package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// exitPatience is how long the program may run after its standard input has ended.
const exitPatience = 5 * time.Second

// line is a line that the program prints.
type line struct {
	Event      string      `json:"event"`
	Instrument string      `json:"instrument"`
	N          uint64      `json:"n"`
	Price      string      `json:"price"`
	Size       string      `json:"size"`
	Bids       [][2]string `json:"bids"`
	Asks       [][2]string `json:"asks"`
	From       uint64      `json:"from"`
	To         uint64      `json:"to"`
	Reason     string      `json:"reason"`
	Replayed   bool        `json:"replayed"`
}

// program is a client program that runs.
type program struct {
	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{} // closed when it has exited and all its lines were judged
	exit  error         // after ended

	mu      sync.Mutex
	judge   *judge
	changed chan struct{} // closed when the judge has read another line
	errors  tail          // the end of its standard error
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is how much a tail keeps.
const tailSize = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// task is what the program is to do.
type task struct {
	urls, instruments []string
	password, folder  string
}

// start starts a program.
func start(ctx context.Context, command []string, t task) (*program, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(),
		"RUEDA_URL="+strings.Join(t.urls, ","), "RUEDA_USERNAME="+clientName, "RUEDA_PASSWORD="+t.password,
		"RUEDA_INSTRUMENTS="+strings.Join(t.instruments, ","), "RUEDA_SESSION=conformance", "RUEDA_FOLDER="+t.folder)
	p := &program{cmd: cmd, ended: make(chan struct{}), judge: newJudge(), changed: make(chan struct{})}
	cmd.Stderr = &p.errors
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.input = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the client: %w", err)
	}
	go func() {
		defer close(p.ended)
		err := p.read(out)
		p.exit = errors.Join(err, cmd.Wait())
		p.notify()
	}()
	return p, nil
}

// maxLine bounds a line of the program.
const maxLine = 1 << 20

// read judges the lines of the program.
func (p *program) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			p.fault("it printed %.200q, which is not a JSON object: %v", lines.Text(), err)
			continue
		}
		p.mu.Lock()
		p.judge.take(&l)
		p.mu.Unlock()
		p.notify()
	}
	return lines.Err()
}

func (p *program) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge.fault(format, args...)
}

// notify wakes the goroutine that waits for the judge.
func (p *program) notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// until waits until the judge has read what reached reports. The error says what is missing.
func (p *program) until(ctx context.Context, patience time.Duration, what string, reached func(j *judge) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		ok, changed := reached(p.judge), p.changed
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("within %v the client has not printed %s", patience, what)
		case <-p.ended:
			p.mu.Lock()
			ok = reached(p.judge)
			p.mu.Unlock()
			if ok {
				return nil
			}
			exit := p.exit
			if exit == nil {
				exit = errors.New("exit status 0")
			}
			return fmt.Errorf("the client has exited (%w) before it printed %s", exit, what)
		}
	}
}

// finish ends the standard input of the program and waits until it exits.
func (p *program) finish() error {
	_ = p.input.Close()
	return p.exits(exitPatience)
}

// exits waits until the program exits. Any exit status is right.
func (p *program) exits(patience time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ended:
		return nil
	case <-late.C:
		p.kill()
		return fmt.Errorf("the client has not exited within %v", patience)
	}
}

// kill ends the program at once.
func (p *program) kill() {
	_ = p.input.Close()
	_ = p.cmd.Process.Kill()
	<-p.ended
}
