// Package single runs one process of the program with faults, and checks all that it says.
package single

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// User and password of all clients.
const (
	User     = "chaos"
	Password = "a password for chaos"
	secret   = "0123456789abcdef0123456789abcdef"
)

// Program returns the program to test: that of RUEDA_PROGRAM, or one that it builds from this tree
// into a folder.
func Program(folder string) (string, error) {
	if p := os.Getenv("RUEDA_PROGRAM"); p != "" {
		return filepath.Abs(p)
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	p := filepath.Join(folder, "rueda")
	cmd := exec.Command("go", "build", "-o", p, "./cmd/rueda")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return p, nil
}

// Verify reports what rueda verify finds in a journal, without its notes, as a violation. With ends,
// rows may be missing at the end of an epoch: an epoch that begins on a full disk has no space to
// note it in the journal.
func Verify(ctx context.Context, program, journal string, ends bool, report *check.Report) {
	out, err := exec.CommandContext(ctx, program, "verify", journal).CombinedOutput()
	if report.Count("journals verified", 1); err != nil {
		lines := strings.Split(string(out), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "note:") })
		missing := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !missingEnd.MatchString(line) })
		if found := findings.FindStringSubmatch(string(out)); ends && found != nil && found[1] == strconv.Itoa(len(missing)) {
			report.Count("ends that are missing", int64(len(missing)))
			return
		}
		report.Violation("verify", "%v: %s", err, strings.Join(lines, "\n"))
	}
}

var (
	findings   = regexp.MustCompile(`(?m)^rueda: (\d+) findings?$`)
	missingEnd = regexp.MustCompile(`: missing_rows: rows from position \d+ on are missing$`)
)

// Gateway is a process with its folder. It starts at the same addresses each time.
type Gateway struct {
	Program string
	Folder  string
	Address string // of REST and stream
	Feed    string // of JSON lines

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// NewGateway writes a configuration and adds the user.
func NewGateway(program, folder string) (*Gateway, error) {
	g := &Gateway{Program: program, Folder: folder}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := g.addresses(); err != nil {
		return nil, err
	}
	if err := g.configure(); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "user", "add", User, "--rights", "all", "--password-stdin", "--config", g.config())
	cmd.Stdin = strings.NewReader(Password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return g, nil
}

// addresses chooses free ports.
func (g *Gateway) addresses() error {
	for _, to := range []*string{&g.Address, &g.Feed} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*to = l.Addr().String()
		defer l.Close()
	}
	return nil
}

func (g *Gateway) config() string { return filepath.Join(g.Folder, "rueda.toml") }

// Data is the folder of the database and the journal.
func (g *Gateway) Data() string { return filepath.Join(g.Folder, "data") }

// Journal is the folder of the journal.
func (g *Gateway) Journal() string { return filepath.Join(g.Data(), "journal") }

// configure writes the configuration. Limits are high, and files of the journal short.
func (g *Gateway) configure() error {
	files := map[string]string{
		"feed.token": secret,
		"rueda.toml": fmt.Sprintf(`listen = %q
data = "data"
drain = "500ms"

[journal]
segment = "1MiB"

[stream]
trades_kept = 2000

[limits]
connections = 1000
messages_per_second = 1000
requests_per_minute = 100000
unauthenticated_per_address = 1000
handshakes = 10000
history_readers = 4
history_per_user = 100

[throttle]
account_logins_per_minute = 100000
account_login_burst = 100000

[[feed]]
name = "exchange"
type = "ndjson"
listen = %q
token_file = "feed.token"
`, g.Address, g.Feed),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.Folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the process and waits until it serves requests.
func (g *Gateway) Start(ctx context.Context) error {
	log, err := os.OpenFile(g.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(g.Program, "serve", "--config", g.config())
	cmd.Stderr, cmd.Stdout = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	g.mu.Lock()
	g.cmd, g.done = cmd, done
	g.mu.Unlock()
	for until := time.Now().Add(60 * time.Second); time.Now().Before(until); {
		if stream.Serves(ctx, g.Address) {
			return nil
		}
		select {
		case <-done:
			return &Ended{cmd.ProcessState.String(), g.tail()}
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("no answer for a minute: %s", g.tail())
}

// Ended is the error of a process that ended instead of serving.
type Ended struct{ Status, Log string }

func (e *Ended) Error() string { return "the process has ended: " + e.Status + ": " + e.Log }

func (g *Gateway) log() string { return g.Folder + ".log" }

// tail returns the end of the log.
func (g *Gateway) tail() string {
	text, err := os.ReadFile(g.log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-12):], []byte("\n")))
}

// Signal sends a signal.
func (g *Gateway) Signal(s syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cmd.Process.Signal(s)
}

// Pid returns the id of the process.
func (g *Gateway) Pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cmd.Process.Pid
}

// Stop ends the process by a signal and waits for its end.
func (g *Gateway) Stop(s syscall.Signal) error {
	if err := g.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	g.mu.Lock()
	done := g.done
	g.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-time.After(60 * time.Second):
		_ = g.Signal(syscall.SIGKILL)
		return fmt.Errorf("%v did not end the process in a minute: %s", s, g.tail())
	}
}
