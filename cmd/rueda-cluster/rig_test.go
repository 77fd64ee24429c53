package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	demo "github.com/ruedahq/rueda/internal/ops/cli/server"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// rigOptions say what a rig has besides two sequencers.
type rigOptions struct {
	nats, edges int
	postgres    bool                     // the nodes share PostgreSQL instead of a SQLite file
	relays      bool                     // between the processes, so that pairs of them can be cut
	program     string                   // of the nodes; "": built from this tree
	older       bool                     // program is that of older; needs postgres
	drain       string                   // of a node; "": 100ms
	lease       string                   // of the sequencer; "": 1s
	clients     int                      // of swarm; clientsOfBot of them share a user
	speed       float64                  // of the simulated exchange; 0: 10
	delays      bool                     // the user late gets trades after dataDelay
	limits      bool                     // of handshakes and sockets by address are the default ones
	clocks      map[string]time.Duration // by node: how far its clock is ahead; the program is that of wrongClocks
}

// rig is a cluster of real processes, with a balancer in front of the edges.
type rig struct {
	rigOptions
	t        *testing.T
	folder   string
	nats     []*process
	nodes    []*process // first the sequencers
	edges    []*process
	shared   *pgtest.Server // PostgreSQL; nil: SQLite
	env      []string       // of the nodes
	links    []*link        // between processes
	feeds    []string       // addresses where the sequencers accept lines
	balancer *relay
	next     atomic.Uint64
	http     http.Client
}

// link is a relay between two processes.
type link struct {
	from, to string
	*relay
}

// programFolder names the folder of the built program in the environment.
const programFolder = "RUEDA_CLUSTER_TEST_PROGRAM"

// rueda builds the program once.
var rueda = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(programFolder), "rueda")
	return path, build("../..", path)
})

// build builds the program of a tree. Two trees share what they have in common (-trimpath).
func build(tree, path string, flags ...string) error {
	args := append([]string{"build", "-C", tree, "-trimpath", "-o", path}, flags...)
	if out, err := exec.Command("go", append(args, "./cmd/rueda")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build rueda: %w: %s", err, out)
	}
	return nil
}

// newRig starts NATS servers, two sequencers and edges.
func newRig(t *testing.T, nats, edges int) *rig {
	t.Helper()
	return startRig(t, rigOptions{nats: nats, edges: edges})
}

// Of the users and operators of a rig.
const (
	botSecret = "the password of all bots"
	operator  = "the-token-of-the-operator-of-a-rig"
	encryptor = "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"
)

// startRig starts the processes of a rig, and waits until the nodes are ready.
func startRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	r := &rig{rigOptions: o, t: t, folder: t.TempDir(), http: http.Client{Timeout: time.Second}}
	if r.program == "" {
		program, err := rueda()
		if err != nil {
			t.Fatal(err)
		}
		r.program = program
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); running.Wait() })
	run := func(x *relay) { running.Go(func() { x.run(ctx) }) }

	ports, err := freePorts(2*o.nats + 2*(2+o.edges) + 2)
	if err != nil {
		t.Fatal(err)
	}
	take := func(n int) (list []int) { list, ports = ports[:n], ports[n:]; return list }
	via := func(from, to, address string) string { return r.via(ctx, run, from, to, address) }
	clients := r.startNats(take(o.nats), take(o.nats), via)
	data := gateway.DataConfig{Folder: filepath.Join(r.folder, "data"), EncryptionKey: encryptor}
	var database *url.URL
	if o.postgres {
		r.shared, database = openPostgres(t)
		data.Folder, data.Postgres = "", database.String()
	}
	addUsers(t, data, 1+o.clients/clientsOfBot, o.delays)
	if o.older {
		downgrade(t, database)
	}
	for _, p := range take(2) {
		r.feeds = append(r.feeds, local1(p))
	}
	for i := range 2 + o.edges {
		name, role := fmt.Sprintf("edge-%d", i-1), "edge"
		if i < 2 {
			name, role = fmt.Sprintf("sequencer-%d", i+1), "sequencer"
		}
		var urls []string
		for k, a := range clients {
			urls = append(urls, "nats://"+via(name, fmt.Sprintf("nats-%d", k+1), a))
		}
		env := append(os.Environ(), "RUEDA_ENCRYPTION_KEY="+encryptor)
		if o.postgres {
			u := *database
			u.Host = via(name, "postgres", database.Host)
			env = append(env, "RUEDA_DATABASE_URL="+u.String())
		}
		if ahead := o.clocks[name]; ahead != 0 {
			env = append(env, fmt.Sprintf("%s=%d", clockAhead, int(ahead.Seconds())))
		}
		p := &process{name: name, kind: role, address: local1(take(1)[0]), admin: local1(take(1)[0])}
		file := r.config(p, i, urls)
		program := r.program
		r.run(p, func() *exec.Cmd {
			cmd := exec.Command(program, "serve", "--config", file)
			cmd.Env = env
			return cmd
		})
		if r.nodes = append(r.nodes, p); role == "edge" {
			r.edges = append(r.edges, p)
		}
	}
	if r.balancer, err = newRelay(t.Context(), "127.0.0.1:0", r.edge); err != nil {
		t.Fatal(err)
	}
	run(r.balancer)
	r.awaitReady(time.Minute)
	return r
}

