package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestNewEdgeE2E adds an edge with an empty journal when the stream does not have the first rows
// any more. It copies the journal of another node and starts again, as its service manager starts
// it. Its history is that of the others, and at the end it has the same rows.
func TestNewEdgeE2E(t *testing.T) {
	r := newRig(t, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	all := []*follower{r.follow(ctx, &running)}
	r.awaitTrades(all, 100)
	r.purge(3)
	began := time.Now()
	p := r.addEdge("edge-2")
	r.awaitReady(2 * time.Minute)
	t.Logf("figure: a new edge is ready after %v", time.Since(began).Round(10*time.Millisecond))
	if text, err := os.ReadFile(p.log); err != nil || !strings.Contains(string(text), "was copied: start the process again") {
		t.Errorf("the edge has not copied a journal: %v\n%s", err, text)
	}
	r.awaitTrades(all, 20)
	one, two := r.reader(r.edges[0].address), r.reader(p.address)
	defer one.Close()
	defer two.Close()
	for id := range all[0].lasts() {
		a, b := history(t, one, id), history(t, two, id)
		if n := min(len(a), len(b)); n == 0 || !slices.Equal(a[:n], b[:n]) {
			t.Errorf("history of %s at edge-1:\n%s\nat edge-2:\n%s", id, a, b)
		}
	}
	r.checkAll(all, cancel, &running)
}

// addEdge starts an edge with an empty folder.
func (r *rig) addEdge(name string) *process {
	r.t.Helper()
	ports, err := freePorts(2)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{name: name, kind: "edge", address: local1(ports[0]), admin: local1(ports[1])}
	file := r.config(p, 0, []string{"nats://" + r.nats[0].address})
	r.run(p, func() *exec.Cmd {
		cmd := exec.Command(r.program, "serve", "--config", file)
		cmd.Env = append(os.Environ(), "RUEDA_ENCRYPTION_KEY="+encryptor)
		return cmd
	})
	r.nodes, r.edges = append(r.nodes, p), append(r.edges, p)
	return p
}

// purge removes the messages of the stream except for the newest ones.
func (r *rig) purge(keep uint64) {
	r.t.Helper()
	nc, err := nats.Connect("nats://" + r.nats[0].address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		r.t.Fatal(err)
	}
	stream, err := js.Stream(r.t.Context(), "rueda-test")
	if err == nil {
		err = stream.Purge(r.t.Context(), jetstream.WithPurgeKeep(keep))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// reader returns a client of one edge.
func (r *rig) reader(address string) *client.Client {
	r.t.Helper()
	c, err := client.New([]string{"http://" + address}, client.Options{Username: command.DemoUser, Password: command.DemoUser})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// history returns the first trades of an instrument.
func history(t *testing.T, c *client.Client, instrument string) (list []string) {
	t.Helper()
	for e, err := range c.Trades(t.Context(), instrument, client.Range{Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(e.N, e.Kind, e.Price, e.Size, e.Side, e.ID, e.Time))
	}
	return list
}
