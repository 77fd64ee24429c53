package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/server"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// devConfig has the flags of dev.
type devConfig struct {
	listen            string
	data              string // "": a temporary folder
	nats              int    // servers
	edges, sequencers int
	seed              uint64
	verbose           bool
}

// devNode is a gateway of the cluster.
type devNode struct {
	name    string
	role    string
	relay   *relay // to NATS
	gateway *gateway.Gateway
	address atomic.Pointer[string]
	ready   atomic.Bool
}

// devCluster is a cluster in one process.
type devCluster struct {
	cfg    devConfig
	log    *slog.Logger
	folder string
	nats   servers
	nodes  []*devNode
	next   atomic.Uint64 // edge of the next client
	tasks  sync.WaitGroup
}

// dev runs a whole cluster until ctx ends.
func dev(ctx context.Context, args []string, out io.Writer) (err error) {
	var c devConfig
	f := newFlags("dev")
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address for clients, which are spread over the edges")
	f.StringVar(&c.data, "data", "", "folder for users, journals and the files of NATS (default: temporary)")
	f.IntVar(&c.nats, "nats", 1, "NATS servers: 1 or 3")
	f.IntVar(&c.edges, "edges", 3, "edges")
	f.IntVar(&c.sequencers, "sequencers", 2, "nodes that may be the sequencer, one of which is")
	f.Uint64Var(&c.seed, "seed", 42, "seed of the simulated market")
	f.BoolVar(&c.verbose, "v", false, "log information too, not only warnings")
	if err := f.Parse(args); err != nil {
		return err
	}
	if c.nats != 1 && c.nats != 3 || c.edges < 1 || c.edges > 16 || c.sequencers < 1 || c.sequencers > 8 {
		return errors.New("-nats is 1 or 3, -edges 1 to 16, -sequencers 1 to 8")
	}
	d := &devCluster{cfg: c, folder: c.data}
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelInfo
	}
	d.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if d.folder == "" {
		if d.folder, err = os.MkdirTemp("", "rueda-cluster-"); err != nil {
			return fmt.Errorf("make a folder for the cluster: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.folder)) }()
	}
	if d.nats, err = startServers(serversConfig{folder: filepath.Join(d.folder, "nats"), nodes: c.nats}); err != nil {
		return err
	}
	defer d.nats.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer d.tasks.Wait()
	defer cancel()
	return d.run(ctx, out)
}

// run starts the nodes and the balancer, and waits until ctx ends.
func (d *devCluster) run(ctx context.Context, out io.Writer) error {
	failed := make(chan error, 1)
	for i := range d.cfg.sequencers + d.cfg.edges {
		n := &devNode{name: fmt.Sprintf("edge-%d", i-d.cfg.sequencers+1), role: "edge"}
		if i < d.cfg.sequencers {
			n.name, n.role = fmt.Sprintf("sequencer-%d", i+1), "sequencer"
		}
		d.nodes = append(d.nodes, n)
		if err := d.start(ctx, n, failed); err != nil {
			return err
		}
	}
	balancer, err := newRelay(ctx, d.cfg.listen, d.edge)
	if err != nil {
		return err
	}
	d.tasks.Go(func() { balancer.run(ctx) })
	d.tasks.Go(func() { d.watch(ctx) })
	for d.edge() == "" {
		if ended, err := pauseUnlessEnded(ctx, failed); ended {
			return err
		}
	}
	fmt.Fprintf(out, `Ready: %d sequencers, %d edges and %d NATS in this process.
  REST and stream   http://%s, over all edges
  users             demo/demo and basic/basic
`, d.cfg.sequencers, d.cfg.edges, d.cfg.nats, balancer.address())
	for _, n := range d.nodes {
		fmt.Fprintf(out, "  %-17s http://%s\n", n.name, *n.address.Load())
	}
	fmt.Fprintln(out, `Try in two other terminals, at the top of the clone:
  go run ./cmd/rueda stream --trades --strict '*|BYMA|*'
  go run ./cmd/rueda trigger kill-leader
Ctrl-C ends the cluster.`)
	leader := ""
	for {
		if now := d.leader(); now != leader && now != "" {
			leader = now
			fmt.Fprintf(out, "%s  %s is the sequencer\n", time.Now().Format(time.TimeOnly), leader)
		}
		if ended, err := pauseUnlessEnded(ctx, failed); ended {
			return err
		}
	}
}

// pauseUnlessEnded waits for 50 ms. ended reports that a node has failed, with its error, or that
// ctx has ended.
func pauseUnlessEnded(ctx context.Context, failed <-chan error) (ended bool, err error) {
	select {
	case err := <-failed:
		return true, err
	case <-ctx.Done():
		return true, nil
	case <-time.After(50 * time.Millisecond):
		return false, nil
	}
}

// leader returns the name of the sequencer, or "".
func (d *devCluster) leader() string {
	for _, n := range d.nodes {
		if n.gateway.Leads() {
			return n.name
		}
	}
	return ""
}

// start starts a node.
func (d *devCluster) start(ctx context.Context, n *devNode, failed chan error) error {
	server0 := strings.Split(d.nats.url(), ",")
	var turn atomic.Uint64
	var err error
	n.relay, err = newRelay(ctx, "127.0.0.1:0", func() string {
		return strings.TrimPrefix(server0[int(turn.Add(1)-1)%len(server0)], "nats://")
	})
	if err != nil {
		return err
	}
	d.tasks.Go(func() { n.relay.run(ctx) })
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: filepath.Join(d.folder, "data")})
	if err != nil {
		return err
	}
	if err := server.AddDemoUsers(ctx, data.Users); err != nil {
		return errors.Join(err, data.Close())
	}
	bound := make(chan gateway.Bound, 1)
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Logger: d.log, Drain: time.Second, Faults: d.fault,
		Journal: gateway.Journal{Folder: filepath.Join(d.folder, n.name, "journal"), Days: 100 * 365, Bytes: 1 << 30, Segment: 64 << 20},
		Cluster: gateway.Cluster{Name: "dev", Node: n.name, Role: n.role, NATS: []string{"nats://" + n.relay.address()}, Replicas: d.cfg.nats, Bytes: 1 << 30},
		Limits:  gateway.Limits{LoginsPerMinute: 600, LoginBurst: 600},
		OnReady: func(b gateway.Bound) { bound <- b },
	}
	if n.role != "edge" {
		exchange, err := sim.New(sim.Config{Seed: d.cfg.seed})
		if err != nil {
			return errors.Join(err, data.Close())
		}
		cfg.Feeds = []gateway.Feed{{Name: "sim", Source: exchange}}
	}
	if n.gateway, err = gateway.New(ctx, cfg); err != nil {
		return errors.Join(err, data.Close())
	}
	d.tasks.Go(func() {
		if err := errors.Join(n.gateway.Run(ctx), data.Close()); err != nil {
			select {
			case failed <- fmt.Errorf("%s: %w", n.name, err):
			default:
			}
		}
	})
	select {
	case b := <-bound:
		n.address.Store(&b.Address)
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// watch notes which nodes are ready, until ctx ends.
func (d *devCluster) watch(ctx context.Context) {
	client := http.Client{Timeout: time.Second}
	for {
		for _, n := range d.nodes {
			n.ready.Store(isReady(ctx, &client, *n.address.Load()))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isReady reports whether a node wants clients.
func isReady(ctx context.Context, client *http.Client, address string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

// edge returns the address of the next edge that is ready, or "".
func (d *devCluster) edge() string {
	first := int(d.next.Add(1))
	for i := range d.nodes {
		if n := d.nodes[(first+i)%len(d.nodes)]; n.role == "edge" && n.ready.Load() {
			return *n.address.Load()
		}
	}
	return ""
}

// cutFor is how long a node that is killed stays away.
const cutFor = 5 * time.Second

// fault cuts the sequencer off from NATS, as if it was killed.
func (d *devCluster) fault(name string, _ market.InstrumentID) (string, error) {
	if name != wire.SimKillLeader {
		return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: "This cluster supports only the fault kill_leader"}
	}
	for _, n := range d.nodes {
		if n.gateway.Leads() {
			n.relay.set(cut)
			time.AfterFunc(cutFor, func() { n.relay.set(passing) })
			return n.name + " is cut off for " + cutFor.String() + ", and another node takes its place", nil
		}
	}
	return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: "No node is the sequencer now", Hint: "Retry in a moment"}
}
