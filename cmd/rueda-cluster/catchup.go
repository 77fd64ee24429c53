package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/host"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// catchUp measures how long an edge needs for the rows of a stream that it does not have: it reads
// them, applies them to its books, and writes its journal. The measure is a bare consumer that
// reads the same messages in the same run.
func catchUp(ctx context.Context, args []string, out io.Writer) error {
	f := newFlags("catchup")
	rows := f.Int("rows", 1_000_000, "number of rows in the stream")
	runs := f.Int("runs", 3, "number of runs")
	if err := f.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rueda-cluster-catchup-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	s, err := startServers(serversConfig{nodes: 1, folder: folder})
	if err != nil {
		return err
	}
	defer s.stop()
	l, err := fillLog(ctx, s.url(), *rows)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "stream   %s rows, %s bytes in %s messages\n", thousands(int(l.last)), thousands(l.bytes), thousands(l.messages))
	for i := range *runs {
		bare, err := l.readBare(ctx, s.url())
		if err != nil {
			return err
		}
		edge, err := l.follow(ctx, s.url(), filepath.Join(folder, fmt.Sprint("edge-", i)))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "catch-up bare %v   edge %v, %s rows/s   ratio %.1f\n", bare.Round(time.Millisecond), edge.Round(time.Millisecond),
			thousands(int(float64(l.last)/edge.Seconds())), edge.Seconds()/bare.Seconds())
	}
	return nil
}

// benchCluster is the cluster of this measurement.
const benchCluster = "bench"

// filledLog is a stream with rows of a simulated exchange. It implements hub.RowLog while it is
// filled.
type filledLog struct {
	wanted uint64
	stop   context.CancelFunc

	numbers map[market.InstrumentID]uint32
	enc     cluster.Encoder
	prev    uint64
	last    uint64
	groups  []cluster.Group

	bytes, messages int
}

// Define implements hub.RowLog.
func (l *filledLog) Define(def market.Instrument) uint32 {
	n, ok := l.numbers[def.ID]
	if !ok {
		n = uint32(len(l.numbers) + 1)
		l.numbers[def.ID] = n
	}
	if text, err := json.Marshal(def); err == nil && !l.full() {
		l.enc.Define(n, text)
	}
	return n
}

func (l *filledLog) full() bool { return l.last >= l.wanted }

// Append implements hub.RowLog.
func (l *filledLog) Append(r *journal.Row) {
	if l.full() {
		l.stop()
		return
	}
	if !l.enc.Fits(r) || l.enc.Len() >= batchBytes-1024 {
		l.cut()
	}
	l.enc.Append(r)
	l.last = r.Position
}

func (l *filledLog) cut() {
	g := l.enc.Group(l.prev)
	l.groups, l.prev = append(l.groups, g), g.Last
}

// fillLog makes a stream with the rows that a sequencer would append.
func fillLog(ctx context.Context, url string, rows int) (*filledLog, error) {
	filling, stop := context.WithCancel(ctx)
	defer stop()
	l := &filledLog{wanted: uint64(rows), stop: stop, numbers: map[market.InstrumentID]uint32{}, enc: cluster.Encoder{Compress: true}}
	numbering := hub.New(hub.Config{Log: l})
	exchange, err := sim.New(sim.Config{Seed: 7, Speed: -1})
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = numbering.Run(filling) }) // it returns nil
	err = exchange.Run(filling, numbering)
	stop()
	running.Wait()
	if ctx.Err() != nil || err != nil && !errors.Is(err, context.Canceled) {
		return nil, errors.Join(ctx.Err(), err)
	}
	l.cut()
	return l, l.publish(ctx, url)
}

