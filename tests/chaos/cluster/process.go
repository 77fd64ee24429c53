//go:build linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a process that a test stops and starts again. If it ends by itself, it is started
// again, as a service manager does.
type Process struct {
	Name string
	Log  string // file with what it prints

	command func() *exec.Cmd

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: it does not run
	ended  chan struct{} // closed when cmd has ended
	wanted bool
}

// againAfter is the time until a process that has ended by itself is started again.
const againAfter = 300 * time.Millisecond

// Start starts the process.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	return p.launch()
}

// launch starts the command. p.mu is held.
func (p *Process) launch() error {
	f, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // the process has its own descriptor
	c := p.command()
	c.Stdout, c.Stderr = f, f
	if err := spawn(c); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = c, ended
	go func() {
		_ = c.Wait() // its log says why it ended
		close(ended)
		p.endedBy(c)
	}()
	return nil
}

// endedBy starts the process again, unless a test has ended it.
func (p *Process) endedBy(c *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != c || !p.wanted {
		return
	}
	p.cmd = nil
	time.AfterFunc(againAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted && p.cmd == nil {
			_ = p.launch() // the test fails, because the process does not get ready
		}
	})
}

// Signal sends a signal that does not end the process.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended
	}
}

// End ends the process by a signal and waits. A process that has not ended in time is killed, and
// End returns false.
func (p *Process) End(s syscall.Signal, limit time.Duration) bool {
	p.mu.Lock()
	p.wanted = false
	cmd, ended := p.cmd, p.ended
	p.cmd = nil
	p.mu.Unlock()
	if cmd == nil {
		return true
	}
	_ = cmd.Process.Signal(s)
	select {
	case <-ended:
		return true
	case <-time.After(limit):
	}
	_ = cmd.Process.Kill()
	<-ended
	return false
}

// Kill ends the process at once.
func (p *Process) Kill() { p.End(syscall.SIGKILL, time.Minute) }

// starts has the commands that the goroutine of spawn starts.
var starts = sync.OnceValue(func() chan<- func() {
	all := make(chan func())
	go func() {
		runtime.LockOSThread() // the kernel kills the children when this thread ends
		for start := range all {
			start()
		}
	}()
	return all
})

// spawn starts a command that the kernel kills when the test ends, for example by a panic.
func spawn(c *exec.Cmd) error {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr.Setpgid = true // no signals of the terminal
	done := make(chan error)
	starts() <- func() { done <- c.Start() }
	return <-done
}
