//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Node is a sequencer or an edge.
type Node struct {
	*Process
	Role    string // all, sequencer or edge
	Address string // for clients
	Feed    string // where a sequencer accepts lines; "": an edge

	folder   string
	links    []*Relay // to the NATS servers
	database *Relay
	copied   bool // an older copy of its data exists
}

// data returns the folder of its data.
func (n *Node) data() string { return filepath.Join(n.folder, "data") }

// Serves reports whether the node serves clients.
func (n *Node) Serves() bool { return n.Role != "sequencer" }

// Cluster is a running cluster.
type Cluster struct {
	Nodes []*Node
	Nats  []*Nats
	Token string // access token of the user of all clients

	program  string
	folder   string // of everything except PostgreSQL
	postgres *Process
	address  string // of PostgreSQL
	data     string // folder of PostgreSQL
}

// Of the user of all clients, of producers, and of the database.
const (
	userName   = "chaos"
	password   = "the password of all clients"
	FeedToken  = "the-token-of-the-producers-of-a-chaos-cluster"
	encryption = "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"
)

// New starts three NATS servers, PostgreSQL, two sequencers and edges, and waits until all are
// ready. The caller closes the cluster, and removes the folder.
func New(program, folder string, edges int) (c *Cluster, err error) {
	c = &Cluster{program: program, folder: folder}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.postgres, c.address, c.data, err = startPostgres(filepath.Join(folder, "postgres.log")); err != nil {
		return c, err
	}
	if c.Nats, err = newNats(folder, 3); err != nil {
		return c, err
	}
	for _, p := range c.Nats {
		if err := p.Start(); err != nil {
			return c, err
		}
	}
	var list []*Node
	for i := range 2 + edges {
		name, role := fmt.Sprintf("edge-%d", i-1), "edge"
		if i < 2 {
			name, role = fmt.Sprintf("sequencer-%d", i+1), []string{"all", "sequencer"}[i]
		}
		n, err := c.Add(name, role)
		if err != nil {
			return c, err
		}
		list = append(list, n)
	}
	if err := c.addUser(list[0]); err != nil {
		return c, err
	}
	for _, n := range list {
		if err := n.Start(); err != nil {
			return c, err
		}
	}
	if late := c.AwaitReady(time.Minute); late != "" {
		return c, fmt.Errorf("%s is not ready after a minute", late)
	}
	c.Token, err = stream.Login(context.Background(), list[0].Address, userName, password)
	return c, err
}

// Add adds a node, which is not started yet.
func (c *Cluster) Add(name, role string) (*Node, error) {
	n := &Node{Role: role, folder: filepath.Join(c.folder, name)}
	var servers []string
	for _, s := range c.Nats {
		r, err := NewRelay(s.address)
		if err != nil {
			return nil, err
		}
		n.links, servers = append(n.links, r), append(servers, "nats://"+r.Address())
	}
	var err error
	if n.database, err = NewRelay(c.address); err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	if n.Address = local(ports[0]); role != "edge" {
		n.Feed = local(ports[1])
	}
	file := filepath.Join(n.folder, "rueda.toml")
	err = os.Mkdir(n.folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.folder, "feed.token"), []byte(FeedToken+"\n"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(n.settings(name, servers)), 0o600)
	}
	n.Process = &Process{Name: name, Log: filepath.Join(c.folder, name+".log"), command: func() *exec.Cmd {
		cmd := exec.Command(c.program, "serve", "--config", file, "--role", n.Role)
		cmd.Env = c.environment(n.database.Address())
		return cmd
	}}
	c.Nodes = append(c.Nodes, n)
	return n, err
}

// environment returns the environment of a node with an address of the database.
func (c *Cluster) environment(database string) []string {
	return append(os.Environ(), "RUEDA_ENCRYPTION_KEY="+encryption, "RUEDA_DATABASE_URL=postgres://rueda@"+database+"/rueda?sslmode=disable")
}

// settings returns the configuration of the node.
func (n *Node) settings(name string, servers []string) string {
	text := fmt.Sprintf(`listen = %q
data = "data"
drain = "200ms"
[database]
url_env = "RUEDA_DATABASE_URL"
[keys]
encryption_key_env = "RUEDA_ENCRYPTION_KEY"
[limits]
connections = 10000
messages_per_second = 1000
requests_per_minute = 1000000
history_per_user = 100
handshakes = 10000
unauthenticated_per_address = 10000
[journal]
segment = "16MiB"
[cluster]
name = "chaos"
node = %q
nats = ["%s"]
bytes = "512MiB"
lease = "1s"
`, n.Address, name, strings.Join(servers, `", "`))
	if n.Feed != "" {
		text += fmt.Sprintf("[[feed]]\nname = \"lines\"\ntype = \"ndjson\"\nlisten = %q\ntoken_file = \"feed.token\"\n", n.Feed)
	}
	return text
}

// Feeds returns the addresses where producers connect.
func (c *Cluster) Feeds() (list []string) {
	for _, n := range c.Nodes {
		if n.Feed != "" {
			list = append(list, n.Feed)
		}
	}
	return list
}

// addUser adds the user of all clients, who may see everything.
func (c *Cluster) addUser(n *Node) error {
	cmd := exec.Command(c.program, "user", "add", userName, "--rights", "all", "--password-stdin", "--config", filepath.Join(n.folder, "rueda.toml"))
	cmd.Env, cmd.Stdin = c.environment(c.address), strings.NewReader(password+"\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("add the user: %w\n%s", err, out)
	}
	return nil
}

// Ready reports whether the node answers that it is ready.
func (n *Node) Ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return stream.Ready(ctx, n.Address)
}

// AwaitReady waits until all servers are healthy and all nodes ready. It returns the name of one
// that is not.
func (c *Cluster) AwaitReady(limit time.Duration) (late string) {
	until := time.Now().Add(limit)
	await := func(name string, ok func() bool) bool {
		for !ok() {
			if time.Now().After(until) {
				late = name
				return false
			}
			time.Sleep(20 * time.Millisecond)
		}
		return true
	}
	for _, s := range c.Nats {
		if !await(s.Name, s.Healthy) {
			return late
		}
	}
	for _, n := range c.Nodes {
		if !await(n.Name, n.Ready) {
			return late
		}
	}
	return ""
}

// Close ends all processes.
func (c *Cluster) Close() error {
	var all sync.WaitGroup
	for _, n := range c.Nodes {
		if n.Process != nil {
			all.Go(n.Kill)
		}
		for _, r := range append(n.links, n.database) {
			if r != nil {
				all.Go(r.Close)
			}
		}
	}
	for _, p := range c.Nats {
		all.Go(p.Kill)
	}
	if c.postgres != nil {
		all.Go(func() { c.postgres.End(syscall.SIGQUIT, 10*time.Second) })
	}
	all.Wait()
	if c.data == "" {
		return nil
	}
	return os.RemoveAll(c.data)
}
