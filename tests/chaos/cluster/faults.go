//go:build linux

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/producer"
)

// Faults makes processes and connections of a cluster fail. The kinds, their order and their
// durations depend on the seed only.
type Faults struct {
	Cluster *Cluster
	Random  *rand.Rand
	Report  *check.Report
	Logf    func(format string, args ...any)
	Late    func() time.Duration // time from the end of the newest bar of a second until it came

	deck    []fault       // the next ones
	slowest time.Duration // until all nodes were ready after a fault
	slow    string        // that fault
}

// fault is a kind of fault.
type fault struct {
	kind   string
	times  int // in one shuffled deck
	make   func(f *Faults, n *Node, d time.Duration, choice int)
	edge   bool // of an edge only
	server bool // of a NATS server, and not of a node
	alone  bool // not together with another fault
}

// faults lists the kinds of faults.
var faults = []fault{
	{kind: "kill -9", times: 2, make: func(_ *Faults, n *Node, d time.Duration, _ int) { n.Kill(); time.Sleep(d / 2); n.start() }},
	{kind: "SIGTERM", times: 1, make: func(f *Faults, n *Node, d time.Duration, _ int) { f.stop(n); time.Sleep(d / 4); n.start() }},
	{kind: "SIGSTOP", times: 1, make: suspend},
	{kind: "cut from NATS", times: 1, make: func(_ *Faults, n *Node, d time.Duration, _ int) {
		n.cut(d, Refuse, false, n.links...)
	}},
	{kind: "no answer of NATS", times: 1, make: func(_ *Faults, n *Node, d time.Duration, c int) {
		n.cut(d, Hold, c%2 == 0, n.links...)
	}},
	{kind: "one direction of NATS", times: 2, make: func(_ *Faults, n *Node, d time.Duration, c int) {
		n.cut(d, []Mode{HoldUp, HoldDown}[c%2], c%4 < 2, n.links...)
	}},
	{kind: "one server of NATS", times: 1, make: func(_ *Faults, n *Node, d time.Duration, c int) {
		n.cut(d, []Mode{Hold, HoldUp, HoldDown, Refuse}[c/3%4], c%2 == 0, n.links[c%3])
	}},
	{kind: "isolated", times: 1, make: func(_ *Faults, n *Node, d time.Duration, c int) {
		n.cut(d, []Mode{Hold, Refuse}[c%2], c%4 < 2, append([]*Relay{n.database}, n.links...)...)
	}},
	{kind: "PostgreSQL", times: 1, make: func(_ *Faults, n *Node, d time.Duration, c int) {
		n.cut(d, []Mode{Hold, HoldUp, HoldDown, Refuse}[c%4], c%8 < 4, n.database)
	}},
	{kind: "new edge", times: 1, make: newEdge, edge: true},
	{kind: "older folder", times: 1, make: older, alone: true},
	{kind: "kill -9 of NATS", times: 1, make: killServer, server: true},
}

// Run makes faults until ctx ends. After each it waits until all nodes are ready.
func (f *Faults) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		text := f.next()
		if late := f.Cluster.AwaitReady(time.Minute); late != "" {
			f.Report.Violation("ready", "%s is not a minute after %s", late, text)
			f.Cluster.AwaitReady(time.Minute)
		} else if d := time.Since(began); d > f.slowest {
			f.slowest, f.slow = d, text
		}
		producer.Wait(ctx, time.Duration(f.Random.IntN(3000))*time.Millisecond)
	}
}

// next makes one fault, or two at once, and returns what failed.
func (f *Faults) next() string {
	first := f.choose(nil)
	all := []chosen{first}
	if f.Random.IntN(3) == 0 && !first.alone {
		all = append(all, f.choose(&first))
	}
	text := ""
	var running sync.WaitGroup
	for i, x := range all {
		if f.Report.Count("faults "+x.kind, 1); i > 0 {
			text += " and "
		}
		text += x.text
		running.Go(func() { x.make(f, x.node, x.time, x.choice) })
	}
	f.Logf("%s; bars come %v late", text, f.Late().Round(time.Millisecond))
	running.Wait()
	return text
}

