package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// lastGrace is the time for a child to end after its input has ended.
const lastGrace = 15 * time.Second

// Child is a running program of the measurement.
type Child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
}

// Start runs argv, with env added to the environment. name is for messages.
func Start(ctx context.Context, name string, argv, env []string) (*Child, error) {
	// The child ends with its input; otherwise ctx kills it.
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &Child{name: name, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReaderSize(out, 1<<16))}, nil
}

// Pid returns the process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Ask makes a request and decodes its answer into result, which may be nil.
func (c *Child) Ask(do string, args, result any) error {
	if err := c.Send(do, args); err != nil {
		return err
	}
	return c.Answer(do, result)
}

// Send makes a request without waiting for its answer, so that several children work at the same
// time.
func (c *Child) Send(do string, args any) error {
	q := request{Do: do}
	if args != nil {
		raw, err := json.Marshal(args)
		if err != nil {
			return err
		}
		q.Args = raw
	}
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: ask for %s: %w", c.name, do, err)
	}
	return nil
}

// Answer decodes the answer to the oldest request.
func (c *Child) Answer(do string, result any) error {
	var a answer
	if err := c.out.Decode(&a); err != nil {
		return fmt.Errorf("%s: no answer to %s: %w", c.name, do, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s: %s", c.name, do, a.Error)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("%s: answer to %s: %w", c.name, do, err)
	}
	return nil
}

// Close ends the child and waits for it.
func (c *Child) Close() error {
	err := c.in.Close()
	late := time.AfterFunc(lastGrace, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if werr := c.cmd.Wait(); werr != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", c.name, werr))
	}
	return err
}
