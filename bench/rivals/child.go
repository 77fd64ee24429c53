package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/bench/proc"
)

// broker is a server of another project that runs as a child of this process.
type broker struct {
	cmd    *exec.Cmd
	output strings.Builder
	ended  chan struct{} // closed when it has ended
	err    error         // the cause; after ended
}

// startBroker writes a configuration and starts a program with it. The configuration and args may
// contain {config} and {folder}.
func startBroker(folder, program, config string, args ...string) (*broker, error) {
	file := filepath.Join(folder, "config")
	places := strings.NewReplacer("{config}", file, "{folder}", folder)
	if err := os.WriteFile(file, []byte(places.Replace(config)), 0o644); err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = places.Replace(args[i])
	}
	b := &broker{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	b.cmd.Stdout, b.cmd.Stderr = &b.output, &b.output
	withParent(b.cmd)
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.ended)
	}()
	return b, nil
}

// ready waits until the address accepts connections.
func (b *broker) ready(address string) error {
	deadline := time.After(10 * time.Second)
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-b.ended:
			return fmt.Errorf("%s ended: %w", b.cmd.Path, errors.Join(b.err, errors.New(strings.TrimSpace(b.output.String()))))
		case <-deadline:
			return fmt.Errorf("%s does not take connections after 10 s: %w", b.cmd.Path, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the program.
func (b *broker) stop() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-b.ended:
	case <-time.After(10 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.ended
	}
}

// pids returns the ids of the program and its children, once it has the wanted number of them.
func (b *broker) pids(children int) ([]int, error) {
	own := b.cmd.Process.Pid
	for late := time.Now().Add(5 * time.Second); ; proc.Nap(5e6) {
		all, err := childrenOf(own)
		if err != nil {
			return nil, err
		}
		if len(all) >= children {
			return append(all, own), nil
		}
		if time.Now().After(late) {
			return nil, fmt.Errorf("%s has %d of %d processes", b.cmd.Path, len(all), children)
		}
	}
}

func childrenOf(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent ..., where the name may contain anything.
		var pid, its int
		var state string
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &its); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if its == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// freePort returns a free port. If another program takes it before it is used, the run fails.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// untilDone closes c when ctx ends, so that a write to it cannot block forever.
func untilDone(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.Close() })
}