// chosen is a fault that was chosen.
type chosen struct {
	fault
	text   string
	node   *Node // nil: it is of a NATS server
	time   time.Duration
	choice int
}

// choose chooses a fault, perhaps one of another node that happens together with the first.
func (f *Faults) choose(first *chosen) chosen {
	x := chosen{fault: f.draw(first != nil), time: time.Duration(100+f.Random.IntN(5000)) * time.Millisecond, choice: f.Random.IntN(24)}
	name := ""
	if x.server {
		name = f.Cluster.Nats[x.choice%len(f.Cluster.Nats)].Name
	} else {
		for x.node == nil || x.edge && x.node.Role != "edge" || first != nil && x.node == first.node {
			x.node = f.Cluster.Nodes[f.Random.IntN(len(f.Cluster.Nodes))]
		}
		name = x.node.Name
	}
	x.text = fmt.Sprintf("%s: %s (%v, %d)", name, x.kind, x.time, x.choice)
	return x
}

// draw takes a kind from the deck, which has all of them. Those that happen alone are left for
// later.
func (f *Faults) draw(second bool) fault {
	for {
		for i, x := range f.deck {
			if !second || !x.alone && !x.server {
				f.deck = slices.Delete(f.deck, i, i+1)
				return x
			}
		}
		for _, x := range faults {
			f.deck = append(f.deck, slices.Repeat([]fault{x}, x.times)...)
		}
		f.Random.Shuffle(len(f.deck), func(i, k int) { f.deck[i], f.deck[k] = f.deck[k], f.deck[i] })
	}
}

// killServer kills a NATS server and starts it again.
func killServer(f *Faults, _ *Node, d time.Duration, choice int) {
	s := f.Cluster.Nats[choice%len(f.Cluster.Nats)]
	s.Kill()
	time.Sleep(d)
	_ = s.Start() // AwaitReady says if it fails
}

// stop stops a node as a service manager does.
func (f *Faults) stop(n *Node) {
	if !n.End(syscall.SIGTERM, 30*time.Second) {
		f.Report.Violation("SIGTERM", "%s has not ended after 30 s", n.Name)
	}
}

// start starts the node. AwaitReady says so if it fails.
func (n *Node) start() { _ = n.Start() }

// suspend stops the process and continues it.
func suspend(_ *Faults, n *Node, d time.Duration, _ int) {
	n.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	n.Signal(syscall.SIGCONT)
}

// cut changes the mode of relays for a time. With reset, what was held is lost.
func (n *Node) cut(d time.Duration, m Mode, reset bool, links ...*Relay) {
	for _, r := range links {
		r.Set(m)
	}
	time.Sleep(d)
	for _, r := range links {
		if reset {
			r.Reset()
		}
		r.Set(Pass)
	}
}

// newEdge replaces an edge by a new one without data.
func newEdge(f *Faults, n *Node, _ time.Duration, choice int) {
	if choice%2 == 0 {
		n.Kill()
	} else {
		f.stop(n)
	}
	if err := os.RemoveAll(n.data()); err != nil {
		f.Report.Violation("harness", "%v", err)
	}
	n.start()
}

// older copies the data of a stopped node, or puts an earlier copy back.
func older(f *Faults, n *Node, _ time.Duration, choice int) {
	if !n.copied || choice%2 == 0 {
		f.stop(n)
	} else {
		n.Kill()
	}
	from, to := n.data(), filepath.Join(n.folder, "copy")
	if n.copied {
		from, to = to, from
	}
	n.copied = !n.copied
	if err := os.RemoveAll(to); err != nil {
		f.Report.Violation("harness", "%v", err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		f.Report.Violation("harness", "copy the data of %s: %v %s", n.Name, err, out)
	}
	n.start()
}