func local1(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// via returns the address of a relay between two processes, or the address itself in a rig without
// relays.
func (r *rig) via(ctx context.Context, run func(*relay), from, to, address string) string {
	if !r.relays {
		return address
	}
	x, err := newRelay(ctx, "127.0.0.1:0", func() string { return address })
	if err != nil {
		r.t.Fatal(err)
	}
	run(x)
	r.links = append(r.links, &link{from, to, x})
	return x.address()
}

// startNats starts the NATS servers, and returns their addresses for clients.
func (r *rig) startNats(ports, routes []int, via func(from, to, address string) string) (clients []string) {
	for i := range ports {
		c := natsProcess{Name: fmt.Sprintf("nats-%d", i+1), Folder: filepath.Join(r.folder, fmt.Sprintf("nats-%d", i+1)), Port: ports[i], Route: routes[i]}
		for k, p := range routes {
			if k != i {
				c.Routes = append(c.Routes, via(c.Name, fmt.Sprintf("nats-%d", k+1), local1(p)))
			}
		}
		text, err := json.Marshal(c)
		if err != nil {
			r.t.Fatal(err)
		}
		clients = append(clients, local1(c.Port))
		p := &process{name: c.Name, kind: "nats", address: local1(c.Port)}
		r.run(p, func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asNats+"="+string(text))
			return cmd
		})
		r.nats = append(r.nats, p)
	}
	return clients
}

// botName returns the name of a user with many connections.
func botName(number int) string { return fmt.Sprintf("bot-%d", number) }

// addUsers adds the demo users, some with many connections, and the user late.
func addUsers(t *testing.T, c gateway.DataConfig, bots int, late bool) {
	t.Helper()
	data, err := gateway.OpenData(t.Context(), c)
	if err == nil {
		err = demo.AddDemoUsers(t.Context(), data.Users)
	}
	for i := 0; i < bots && err == nil; i++ {
		_, err = data.Users.Add(t.Context(), local.NewUser{
			Username: botName(i), Password: botSecret, Scopes: []string{broker.ScopeRead, broker.ScopeWildcard, broker.ScopeHistory},
			Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}}, Limits: broker.Limits{Connections: 2 * clientsOfBot},
		})
	}
	if err == nil && late {
		_, err = data.Users.Add(t.Context(), lateUser)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
}

// run starts a process. It is killed at the end of the test.
func (r *rig) run(p *process, command func() *exec.Cmd) {
	p.log, p.command = filepath.Join(r.folder, p.name+".log"), command
	p.start(r.t)
	r.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		if r.t.Failed() {
			r.t.Logf("%s ended %d times by itself:\n%s", p.name, p.ends, endOf(p.log))
		}
	})
}

// endOf returns the end of a log, without its lines about single clients.
func endOf(log string) string {
	text, _ := os.ReadFile(log)
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `msg="client `) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-30):], "")
}

// config writes the configuration of a node, and returns its file.
func (r *rig) config(p *process, number int, urls []string) string {
	folder := filepath.Join(r.folder, p.name)
	token := filepath.Join(folder, "operator.token")
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(token, []byte(operator+"\n"), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	drain, lease, speed := cmp.Or(r.drain, "100ms"), cmp.Or(r.lease, "1s"), cmp.Or(r.speed, 10)
	limits := "handshakes = 10000\nunauthenticated_per_address = 10000"
	if r.limits {
		limits = ""
	}
	text := fmt.Sprintf(`listen = %q
data = %q
drain = %q
[admin]
listen = %q
token_file = %q
[keys]
encryption_key_env = "RUEDA_ENCRYPTION_KEY"
[limits]
logins_per_minute = 10000
login_burst = 10000
%s
[throttle]
account_logins_per_minute = 10000
account_login_burst = 10000
refreshes_per_minute = 10000
refresh_burst = 10000
user_refreshes_per_minute = 10000
user_refresh_burst = 10000
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
lease = %q
`, p.address, filepath.Join(r.folder, "data"), drain, p.admin, token, limits, filepath.Join(folder, "journal"), p.name, p.kind, strings.Join(urls, `", "`), len(urls), lease)
	if r.delays {
		text += fmt.Sprintf("[stream]\ndelays = [%q]\n", dataDelay)
	}
	if r.postgres {
		text += "[database]\nurl_env = \"RUEDA_DATABASE_URL\"\n"
	}
	if p.kind != "edge" {
		text += fmt.Sprintf("[[feed]]\nname = \"sim\"\ntype = \"sim\"\nseed = 7\nspeed = %.2f\n", speed)
		text += fmt.Sprintf("[[feed]]\nname = \"lines\"\ntype = \"ndjson\"\nlisten = %q\ntoken_file = %q\n", r.feeds[number], token)
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

// rigStatus is what rueda status prints about a node, in part.
type rigStatus struct {
	Ready   bool
	Cluster struct {
		Name, Node, Role, Leader, Epoch string
		Connected, Leads                bool
		Term, Position                  uint64
		Nodes                           []struct {
			Name     string
			Clients  bool
			Position uint64
		}
	}
}

// status runs rueda status for a node.
func (r *rig) status(p *process) (s rigStatus) {
	r.t.Helper()
	cmd := exec.Command(r.program, "status", "--admin", "http://"+p.admin, "--every", "100ms", "--output", "json")
	cmd.Env = append(os.Environ(), "RUEDA_ADMIN_TOKEN="+operator)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		r.t.Fatalf("rueda status of %s: %v, %s", p.name, err, out)
	}
	return s
}

// login returns an access token of a user with many connections.
func (r *rig) login(number int) string {
	r.t.Helper()
	body := strings.NewReader(`{"grant_type":"password","username":"` + botName(number) + `","password":"` + botSecret + `"}`)
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Post("http://"+r.edges[0].address+"/auth/token", "application/json", body)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Data.AccessToken == "" {
		r.t.Fatalf("login: %s, %v", answer.Status, err)
	}
	return got.Data.AccessToken
}
