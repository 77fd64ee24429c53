package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/cli/command"
	demo "github.com/ruedahq/rueda/internal/cli/server"
	"github.com/ruedahq/rueda/internal/journal"
)

// asNats makes the test program a NATS server, so that tests can kill it.
const asNats = "RUEDA_TEST_NATS"

// natsProcess configures a NATS server in a process of its own.
type natsProcess struct {
	Name, Folder string
	Port, Route  int
	Routes       []int
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asNats); text != "" {
		if err := runNats(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	folder, err := os.MkdirTemp("", "rueda-cluster-test-")
	if err == nil {
		err = os.Setenv(programFolder, folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// runNats runs a NATS server until SIGTERM.
func runNats(text string) error {
	var c natsProcess
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: c.Folder,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30, MaxPayload: 1 << 20,
	}
	if len(c.Routes) > 1 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: c.Route}
		for _, p := range c.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p))})
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

// process is a process of a test, which it may kill and start again.
type process struct {
	name    string
	command func() *exec.Cmd
	log     string
	address string // of a gateway

	mu  sync.Mutex
	cmd *exec.Cmd
}

func (p *process) start(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the process has it
	c := p.command()
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.cmd = c
	p.mu.Unlock()
}

// signal sends a signal, and waits for the end of the process if it ends it.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// rig is a cluster of real processes, with a balancer in front of the edges.
type rig struct {
	t        *testing.T
	folder   string
	nats     []*process
	nodes    []*process // first the sequencers
	edges    []*process
	balancer *relay
	next     atomic.Uint64
	http     http.Client
}

// programFolder names the folder of the built program in the environment.
const programFolder = "RUEDA_CLUSTER_TEST_PROGRAM"

