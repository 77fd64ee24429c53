package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	log "github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// forged returns a message that no node sends, for a subject between the nodes.
func forged(rng *rand.Rand, subject string) []byte {
	numbers := []any{-1, 0, 1, math.MaxInt64, uint64(math.MaxUint64), 1e300, "1", nil}
	texts := []any{"edge-1", "sequencer-1", "", ">", "../..", "a b\r\nPUB x 1\r\n", strings.Repeat("x", 5000), rng.Uint64(), nil}
	number, text := func() any { return numbers[rng.IntN(len(numbers))] }, func() any { return texts[rng.IntN(len(texts))] }
	name := func() any {
		if rng.IntN(2) == 0 {
			return fmt.Sprint("node-", rng.Uint64())
		}
		return text()
	}
	term := func() any { return map[string]any{"Number": number(), "Leader": number()} }
	history := map[string]any{"Epoch": text(), "Starts": []any{map[string]any{"Term": term(), "After": number()}, nil}}
	m := map[string]any{}
	switch subject {
	case "report", "report.sequencer-1":
		m = map[string]any{"Node": name(), "Census": number(), "Shows": true, "Number": number(), "Complete": true, "History": history, "Highest": number(), "Position": number(), "Time": number()}
	case "census":
		m = map[string]any{"From": name(), "ID": number()}
	case "fetch":
		m = map[string]any{"Node": text(), "Epoch": text(), "After": map[string]any{"Term": term(), "Position": number()}, "Upto": number()}
	case "days":
		m = map[string]any{"Node": name(), "Days": []any{map[string]any{"Date": text(), "Hash": text(), "From": number(), "Oldest": true}, nil}}
	case "sessions":
		list := make([]any, rng.IntN(200))
		for i := range list {
			list[i] = map[string]any{"t": number(), "n": text(), "c": number()}
		}
		m = map[string]any{
			"node": name(), "start": number(), "change": rng.IntN(5), "clock": []any{0, 1<<62 - 1, number()}[rng.IntN(3)], "part": rng.IntN(2),
			"kind": []string{"beat", "change", "whole", "ask"}[rng.IntN(4)], "users": []any{map[string]any{"u": fmt.Sprint(rng.Uint64()), "s": list}},
		}
	default:
		m = map[string]any{"Op": []string{"offer", "list", "read", "sum", "state", "x"}[rng.IntN(6)], "Name": []any{"2025-11-21/day.idx", "../cluster.json", text()}[rng.IntN(3)], "Offset": number(), "Size": number()}
	}
	data, err := json.Marshal(m)
	if err != nil || rng.IntN(20) == 0 {
		return data[:len(data)/2]
	}
	return data
}

// TestForgedMessagesE2E requires that messages between the nodes that no node sends neither end a
// node, nor stop the rows, nor fill the memory, and that the nodes exchange sessions afterwards.
func TestForgedMessagesE2E(t *testing.T) {
	n := startNodes(t, 2)
	x := n.list[1]
	b, fault := x.connect(t, x.login(t, command.DemoUser).Access, "bot")
	if fault != "" {
		t.Fatal(fault)
	}
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}})
	b.until(func(m message) bool { return m.Type == "T" && !m.R })
	hostile, err := nats.Connect(n.nats.url())
	if err != nil {
		t.Fatal(err)
	}
	defer hostile.Close()
	memory := func() (s runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s
	}
	before := memory()
	subjects := []string{"report", "report.sequencer-1", "census", "fetch", "copy", "copy.edge-1", "copy.sequencer-1", "days", "sessions", "unknown"}
	rng := rand.New(rand.NewPCG(7, 7))
	const rounds = 40
	for range rounds {
		for range 500 {
			subject := subjects[rng.IntN(len(subjects))]
			if err := hostile.PublishRequest("rueda.test."+subject, hostile.NewInbox(), forged(rng, subject)); err != nil {
				t.Fatal(err)
			}
		}
		if err := hostile.Flush(); err != nil {
			t.Fatal(err)
		}
		b.until(func(m message) bool { return m.Type == "T" && !m.R })
		for _, x := range n.list {
			select {
			case err := <-x.ended:
				t.Fatalf("%s has ended: %v", x.name, err)
			default:
			}
		}
	}
	after := memory()
	t.Logf("figure: %d forged messages, heap %d to %d MiB, %d goroutines", rounds*500, before.HeapAlloc>>20, after.HeapAlloc>>20, runtime.NumGoroutine())
	if after.HeapAlloc > before.HeapAlloc+256<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before.HeapAlloc>>20, after.HeapAlloc>>20)
	}
	for _, x := range n.list {
		n.await(x, true)
	}
	y := n.list[2]
	late, fault := y.connect(t, y.login(t, command.DemoUser).Access, "bot")
	if fault != "" {
		t.Fatalf("a connection is refused: %s", fault)
	}
	b.closed("replaced", 4409)
	late.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}})
	late.until(func(m message) bool { return m.Type == "T" })
}

// TestAnswersOfTwoNodesE2E requires that a request whose answer has several parts gets those of one
// node, when others answer at the same time.
func TestAnswersOfTwoNodesE2E(t *testing.T) {
	servers, err := startServers(serversConfig{nodes: 1, folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.stop()
	dial := func(node string) *log.Session {
		c := log.Config{URLs: []string{servers.url()}, Cluster: "c", Node: node, Bytes: 1 << 30}
		if err := c.Fill(); err != nil {
			t.Fatal(err)
		}
		x, err := log.Dial(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const parts = 20
	var answering sync.WaitGroup
	var steps []chan bool // of the nodes: each sends another part when one has come
	over := make(chan struct{})
	for _, node := range []string{"a", "b", "c"} {
		x := dial(node)
		defer x.Close()
		if err := x.Listen("fetch"); err != nil {
			t.Fatal(err)
		}
		next := make(chan bool, 100*parts)
		steps = append(steps, next)
		answering.Go(func() {
			var came *log.Arrival
			select {
			case came = <-x.Messages():
			case <-over: // the request came before it listened
				return
			}
			m, err := x.Parse(came)
			for i := range parts {
				err = errors.Join(err, x.Answer(m, []byte(node), i < parts-1))
				<-next
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	defer func() { // before their sessions are closed: a node may still answer
		close(over)
		answering.Wait()
	}()
	asks := dial("new")
	defer asks.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var came []string
	for len(came) == 0 && ctx.Err() == nil { // until they listen
		err := asks.AskEach(ctx, "fetch", nil, func(part []byte) error {
			came = append(came, string(part))
			for _, next := range steps {
				next <- true
			}
			return nil
		})
		if err != nil && len(came) > 0 {
			t.Error(err)
		}
	}
	for _, next := range steps {
		close(next)
	}
	if len(came) == 0 {
		t.Fatal("no node answers")
	}
	if first := came[0]; len(came) != parts || slices.ContainsFunc(came, func(x string) bool { return x != first }) {
		t.Errorf("the parts are of %q", came)
	}
}