// publish makes the stream of the cluster, and appends the rows.
func (l *filledLog) publish(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(64))
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "rueda-" + benchCluster, Subjects: []string{"rueda." + benchCluster + ".rows"}}); err != nil {
		return fmt.Errorf("create the stream: %w", err)
	}
	term := cluster.Term{Number: 1, Leader: 1}
	send := func(b cluster.Batch) error {
		b.Cluster, b.Epoch, b.First, b.Final, b.Time = benchCluster, "bench", true, true, time.Now().UnixNano()
		b.ID = cluster.ID{Term: term, Number: uint64(l.messages)}
		data := cluster.AppendBatch(nil, &b)
		l.messages, l.bytes = l.messages+1, l.bytes+len(data)
		_, err := js.PublishAsync("rueda."+benchCluster+".rows", data)
		return err
	}
	err = send(cluster.Batch{Kind: cluster.TermRow, NewEpoch: true, Exact: true, History: cluster.History{Epoch: "bench", Starts: []cluster.Start{{Term: term}}}})
	for _, g := range l.groups {
		if err == nil {
			err = send(cluster.Batch{Kind: cluster.NewRows, Prev: g.Prev, Last: g.Last, Data: g.Data})
		}
	}
	if err != nil {
		return fmt.Errorf("fill the stream: %w", err)
	}
	l.groups = nil
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readBare reads all messages by a consumer of nats.go.
func (l *filledLog) readBare(ctx context.Context, url string) (time.Duration, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return 0, fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, fmt.Errorf("open JetStream: %w", err)
	}
	began := time.Now()
	b := &bare{js: js}
	if b.stream, err = js.Stream(ctx, "rueda-"+benchCluster); err != nil {
		return 0, fmt.Errorf("open the stream: %w", err)
	}
	it, err := b.consume(ctx, 1)
	if err != nil {
		return 0, err
	}
	messages := 0
	err = readEach(it, func([]byte) bool {
		messages++
		return messages < l.messages
	})
	return time.Since(began), err
}

// alone is the list of members of a cluster with one node. It implements host.Members.
type alone struct{ registered atomic.Uint64 }

func (a *alone) List(context.Context) ([]cluster.Member, error) { return nil, nil }

func (a *alone) Register(context.Context, string) (number uint64, isNew bool, err error) {
	n := a.registered.Add(1)
	return n, n == 1, nil
}

func (a *alone) Unregister(context.Context, cluster.Member) error { return nil }

func (a *alone) Claim(context.Context, string, bool) (others []string, err error) { return nil, nil }

// edgeNode is an edge without the parts that serve clients.
type edgeNode struct {
	host    *host.Host
	hub     *hub.Hub
	journal *journal.Journal
}

// openEdge opens the journal of an edge, which is below a folder, and makes its node.
func openEdge(ctx context.Context, name, url, folder string) (*edgeNode, error) {
	cfg := journal.Config{Folder: filepath.Join(folder, "journal")}
	log := slog.New(slog.DiscardHandler)
	setup, err := host.Prepare(host.Settings{Name: benchCluster, Node: name, Role: "edge", NATS: []string{url}, Bytes: 1 << 30}, &cfg, log)
	if err != nil {
		return nil, err
	}
	e := &edgeNode{}
	if e.journal, err = journal.Open(ctx, cfg); err != nil {
		return nil, err
	}
	e.hub = hub.New(hub.Config{Journal: e.journal, Following: true})
	if err = e.hub.Restore(ctx); err == nil {
		e.host, err = host.New(host.Config{Setup: setup, Hub: e.hub, Journal: e.journal, Members: &alone{}, Logger: log})
	}
	if err != nil {
		return nil, errors.Join(err, e.journal.Close())
	}
	return e, nil
}

// run runs the edge until ctx ends, and closes its journal.
func (e *edgeNode) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = e.journal.Run(ctx) }) // it returns nil
	all.Go(func() { _ = e.hub.Run(ctx) })     // it returns nil
	err := e.host.Run(ctx)
	stop()
	all.Wait()
	return errors.Join(err, e.journal.Close())
}

// follow runs an edge with an empty journal until it has all rows.
func (l *filledLog) follow(ctx context.Context, url, folder string) (took time.Duration, err error) {
	e, err := openEdge(ctx, "edge", url, folder)
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- e.run(running) }()
	for e.hub.Figures().Committed < l.last {
		select {
		case err := <-ended:
			return 0, errors.Join(err, errors.New("the edge has ended"))
		case <-ctx.Done():
			return 0, errors.Join(ctx.Err(), <-ended)
		case <-time.After(time.Millisecond):
		}
	}
	took = time.Since(began)
	stop()
	return took, <-ended
}