// rueda builds the program once.
var rueda = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(programFolder), "rueda")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/rueda").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// newRig starts NATS servers, two sequencers and edges.
func newRig(t *testing.T, nats, edges int) *rig {
	t.Helper()
	program, err := rueda()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, folder: t.TempDir(), http: http.Client{Timeout: time.Second}}
	ports, err := freePorts(2*nats + 2 + edges)
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for i := range nats {
		c := natsProcess{Name: fmt.Sprintf("nats-%d", i+1), Folder: filepath.Join(r.folder, fmt.Sprintf("nats-%d", i+1)), Port: ports[i], Route: ports[nats+i], Routes: ports[nats : 2*nats]}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", c.Port))
		r.nats = append(r.nats, r.process(c.Name, "", func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asNats+"="+string(text))
			return cmd
		}))
	}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(r.folder, "data")})
	if err == nil {
		err = demo.AddDemoUsers(t.Context(), data.Users)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 + edges {
		name, role := fmt.Sprintf("edge-%d", i-1), "edge"
		if i < 2 {
			name, role = fmt.Sprintf("sequencer-%d", i+1), "sequencer"
		}
		address := fmt.Sprintf("127.0.0.1:%d", ports[2*nats+i])
		file := r.config(name, role, address, urls)
		p := r.process(name, address, func() *exec.Cmd { return exec.Command(program, "serve", "--config", file) })
		if r.nodes = append(r.nodes, p); role == "edge" {
			r.edges = append(r.edges, p)
		}
	}
	if r.balancer, err = newRelay(t.Context(), "127.0.0.1:0", r.edge); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { r.balancer.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	r.awaitReady(time.Minute)
	return r
}

// process adds a process and starts it. It is killed at the end of the test.
func (r *rig) process(name, address string, command func() *exec.Cmd) *process {
	p := &process{name: name, command: command, log: filepath.Join(r.folder, name+".log"), address: address}
	p.start(r.t)
	r.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		if r.t.Failed() {
			text, _ := os.ReadFile(p.log)
			r.t.Logf("%s:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	return p
}

// config writes the configuration of a node.
func (r *rig) config(name, role, address string, urls []string) string {
	folder := filepath.Join(r.folder, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		r.t.Fatal(err)
	}
	text := fmt.Sprintf(`listen = %q
data = %q
drain = "100ms"
[limits]
logins_per_minute = 10000
login_burst = 10000
handshakes = 10000
[throttle]
account_logins_per_minute = 10000
account_login_burst = 10000
[journal]
folder = %q
segment = "16MiB"
[cluster]
name = "test"
node = %q
role = %q
nats = ["%s"]
replicas = %d
bytes = "512MiB"
lease = "1s"
`, address, filepath.Join(r.folder, "data"), filepath.Join(folder, "journal"), name, role, strings.Join(urls, `", "`), len(urls))
	if role != "edge" {
		text += "[[feed]]\nname = \"sim\"\ntype = \"sim\"\nseed = 7\nspeed = 10.0\n"
	}
	file := filepath.Join(folder, "rueda.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// ready reports whether a node answers that it is ready.
func (r *rig) ready(p *process) bool { return isReady(context.Background(), &r.http, p.address) }

// edge returns the address of an edge that is ready, or "".
func (r *rig) edge() string {
	first := int(r.next.Add(1))
	for i := range r.edges {
		if p := r.edges[(first+i)%len(r.edges)]; r.ready(p) {
			return p.address
		}
	}
	return ""
}

// awaitReady waits until all nodes are ready.
func (r *rig) awaitReady(limit time.Duration) {
	r.t.Helper()
	until := time.Now().Add(limit)
	for _, p := range r.nodes {
		for !r.ready(p) {
			if time.Now().After(until) {
				r.t.Fatalf("%s is not ready after %v", p.name, limit)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// follower is a client that checks each trade that it receives.
type follower struct {
	client  *client.Client
	mu      sync.Mutex
	trades  map[string]string // instrument and N: its content
	last    map[string]uint64
	wrong   []string
	newest  time.Time     // of the last trade
	silence time.Duration // longest time without a trade, since it was reset
}

// follow starts a client that receives all trades until the context ends.
func (r *rig) follow(ctx context.Context, all *sync.WaitGroup) *follower {
	c, err := client.New([]string{"http://" + r.balancer.address()}, client.Options{Username: command.DemoUser, Password: command.DemoUser, Strict: true, Queue: 1 << 16, Heartbeat: 2 * time.Second})
	if err == nil {
		err = c.Subscribe(client.Set{Trades: []string{"*|BYMA|*"}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	f := &follower{client: c, trades: map[string]string{}, last: map[string]uint64{}}
	all.Go(func() {
		for e := range c.Events(ctx) {
			switch e := e.(type) {
			case client.Trade:
				f.trade(&e)
			case client.Lost:
				f.fail("lost %v", e)
			}
		}
		if err := c.Err(); err != nil && ctx.Err() == nil {
			f.fail("the client ended: %v", err)
		}
	})
	return f
}

func (f *follower) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

func (f *follower) trade(e *client.Trade) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, id := time.Now(), e.Instrument.String()
	if last, ok := f.last[id]; ok && e.N != last+1 {
		f.wrong = append(f.wrong, fmt.Sprintf("%s: N %d after %d", id, e.N, last))
	}
	f.last[id] = e.N
	f.trades[fmt.Sprint(id, " ", e.N)] = fmt.Sprint(e.Kind, e.Price, e.Size, e.Side, e.ID, e.Time)
	if !f.newest.IsZero() {
		f.silence = max(f.silence, now.Sub(f.newest))
	}
	f.newest = now
}

// longest returns the longest silence since the last call.
func (f *follower) longest() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.silence
	f.silence = 0
	return s
}

// received returns the number of trades.
func (f *follower) received() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.trades)
}

// checkFollowers checks that no client has lost or doubled a trade, and that all received the same.
func checkFollowers(t *testing.T, all []*follower) {
	t.Helper()
	agreed := map[string]string{}
	for i, f := range all {
		for _, text := range f.wrong {
			t.Errorf("client %d: %s", i, text)
		}
		for key, content := range f.trades {
			if was, ok := agreed[key]; ok && was != content {
				t.Errorf("client %d received %s as %s, and another one as %s", i, key, content, was)
			}
			agreed[key] = content
		}
	}
	if len(agreed) < 100 {
		t.Errorf("only %d trades", len(agreed))
	}
	t.Logf("%d clients, %d trades", len(all), len(agreed))
}

// checkJournals stops the nodes and checks that their journals have the same rows.
func (r *rig) checkJournals() {
	t := r.t
	t.Helper()
	for _, p := range r.nodes[:2] {
		p.signal(syscall.SIGTERM)
	}
	time.Sleep(500 * time.Millisecond) // the edges get the last rows
	for _, p := range r.edges {
		p.signal(syscall.SIGTERM)
	}
	first := ""
	for i, p := range r.edges {
		j, err := journal.OpenReader(filepath.Join(r.folder, p.name, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		err = j.Scan(t.Context(), journal.ScanStart{}, nil, ^journal.Checkpoints, func(row *journal.Row) bool {
			if row.Position != last+1 {
				t.Errorf("%s: position %d comes after %d", p.name, row.Position, last)
			}
			last = row.Position
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		hash, err := j.Hash(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rows, hash %.12s", p.name, last, hash)
		if i == 0 {
			first = hash
		} else if hash != first {
			t.Errorf("the journal of %s differs", p.name)
		}
	}
}

// TestKillEachProcessE2E kills each process in turn with kill -9 and starts it again, while clients
// follow over all edges. No client loses or doubles a trade, and all journals have the same rows.
func TestKillEachProcessE2E(t *testing.T) {
	r := newRig(t, 3, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var all []*follower
	for range 6 {
		all = append(all, r.follow(ctx, &running))
	}
	r.awaitTrades(all, 50)
	for _, p := range append(append([]*process{}, r.nodes...), r.nats...) {
		for _, f := range all {
			f.longest()
		}
		p.signal(syscall.SIGKILL)
		time.Sleep(2 * time.Second)
		p.start(t)
		r.awaitReady(40 * time.Second)
		r.awaitTrades(all, 5)
		var most time.Duration
		for _, f := range all {
			most = max(most, f.longest())
		}
		t.Logf("%s killed: longest silence of a client %v", p.name, most.Round(10*time.Millisecond))
	}
	r.checkAll(all, cancel, &running)
}

// awaitTrades waits until all clients have received some more trades.
func (r *rig) awaitTrades(all []*follower, n int) {
	r.t.Helper()
	for i, f := range all {
		until := time.Now().Add(30 * time.Second)
		for want := f.received() + n; f.received() < want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				r.t.Fatalf("client %d receives nothing", i)
			}
		}
	}
}

// checkAll ends the clients and the nodes, and checks what they have.
func (r *rig) checkAll(all []*follower, cancel context.CancelFunc, running *sync.WaitGroup) {
	cancel()
	running.Wait()
	checkFollowers(r.t, all)
	r.checkJournals()
}

// TestPausedLeaderE2E stops the sequencer past its lease (SIGSTOP) and continues it. Another one
// takes its place, and no row of the first one follows.
func TestPausedLeaderE2E(t *testing.T) {
	r := newRig(t, 1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	all := []*follower{r.follow(ctx, &running), r.follow(ctx, &running)}
	r.awaitTrades(all, 20)
	for range 3 {
		for _, p := range r.nodes[:2] { // one of them leads
			p.signal(syscall.SIGSTOP)
			time.Sleep(4 * time.Second)
			r.awaitTrades(all, 5)
			p.signal(syscall.SIGCONT)
			r.awaitTrades(all, 5)
		}
	}
	r.checkAll(all, cancel, &running)
}
