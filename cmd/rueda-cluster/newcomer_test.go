package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/host"
	log "github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
)

// startNATS starts a NATS server for a test, with the empty stream of a cluster.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	s, err := startServers(serversConfig{nodes: 1, folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	// A node that may be the sequencer makes the stream. It ends before it leads.
	cfg := log.Config{URLs: []string{s.url()}, Cluster: benchCluster, Node: "sequencer-1", Bytes: 1 << 30}
	if err = cfg.Fill(); err == nil {
		var session *log.Session
		if session, err = log.Dial(t.Context(), cfg); err == nil {
			session.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.url()
}

// startEdge runs an edge with a journal, and a state that says that its rows are those of the log.
func startEdge(t *testing.T, name, url string, d journaltest.Days) *edgeNode {
	t.Helper()
	folder := t.TempDir()
	d.Folder, d.Epoch = filepath.Join(folder, "journal"), "e"
	d.Write(t)
	state := cluster.State{History: cluster.History{Epoch: "e", Starts: []cluster.Start{{Term: cluster.Term{Number: 1, Leader: 1}}}}, Position: d.Position()}
	text, err := json.Marshal(state)
	if err == nil {
		err = os.MkdirAll(filepath.Join(folder, "node"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "node", "cluster.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := openEdge(t.Context(), name, url, folder)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return e
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

// vanishing is a node that offers the best journal, sends the list of its files, and then vanishes.
type vanishing struct{ asked atomic.Int32 }

func (v *vanishing) start(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	answer := func(m *nats.Msg) {
		var r copying.Request
		var content any
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return
		}
		switch r.Op {
		case copying.OpOffer:
			days := make([]copying.Day, 9)
			for i := range days {
				days[i].Date = fmt.Sprintf("2025-11-0%d", i+1)
			}
			content = copying.Offer{Node: "vanishing", Epoch: "e", Epochs: []string{"e"}, Position: 1 << 40, Days: days}
		case copying.OpList:
			content = copying.Listing{Files: []copying.File{{Name: "2025-11-21/00000001.seg", Size: 1 << 20}}}
		default:
			v.asked.Add(1)
			nc.Close()
			return
		}
		if text, err := json.Marshal(content); err == nil {
			_ = m.Respond(append([]byte("c"), text...)) // the test waits for what follows
		}
	}
	for _, subject := range []string{"rueda." + benchCluster + ".copy", "rueda." + benchCluster + ".copy.vanishing"} {
		if _, err := nc.Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestNewcomer checks that a node with an empty journal copies that of another one when the stream
// has no rows, also if the first node that it asks vanishes in the middle. It is not ready, and
// serves nothing, until it has started again with the newest days. The earlier days follow while
// it runs.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	peer := startEdge(t, "edge-1", url, journaltest.Days{Closed: 5, Rows: 500})
	var v vanishing
	v.start(t, url)
	await(t, "edge-1 is connected", peer.host.Connected)
	folder := t.TempDir()
	e, err := openEdge(t.Context(), "edge-2", url, folder)
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := e.run(limited); !errors.Is(err, host.ErrCopied) {
		t.Fatalf("the node ends with %v", err)
	}
	if n := v.asked.Load(); n != 1 {
		t.Errorf("the node that vanished was asked for %d pieces", n)
	}
	if e.host.Ready() == nil || e.host.Serves() == nil || e.hub.Figures().Position != 0 {
		t.Error("a node without a journal is ready, or serves something")
	}
	if e, err = openEdge(t.Context(), "edge-2", url, folder); err != nil {
		t.Fatal(err)
	}
	if n := len(e.journal.Earlier()); n != 4 || e.host.Figures().DaysMissing != 4 || e.journal.Begins() != 4*500 {
		t.Errorf("%d days are missing, %+v, the journal begins after %d", n, e.host.Figures(), e.journal.Begins())
	}
	if s := e.host.Status(); s.Position != 3000 || s.Epoch != "e" || s.Term.Number != 1 {
		t.Errorf("%+v", s)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	await(t, "all earlier days are copied", func() bool { return e.host.Figures().DaysMissing == 0 })
	want, err := peer.journal.Hash(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.journal.Hash(t.Context(), "")
	if err != nil || got != want || e.journal.Begins() != 0 {
		t.Errorf("hash %s, want %s, %v; begins after %d", got, want, err, e.journal.Begins())
	}
	if stop(); <-ended != nil {
		t.Error("the node ended with an error")
	}
}

// TestOwnRows checks that a gateway with rows of its own ends when it joins a cluster whose log has
// begun, also if the log does not have its first rows any more.
func TestOwnRows(t *testing.T) {
	t.Parallel()
	servers, err := startServers(serversConfig{nodes: 1, folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.stop()
	url := servers.url()
	if _, err := fillLog(t.Context(), url, 20_000); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []uint64{1, 5} { // sequence of the first message
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "rueda-"+benchCluster)
		if err == nil && keep > 1 {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSequence(keep))
		}
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		folder := t.TempDir()
		journaltest.Days{Folder: filepath.Join(folder, "journal"), Epoch: "own", Closed: 1, Rows: 100}.Write(t)
		e, err := openEdge(t.Context(), "edge-1", url, folder)
		if err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := e.run(limited); err == nil || !strings.Contains(err.Error(), "before this node was in the cluster") {
			t.Errorf("from message %d: %v", keep, err)
		}
		cancel()
	}
}

// TestDaysOfNodes checks that nodes find a closed day of one of them that was changed by hand.
func TestDaysOfNodes(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	market := journaltest.Days{Closed: 3, Rows: 200}
	changed := market
	changed.Wrong = 250
	nodes := []*edgeNode{startEdge(t, "edge-1", url, market), startEdge(t, "edge-2", url, changed), startEdge(t, "edge-3", url, market)}
	for i, e := range nodes {
		await(t, "a node sees the difference", func() bool { return e.host.Figures().DaysDiffer > 0 })
		if n := e.host.Figures().DaysDiffer; n != 1 {
			t.Errorf("node %d: %d days differ", i+1, n)
		}
	}
	var days []journal.Day
	for _, d := range nodes[1].journal.Days() {
		if d.Closed {
			days = append(days, d)
		}
	}
	if len(days) != 3 || days[1].Date != "2025-11-22" {
		t.Errorf("days %+v", days)
	}
}
