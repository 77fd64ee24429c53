package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// The bare program publishes messages of the size of a batch to a stream of JetStream, and reads
// them back. It has no market: the rows of each message are the same. The figures of a cluster of
// Rueda are ratios to its figures.

const (
	rowBytes   = 48       // of the most frequent row, a change of one level of a book
	batchBytes = 64 << 10 // of a full batch
)

// figures are results of one run.
type figures struct {
	Ingest   float64       // rows per second until the last one was read, with one batch at a time
	P50, P99 time.Duration // from the oldest row of a batch until it was read, at the rate of the run
	CatchUp  time.Duration // to read the rows of the ingest run
	Rows     int           // of the ingest run
}

// bareConfig configures a run of the bare program.
type bareConfig struct {
	url      string
	replicas int
	rows     int           // of the ingest run
	rate     int           // rows per second of the latency run
	time     time.Duration // of the latency run
}

// bare is a connection of the bare program.
type bare struct {
	bareConfig
	js     jetstream.JetStream
	stream jetstream.Stream
	last   uint64 // sequence of the newest message
}

const bareStream = "bare"

// runBare measures a stream of JetStream without Rueda.
func runBare(ctx context.Context, c bareConfig) (f figures, err error) {
	nc, err := nats.Connect(c.url)
	if err != nil {
		return f, fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	b := &bare{bareConfig: c}
	if b.js, err = jetstream.New(nc); err != nil {
		return f, fmt.Errorf("open JetStream: %w", err)
	}
	b.stream, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: bareStream, Subjects: []string{bareStream}, Storage: jetstream.FileStorage, Replicas: c.replicas,
	})
	if err != nil {
		return f, fmt.Errorf("create the stream: %w", err)
	}
	defer func() { _ = b.js.DeleteStream(context.WithoutCancel(ctx), bareStream) }() // the folder is removed anyway
	f.Rows = c.rows
	if f.Ingest, err = b.ingest(ctx); err != nil {
		return f, err
	}
	if f.CatchUp, err = b.catchUp(ctx); err != nil {
		return f, err
	}
	f.P50, f.P99, err = b.latency(ctx)
	return f, err
}

// sameRows returns rows as a batch has them, so that NATS compresses them as well.
func sameRows(n int) []byte {
	e, now := cluster.Encoder{}, time.Now().UnixNano()
	for i := range n {
		e.Append(&journal.Row{
			Kind: journal.BookUpdate, Instrument: uint32(1 + i%benchBooks), Position: uint64(1 + i), N: uint64(1 + i/benchBooks),
			Time: now, At: now, Latency: -1, Bids: []market.Level{changedLevel(i)},
		})
	}
	data := e.Group(0).Data
	return data[len(data)-n*rowBytes:]
}

// publish appends a message that must follow the newest one.
func (b *bare) publish(ctx context.Context, data []byte) error {
	ack, err := b.js.Publish(ctx, bareStream, data, jetstream.WithExpectLastSequence(b.last))
	if err != nil {
		return fmt.Errorf("publish after %d: %w", b.last, err)
	}
	b.last = ack.Sequence
	return nil
}

// ingest publishes full batches, each after the acknowledgement of the one before. It ends when a
// consumer, which reads at the same time, has all rows.
func (b *bare) ingest(ctx context.Context) (perSecond float64, err error) {
	it, err := b.consume(ctx, 1)
	if err != nil {
		return 0, err
	}
	batch := sameRows(batchBytes / rowBytes)
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- readRows(it, b.rows) }()
	for rows := 0; rows < b.rows; rows += len(batch) / rowBytes {
		if err := b.publish(ctx, batch); err != nil {
			return 0, err
		}
	}
	if err := <-read; err != nil {
		return 0, err
	}
	return float64(b.rows) / time.Since(began).Seconds(), nil
}

// consume makes a consumer of the messages from a sequence.
func (b *bare) consume(ctx context.Context, from uint64) (jetstream.MessagesContext, error) {
	c, err := b.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	it, err := c.Messages()
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	return it, nil
}

