// Package pgtest gives tests a private PostgreSQL, in a temporary folder and on a free loopback
// port.
//
// A Cluster gives each test an empty database. All packages of a test run use the server that the
// variable RUEDA_TEST_POSTGRES names. Without it each package starts one. Start gives a test its
// own server, to kill and restart.
//
// If PostgreSQL is not installed, the test is skipped, or fails if RUEDA_REQUIRE_ALL is set.
//
// # Concurrency
//
// A Server and a Cluster are safe for concurrent use, except for Kill and Restart. A Server has one
// goroutine, which waits for the process to end.
package pgtest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running PostgreSQL.
type Server struct {
	bin    string // folder of its programs
	data   string
	port   int
	as     owner
	cmd    *exec.Cmd
	waited chan struct{}
	guard  io.Closer // closing it stops the server; it also closes when this process dies
}

// Start starts a server with the given settings (name=value), and stops it when t ends. It skips
// the test if PostgreSQL is not installed.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings)
	if err != nil {
		leaveOut(t, err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Shared is the environment variable with the port of the server that all packages of a run use.
const Shared = "RUEDA_TEST_POSTGRES"

// Launch starts a server for several packages. The caller sets Shared to its port, and calls Close.
// The error is ErrNone if PostgreSQL is not installed.
func Launch() (*Server, error) { return start([]string{"fsync=off", "max_connections=600"}) }

// Port returns the port of the server on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Close ends the server and deletes its folder.
func (s *Server) Close() error { return s.remove() }

// Cluster creates databases for the tests of a package, on the shared server or on one that the
// first test starts. The server does not wait for the disk, because tests kill processes and not
// the machine.
type Cluster struct {
	mu        sync.Mutex
	server    *Server
	err       error
	made      int
	databases map[string]string // DSNs of named databases
}

// Main runs the tests of a package, stops the server if the package has started one, and returns
// the exit status.
func (c *Cluster) Main(m *testing.M) int {
	code := m.Run()
	if err := c.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// Database creates an empty database and returns its DSN.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	return c.DatabaseFor(t, "")
}

// DatabaseFor returns the DSN of a named database, which the first call creates.
func (c *Cluster) DatabaseFor(t testing.TB, name string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil && c.err == nil {
		c.server, c.err = open()
	}
	if c.err != nil {
		leaveOut(t, c.err)
	}
	if dsn, ok := c.databases[name]; ok {
		return dsn
	}
	c.made++
	dsn := c.server.CreateDatabase(t, fmt.Sprintf("test%d_%d", os.Getpid(), c.made))
	if name != "" {
		if c.databases == nil {
			c.databases = make(map[string]string)
		}
		c.databases[name] = dsn
	}
	return dsn
}

func (c *Cluster) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil || c.server.cmd == nil { // the run ends the shared one
		return nil
	}
	return c.server.remove()
}

// open returns the shared server of the run, or starts one for the package.
func open() (*Server, error) {
	port := os.Getenv(Shared)
	if port == "" {
		return start([]string{"fsync=off"})
	}
	s := &Server{}
	var err1, err2, err3 error
	s.bin, err1 = find()
	s.as, err2 = notRoot()
	s.port, err3 = strconv.Atoi(port)
	return s, errors.Join(err1, err2, err3)
}

// ErrNone means that PostgreSQL is not installed.
var ErrNone = errors.New("PostgreSQL is not installed")

func leaveOut(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, ErrNone) || os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatal(err)
	}
	t.Skipf("%v; apt-get install postgresql gives it", err)
}

func start(settings []string) (s *Server, err error) {
	s = &Server{}
	if s.bin, err = find(); err != nil {
		return nil, err
	}
	if s.as, err = notRoot(); err != nil {
		return nil, err
	}
	if s.data, err = folder(s.as); err != nil {
		return nil, err
	}
	out, err := s.command("initdb", "-D", s.data, "-U", "rueda", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), s.remove())
	}
	for range 3 { // another process may take the port meanwhile
		if s.port, err = freePort(); err == nil {
			err = s.run(settings)
		}
		if err == nil {
			return s, nil
		}
		s.Kill()
	}
	return nil, errors.Join(err, s.remove())
}

// remove ends the server and deletes its folder.
func (s *Server) remove() error {
	s.Kill()
	return os.RemoveAll(s.data)
}

// DSN returns the connection string of a database that CreateDatabase has created.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://rueda@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// CreateDatabase creates an empty database and returns its DSN.
func (s *Server) CreateDatabase(t testing.TB, name string) string {
	t.Helper()
	out, err := s.command("createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "rueda", name).CombinedOutput()
	if err != nil {
		t.Fatalf("createdb %s: %v\n%s", name, err, out)
	}
	return s.DSN(name)
}

// Kill ends the server and all its connections at once, as a crash would.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = crash(s.cmd.Process) // no checkpoint, recovery at the next start
	select {
	case <-s.waited:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.waited
	}
	s.cmd = nil
	if s.guard != nil {
		_ = s.guard.Close()
		s.guard = nil
	}
}

// Restart starts a server that was killed, with its data and on its port.
func (s *Server) Restart(t testing.TB, settings ...string) {
	t.Helper()
	if err := s.run(settings); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) run(settings []string) error {
	args := []string{"-D", s.data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", s.data, "-c", "max_connections=200"}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	cmd := s.command("postgres", args...)
	log := filepath.Join(s.data, "log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the server has its own descriptor
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = cmd.Wait()
	}()
	s.cmd, s.waited = cmd, waited
	if s.guard, err = s.watch(cmd.Process.Pid); err != nil {
		return err
	}
	late := time.After(time.Minute)
	for !s.ready() {
		select {
		case <-waited:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("postgres ended:\n%s", text)
		case <-late:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("postgres does not get ready:\n%s", text)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// ready reports whether the server accepts connections. Its pid file has the process id in the
// first line and the status in line 8.
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) > 7 && lines[0] == strconv.Itoa(s.cmd.Process.Pid) && strings.TrimSpace(lines[7]) == "ready"
}

// watch starts a shell that ends the server if this process dies, for example by a panic.
func (s *Server) watch(pid int) (io.Closer, error) {
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("read line || kill -QUIT %d", pid))
	s.as.run(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return guard{cmd, in}, nil
}

// guard is that shell. Close ends it.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (g guard) Close() error {
	_, err := io.WriteString(g.in, "done\n")
	return errors.Join(err, g.in.Close(), g.cmd.Wait())
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = "/"
	s.as.run(cmd)
	return cmd
}

// find returns the folder with the programs of the newest PostgreSQL. The one in the PATH may be a
// link to one of them.
func find() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", ErrNone
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// folder creates a temporary folder that the given user may use. The folders of a test are not
// accessible to other users.
func folder(as owner) (string, error) {
	dir, err := os.MkdirTemp("", "rueda-pg-")
	if err == nil {
		err = as.own(dir)
	}
	return dir, err
}

// freePort returns a port below the kernel's range for clients. Otherwise a client that reconnects
// continuously while the server is down could connect to itself and occupy the port.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(15000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
