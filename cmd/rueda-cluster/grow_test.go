package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestFromOneProcessE2E follows the steps of docs/cluster.md. It makes a cluster of a gateway that
// has served clients, restores it from a backup, and returns to one process. Each client receives
// each trade of the producer once, and the history of a new edge has the trades from before.
func TestFromOneProcessE2E(t *testing.T) {
	f := &fenced{t: t, folder: t.TempDir()}
	f.build()
	f.addUsers()
	ports, err := freePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	begin := func(name string) {
		i := slices.IndexFunc(f.nodes, func(n *fencedNode) bool { return n.name == name })
		if i < 0 {
			i = len(f.nodes)
			f.nodes = append(f.nodes, &fencedNode{name: name, address: "127.0.0.1:" + strconv.Itoa(ports[i]), folder: filepath.Join(f.folder, name)})
		}
		f.configure(f.nodes[i], urls, ports[3:])
		f.start(f.nodes[i])
	}
	run := func(names ...string) {
		f.feeds = nil
		for _, name := range names {
			begin(name)
			if urls != nil { // a gateway alone is ready when it has a producer
				f.awaitReady()
			}
		}
	}
	stop := func() {
		for _, n := range slices.Backward(f.nodes) {
			n.process.signal(syscall.SIGTERM)
		}
		f.nodes = f.nodes[:1]
	}
	p := &numbers{f: f}
	began := time.Now()
	// serve produces trades for a client of a node, and returns the history.
	serve := func(n *fencedNode) []string {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { p.run(ctx) })
		w := f.follow(ctx, &running, n)
		f.progress(p, w)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, text := range w.wrong {
			t.Errorf("client of %s: %s", n.name, text)
		}
		return f.history(n, began)
	}
	// check requires that the history has grown. With once, the producer has continued exactly.
	check := func(when string, before, after []string, once bool) {
		if len(before) < 50 || len(after) < len(before)+50 || !slices.Equal(after[:len(before)], before) {
			t.Fatalf("history before:\n%s\n%s:\n%s", before, when, after)
		}
		for i := len(before); i < len(after) && once; i++ {
			last, _ := strconv.Atoi(after[i-1])
			if after[i] != strconv.Itoa(last+1) {
				t.Errorf("%s: trade %s of the producer comes after %d", when, after[i], last)
			}
		}
	}

	run("sequencer-1")
	one := serve(f.nodes[0])
	stop()

	f.startServers()
	t.Cleanup(f.stopServers)
	for i := range 3 {
		urls = append(urls, "nats://"+f.server(i))
	}
	run("sequencer-1")
	f.nodes[0].process.signal(syscall.SIGTERM)
	begin("edge-1") // it waits, because the stream does not have the earlier rows
	f.await("edge-1 waits for a journal", func() bool {
		text, err := os.ReadFile(f.nodes[1].process.log)
		return err == nil && strings.Contains(string(text), "this new node has no journal yet")
	})
	run("sequencer-1", "sequencer-2")
	many := serve(f.nodes[1])
	check("in the cluster", one, many, true)

	backup := filepath.Join(f.folder, "backup")
	f.command("backup", backup, "--config", f.nodes[1].file)
	folders := f.nodes
	stop()
	f.deleteStream()
	for _, n := range folders {
		for _, name := range []string{"journal", "node"} {
			if n == f.nodes[0] {
				continue // a restore moves its state away
			}
			if err := os.RemoveAll(filepath.Join(n.folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.command("restore", backup, "--config", f.nodes[0].file, "--accept-older")
	if _, err := os.Stat(filepath.Join(f.nodes[0].folder, "node")); err == nil {
		t.Error("the restore has kept the state of the node")
	}
	f.forgets.Store(true) // a backup does not have the numbers of the producer
	run("sequencer-1", "edge-1")
	restored := serve(f.nodes[1])
	check("after a restore", many, restored, false)
	stop()

	urls = nil
	f.forgets.Store(false)
	run("sequencer-1")
	check("in one process again", restored, serve(f.nodes[0]), true)
}

// produce runs a producer. end stops it, and the clients that were started with ctx and all.
func (f *fenced) produce() (ctx context.Context, all *sync.WaitGroup, p *numbers, end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	all, p = &sync.WaitGroup{}, &numbers{f: f}
	all.Go(func() { p.run(ctx) })
	return ctx, all, p, func() { cancel(); all.Wait() }
}

// TestCorrectedNameE2E corrects the name of a cluster that has run, with the steps of
// docs/cluster.md. The nodes fill the stream of the new name from their journals. The epoch, the
// numbers and the producer continue.
func TestCorrectedNameE2E(t *testing.T) {
	f := newFenced(t)
	ctx, running, p, end := f.produce()
	defer end()
	w := f.follow(ctx, running, f.nodes[2])
	f.progress(p, w)
	for _, n := range slices.Backward(f.nodes) {
		n.process.signal(syscall.SIGTERM)
		text, err := os.ReadFile(n.file)
		if err == nil {
			err = os.Remove(filepath.Join(n.folder, "node", "cluster"))
		}
		if err != nil {
			t.Fatal(err)
		}
		f.write(n.file, strings.Replace(string(text), `name = "fence"`, `name = "fences"`, 1))
	}
	for _, n := range f.nodes {
		f.start(n)
	}
	f.awaitReady()
	f.progress(p, w, f.follow(ctx, running, f.nodes[3]))
	end()
	if len(w.epochs) != 1 || len(w.wrong) > 0 {
		t.Errorf("epochs %v, %q", w.epochs, w.wrong)
	}
}

// TestRowsOfItsOwnE2E starts an edge of a cluster without its cluster, so that it numbers rows of
// its own. It may not join again with them, and joins as a new node without its journal.
func TestRowsOfItsOwnE2E(t *testing.T) {
	f, began := newFenced(t), time.Now()
	ctx, running, p, end := f.produce()
	defer end()
	one, edge := f.follow(ctx, running, f.nodes[2]), f.nodes[3]
	f.progress(p, one)

	edge.process.signal(syscall.SIGTERM)
	within, err := os.ReadFile(edge.file)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	feeds := f.feeds
	f.feeds = nil
	f.configure(&fencedNode{name: "sequencer-3", address: edge.address, folder: edge.folder}, nil, ports)
	alone := &numbers{f: &fenced{t: t, feeds: f.feeds}}
	f.feeds = feeds
	f.start(edge)
	func() {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		alone.f.forgets.Store(true)
		running.Go(func() { alone.run(ctx) })
		f.progress(alone, f.follow(ctx, &running, edge))
	}()
	edge.process.signal(syscall.SIGTERM)

	f.write(edge.file, string(within))
	f.start(edge)
	f.await("the edge has refused its rows", func() bool {
		text, err := os.ReadFile(edge.process.log)
		return err == nil && strings.Contains(string(text), "To join as a new node instead: move the folder "+filepath.Join(edge.folder, "journal"))
	})
	f.kill(edge)
	if err := os.RemoveAll(filepath.Join(edge.folder, "journal")); err != nil {
		t.Fatal(err)
	}
	f.start(edge)
	f.awaitReady()
	two := f.follow(ctx, running, edge)
	f.progress(p, one, two)
	end()
	for i, w := range []*witness{one, two} {
		if len(w.epochs) != 1 || len(w.wrong) > 0 {
			t.Errorf("client %d: epochs %v, %q", i, w.epochs, w.wrong)
		}
	}
	if a, b := f.history(f.nodes[2], began), f.history(edge, began); !slices.Equal(a[:min(len(a), len(b))], b) || len(b) < 100 {
		t.Errorf("history of the edge:\n%s\nof another one:\n%s", b, a)
	}
}

// command runs a command of the program.
func (f *fenced) command(args ...string) {
	f.t.Helper()
	if out, err := exec.Command(f.program, args...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// history returns the numbers of the producer in the history of a node.
func (f *fenced) history(n *fencedNode, start time.Time) (list []string) {
	f.t.Helper()
	c, err := client.New([]string{"http://" + n.address}, client.Options{Username: command.DemoUser, Password: command.DemoUser})
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	for e, err := range c.Trades(f.t.Context(), fenceInstrument, client.Range{Start: start}) {
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, e.ID)
	}
	return list
}