// readRows reads messages until they have so many rows, and ends their consumer.
func readRows(it jetstream.MessagesContext, rows int) error {
	return readEach(it, func(data []byte) bool {
		rows -= len(data) / rowBytes
		return rows > 0
	})
}

// readEach calls f with each message until f returns false, and ends their consumer.
func readEach(it jetstream.MessagesContext, f func(data []byte) bool) error {
	defer it.Stop()
	for {
		m, err := it.Next()
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if !f(m.Data()) {
			return nil
		}
	}
}

// catchUp reads all rows of the ingest run.
func (b *bare) catchUp(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	it, err := b.consume(ctx, 1)
	if err == nil {
		err = readRows(it, b.rows)
	}
	return time.Since(began), err
}

// burst is a number of rows that come at the same time, as those of a feed do.
type burst struct {
	rows int
	came time.Duration // since the start
}

// latency publishes rows at a rate, and measures the time until they were read. They come in
// bursts. A message has the bursts that came until the one before was acknowledged, as a batch has.
func (b *bare) latency(ctx context.Context) (p50, p99 time.Duration, err error) {
	it, err := b.consume(ctx, b.last+1)
	if err != nil {
		return 0, 0, err
	}
	total := int(b.time/time.Second) * b.rate
	var took []time.Duration
	read := make(chan error, 1)
	start := time.Now()
	go func() {
		rows := 0
		read <- readEach(it, func(data []byte) bool {
			rows += len(data) / rowBytes
			for n := binary.LittleEndian.Uint64(data); n > 0; n-- {
				data = data[8:]
				took = append(took, time.Since(start)-time.Duration(binary.LittleEndian.Uint64(data)))
			}
			return rows < total
		})
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bursts := make(chan burst, total)
	go b.burst(ctx, start, total, bursts)
	for list := waiting(bursts); len(list) > 0; list = waiting(bursts) {
		if err == nil {
			err = b.publish(ctx, burstRows(list))
		}
		if err != nil { // ends the others
			cancel()
			it.Stop()
		}
	}
	if err = errors.Join(err, <-read); err != nil {
		return 0, 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
}

// burst sends bursts at the rate of the run until ctx ends, and closes the channel.
func (b *bare) burst(ctx context.Context, start time.Time, total int, to chan<- burst) {
	defer close(to)
	began := time.Since(start)
	for rows := 0; rows < total && ctx.Err() == nil; {
		time.Sleep(benchTurn)
		now := time.Since(start)
		n := min(total, int((now-began)*time.Duration(b.rate)/time.Second)) - rows
		if rows += n; n > 0 {
			to <- burst{n, now}
		}
	}
}

// waiting waits for a burst, and returns those that have come. After the last one it returns none.
func waiting(from <-chan burst) (list []burst) {
	x, more := <-from
	for more {
		list = append(list, x)
		select {
		case x, more = <-from:
		default:
			return list
		}
	}
	return list
}

// burstRows returns the rows of bursts, with the number of bursts and their times in the first
// ones.
func burstRows(list []burst) []byte {
	rows := 0
	for _, x := range list {
		rows += x.rows
	}
	data := sameRows(rows)
	binary.LittleEndian.PutUint64(data, uint64(len(list)))
	for i, x := range list {
		binary.LittleEndian.PutUint64(data[8+8*i:], uint64(x.came))
	}
	return data
}

// bench measures the bare program and nodes, with one NATS server or three, and prints their
// figures.
func bench(ctx context.Context, args []string, out io.Writer) error {
	f := newFlags("bench")
	nodes := f.Int("nodes", 1, "NATS servers: 1 or 3")
	rows := f.Int("rows", 1_000_000, "rows to publish and to read")
	rate := f.Int("rate", 50_000, "rows per second of the latency run")
	length := f.Duration("time", 10*time.Second, "length of the latency run")
	interval := f.String("sync", "2m", "sync_interval of JetStream, or always")
	pairs := f.Int("pairs", 1, "number of times to measure JetStream alone and then nodes; the ratios are medians")
	bareOnly := f.Bool("bare", false, "measure JetStream alone, without nodes")
	url := f.String("url", "", "addresses of running NATS servers, separated by commas (default: start servers in this process)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *pairs < 1 {
		return fmt.Errorf("-pairs %d: must be at least 1", *pairs)
	}
	c := serversConfig{nodes: *nodes}
	if *interval == "always" {
		c.syncAlways = true
	} else if c.sync, _ = time.ParseDuration(*interval); c.sync <= 0 {
		return fmt.Errorf("-sync %q: must be a duration such as 2m, or always", *interval)
	}
	folder, err := os.MkdirTemp("", "rueda-cluster-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if *url == "" {
		c.folder = filepath.Join(folder, "nats")
		s, err := startServers(c)
		if err != nil {
			return err
		}
		defer s.stop()
		*url = s.url()
	}
	run := bareConfig{url: *url, replicas: *nodes, rows: *rows, rate: *rate, time: *length}
	if *bareOnly {
		b, err := runBare(ctx, run)
		printFigures(out, "bare", &b, *rate)
		return err
	}
	var all ratios
	for i := range *pairs {
		if err := all.pair(ctx, nodesConfig{bareConfig: run, folder: filepath.Join(folder, strconv.Itoa(i))}, out); err != nil {
			return err
		}
	}
	if *pairs > 1 {
		fmt.Fprint(out, "medians: ")
	}
	all.print(out)
	return nil
}

// ratios are those of nodes to the bare program, one of each pair of runs.
type ratios struct{ ingest, p50, p99, catchUp []float64 }

// pair measures the bare program and nodes once, and prints their figures.
func (r *ratios) pair(ctx context.Context, c nodesConfig, out io.Writer) error {
	b, err := runBare(ctx, c.bareConfig)
	if err != nil {
		return err
	}
	printFigures(out, "bare", &b, c.rate)
	n, err := runNodes(ctx, c)
	if err = errors.Join(err, removeLog(c.url)); err != nil {
		return fmt.Errorf("measure nodes: %w", err)
	}
	printFigures(out, "nodes", &n.figures, c.rate)
	ms := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	fmt.Fprintf(out, "one process without NATS: ingest %s rows/s   latency at the same rate: p50 %v p99 %v\n",
		thousands(int(n.AloneIngest)), ms(n.Alone50), ms(n.Alone99))
	r.ingest = append(r.ingest, n.Ingest/b.Ingest)
	r.p50, r.p99 = append(r.p50, ratio(n.P50-n.Alone50, b.P50)), append(r.p99, ratio(n.P99-n.Alone99, b.P99))
	r.catchUp = append(r.catchUp, ratio(n.CatchUp, b.CatchUp))
	return nil
}

// removeLog removes what the nodes of a measurement have left in NATS.
func removeLog(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = errors.Join(js.DeleteStream(ctx, "rueda-"+benchCluster), js.DeleteKeyValue(ctx, "rueda-"+benchCluster+"-lease"))
	}
	if err != nil {
		return fmt.Errorf("remove the log: %w", err)
	}
	return nil
}

// print prints the medians of the ratios.
func (r *ratios) print(out io.Writer) {
	median := func(list []float64) float64 {
		list = slices.Sorted(slices.Values(list))
		return list[len(list)/2]
	}
	fmt.Fprintf(out, "ratios to bare: ingest %.2f, added latency p50 %.2f p99 %.2f, catch-up %.2f\n", median(r.ingest), median(r.p50), median(r.p99), median(r.catchUp))
}

// ratio returns a quotient of times.
func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// printFigures prints the results of one run.
func printFigures(out io.Writer, name string, x *figures, rate int) {
	fmt.Fprintf(out, "%-8s ingest %s rows/s   latency at %s rows/s: p50 %v p99 %v   catch-up of %s rows %v\n", name,
		thousands(int(x.Ingest)), thousands(rate), x.P50.Round(10*time.Microsecond), x.P99.Round(10*time.Microsecond), thousands(x.Rows), x.CatchUp.Round(time.Millisecond))
}

// thousands returns a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
