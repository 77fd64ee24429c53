package query

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// rawOptions are the flags of raw.
type rawOptions struct {
	login  command.Login
	noAuth bool
	noPong bool
	wait   time.Duration
}

// tokenMark stands for the access token, in what is typed and in what is printed.
const tokenMark = "<TOKEN>"

// NewRaw returns the command raw.
func NewRaw(std command.Streams) *cobra.Command {
	var o rawOptions
	cmd := &cobra.Command{
		Use:   "raw",
		Short: "Talk to the stream line by line, to learn or debug the protocol",
		Long: `Raw opens the stream. Each line that you type is sent as a message, and each message that
arrives is printed on a line. Raw authenticates and answers pings by itself, except with --no-auth
and --no-pong, and shows on standard error what it sends. It does not reconnect.

The access token is never printed. It appears as <TOKEN>, which you can also type:

  {"action":"auth_token","token":"<TOKEN>"}

After the end of the input, messages are printed for the time of --wait.

Exit status: 0 the input ended; 1 the gateway closed the connection, or other errors; otherwise as
of rueda watch.`,
		Example: `  rueda raw
  echo '{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"]}' |
    rueda raw --wait 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRaw(cmd.Context(), std, o) },
	}
	o.login.Flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.noAuth, "no-auth", false, "do not authenticate")
	f.BoolVar(&o.noPong, "no-pong", false, "do not answer pings")
	f.DurationVar(&o.wait, "wait", time.Second, "time to print messages after the end of the input")
	return cmd
}

// rawTalk is a connection whose messages are typed.
type rawTalk struct {
	rawOptions
	std   command.Streams
	conn  *client.Conn
	token string
}

// received is a message, or the end of a connection or of the input.
type received struct {
	text   []byte
	isText bool
	err    error
}

func runRaw(ctx context.Context, std command.Streams, o rawOptions) error {
	t, err := o.login.Target()
	if err != nil {
		return err
	}
	c, err := t.Client(std, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.Login(ctx)
	if err != nil {
		return t.Unreached(err)
	}
	r := &rawTalk{rawOptions: o, std: std, token: string(now.Access)}
	if r.conn, err = c.Dial(ctx); err != nil {
		return t.Unreached(err)
	}
	var readers sync.WaitGroup
	frames, lines := make(chan received), make(chan received)
	ctx, cancel := context.WithCancel(ctx)
	defer readers.Wait()
	defer r.conn.Close()
	defer cancel()
	readers.Go(func() { r.read(ctx, frames) })
	go r.input(ctx, lines) // it ends with the input or, if that is a terminal, with the process
	if !o.noAuth {
		if err := r.send(ctx, `{"action":"auth_token","token":"`+tokenMark+`"}`, true); err != nil {
			return err
		}
	}
	return r.run(ctx, frames, lines)
}

// run sends and prints until the connection or the input ends.
func (r *rawTalk) run(ctx context.Context, frames, lines <-chan received) error {
	var end <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case f := <-frames:
			if f.err != nil {
				return closed(f.err)
			}
			if err := r.print(ctx, f); err != nil {
				return err
			}
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				lines, end = nil, time.After(r.wait)
			case l.err != nil:
				return fmt.Errorf("read the input: %w", l.err)
			default:
				if err := r.send(ctx, string(l.text), false); err != nil {
					return err
				}
			}
		}
	}
}

// closed returns the error for the end of a connection.
func closed(err error) error {
	var e *client.Error
	if errors.As(err, &e) && e.Closed {
		return fmt.Errorf("closed by the server: %d %s", 4000+e.Code, e.Reason)
	}
	return err
}

// send sends a message, in which the access token may have its mark. show prints it too.
func (r *rawTalk) send(ctx context.Context, text string, show bool) error {
	if show {
		fmt.Fprintf(r.std.Err, "> %s\n", text)
	}
	text = strings.ReplaceAll(text, tokenMark, r.token)
	if err := r.conn.Write(ctx, []byte(text)); err != nil {
		return closed(err)
	}
	return nil
}

// print prints a message and answers a ping.
func (r *rawTalk) print(ctx context.Context, f received) error {
	if !f.isText {
		fmt.Fprintf(r.std.Err, "a binary message of %d bytes\n", len(f.text))
		return nil
	}
	text := strings.NewReplacer("\n", " ", "\r", " ").Replace(r.mask(string(f.text)))
	if _, err := fmt.Fprintf(r.std.Out, "%s\n", command.EscapeControls([]byte(command.Printable(text)))); err != nil {
		return err
	}
	var m struct{ Action string }
	if !r.noPong && json.Unmarshal(f.text, &m) == nil && m.Action == "ping" {
		return r.send(ctx, `{"action":"pong"}`, true)
	}
	return nil
}

// mask replaces the access token, and what looks like one.
func (r *rawTalk) mask(text string) string {
	text = strings.ReplaceAll(text, r.token, tokenMark)
	return regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`).ReplaceAllString(text, tokenMark)
}

// read reads messages until the connection ends.
func (r *rawTalk) read(ctx context.Context, to chan<- received) {
	for {
		var f received
		f.text, f.isText, f.err = r.conn.Read(ctx)
		select {
		case to <- f:
		case <-ctx.Done():
			return
		}
		if f.err != nil {
			return
		}
	}
}

// input reads lines until the input ends. Empty lines are skipped.
func (r *rawTalk) input(ctx context.Context, to chan<- received) {
	lines := bufio.NewScanner(r.std.In)
	lines.Buffer(nil, 1<<20)
	pass := func(l received) bool {
		select {
		case to <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" && !pass(received{text: []byte(text)}) {
			return
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	pass(received{err: err})
}
