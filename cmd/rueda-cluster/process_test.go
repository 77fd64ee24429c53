package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// asNats makes the test program a NATS server, so that tests can kill it.
const asNats = "RUEDA_TEST_NATS"

// natsProcess configures a NATS server in a process of its own.
type natsProcess struct {
	Name, Folder string
	Port, Route  int
	Routes       []string // addresses of the other servers, or of relays before them
}

// nowhere is an address of which no server listens. The servers tell each other to use it, so that
// they connect through their relays only.
const nowhere = "127.0.0.1:1"

// runNats runs a NATS server until SIGTERM.
func runNats(text string) error {
	var c natsProcess
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: c.Folder,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30, MaxPayload: 1 << 20, PingInterval: 2 * time.Second,
	}
	if len(c.Routes) > 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: c.Route, NoAdvertise: true, Advertise: nowhere, PoolSize: -1}
		for _, a := range c.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: a})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// process is a process of a test, which it may kill and start again. A process that ends by itself
// is started again, as a service manager does.
type process struct {
	name, kind string
	log        string
	address    string // of a gateway
	admin      string // of its listener for administrators

	mu      sync.Mutex
	command func() *exec.Cmd
	cmd     *exec.Cmd     // nil: it does not run
	ended   chan struct{} // closed when cmd has ended
	wanted  bool
	ends    int // times that it has ended by itself
}

// againAfter is the time until a process that has ended by itself is started again.
const againAfter = 300 * time.Millisecond

// start starts the process.
func (p *process) start(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	if err := p.launch(); err != nil {
		t.Fatal(err)
	}
}

// use changes the command of the next start.
func (p *process) use(command func() *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.command = command
}

// launch starts the command. p.mu is held.
func (p *process) launch() error {
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the process has it
	c := p.command()
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = c, ended
	go func() {
		_ = c.Wait() // its log says why
		close(ended)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cmd != c || !p.wanted {
			return
		}
		p.cmd = nil
		p.ends++
		time.AfterFunc(againAfter, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.wanted && p.cmd == nil {
				_ = p.launch() // a test that needs it fails
			}
		})
	}()
	return nil
}

// signal sends a signal, and waits for the end of the process if it ends it.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	final := s == syscall.SIGKILL || s == syscall.SIGTERM
	if final {
		p.wanted = false
	}
	cmd, ended := p.cmd, p.ended
	if final {
		p.cmd = nil
	}
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s) // it may have ended
	if final {
		<-ended
	}
}

// victim is a process that a test kills.
type victim struct {
	name, kind string
	kill       func()
	start      func()
}

// victims returns the processes of the rig: nodes, NATS servers and PostgreSQL.
func (r *rig) victims() (list []victim) {
	for _, p := range append(append([]*process{}, r.nodes...), r.nats...) {
		list = append(list, victim{p.name, p.kind, func() { p.signal(syscall.SIGKILL) }, func() { p.start(r.t) }})
	}
	if s := r.shared; s != nil {
		list = append(list, victim{"postgres", "postgres", s.Kill, func() { s.Restart(r.t, postgresSettings...) }})
	}
	return list
}

// postgresSettings are the settings of PostgreSQL, whose machine is not lost.
var postgresSettings = []string{"fsync=off"}

// openPostgres starts PostgreSQL, and returns it with the address of an empty database.
func openPostgres(t *testing.T) (*pgtest.Server, *url.URL) {
	t.Helper()
	s := pgtest.Start(t, postgresSettings...)
	u, err := url.Parse(s.CreateDatabase(t, "rueda"))
	if err != nil {
		t.Fatal(fmt.Errorf("address of the database: %w", err))
	}
	return s, u
}
