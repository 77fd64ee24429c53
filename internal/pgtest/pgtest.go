//go:build unix

// Package pgtest gives tests a PostgreSQL of their own: a private cluster in a temporary folder, on a free
// loopback port, ended with the test.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a running PostgreSQL.
type Server struct {
	bin    string // folder of its programs
	data   string
	port   int
	as     *syscall.Credential // nil: this user
	cmd    *exec.Cmd
	waited chan struct{}
}

// Start starts a server with the settings given (name=value), or skips the test where PostgreSQL is not installed;
// with RUEDA_REQUIRE_ALL set that is a failure. It is stopped when t ends.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	bin, err := find()
	if err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v; apt-get install postgresql gives it", err)
	}
	s := &Server{bin: bin}
	if s.as, err = notRoot(); err != nil {
		t.Fatal(err)
	}
	s.data = folder(t, s.as)
	out, err := s.command("initdb", "-D", s.data, "-U", "rueda", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	if s.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	s.run(t, settings)
	t.Cleanup(func() { s.Kill() })
	return s
}

// DSN is how to connect to a database; each name is made at its first use with CreateDatabase.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://rueda@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// CreateDatabase makes an empty database and returns its DSN.
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
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: no checkpoint, recovery at the next start
	select {
	case <-s.waited:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.waited
	}
	s.cmd = nil
}

// Restart starts a server that was killed, with its data and on its port.
func (s *Server) Restart(t testing.TB, settings ...string) {
	t.Helper()
	s.run(t, settings)
}

func (s *Server) run(t testing.TB, settings []string) {
	t.Helper()
	args := []string{"-D", s.data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", s.data, "-c", "max_connections=64"}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	s.cmd = s.command("postgres", args...)
	var log strings.Builder
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waited = make(chan struct{})
	go func(cmd *exec.Cmd, waited chan struct{}) {
		defer close(waited)
		_ = cmd.Wait()
	}(s.cmd, s.waited)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		ready := exec.CommandContext(ctx, filepath.Join(s.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port))
		if ready.Run() == nil {
			return
		}
		select {
		case <-s.waited:
			t.Fatalf("postgres ended:\n%s", log.String())
		case <-ctx.Done():
			t.Fatal("postgres does not answer")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// find is the folder of the newest PostgreSQL's programs.
func find() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(p), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// notRoot is whom to run as: postgres refuses to be root.
func notRoot() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// folder is a temporary folder that as may use. That of the test lies in folders which it may not.
func folder(t testing.TB, as *syscall.Credential) string {
	dir, err := os.MkdirTemp("", "rueda-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
