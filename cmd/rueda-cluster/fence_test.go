package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	demo "github.com/ruedahq/rueda/internal/ops/cli/server"
)

// fenced is a cluster whose NATS servers lose what they stored, with a producer that has numbers.
type fenced struct {
	t       *testing.T
	folder  string
	program string
	servers atomic.Pointer[servers]
	relays  []*relay // at addresses that stay
	nodes   []*fencedNode
	feeds   []string    // addresses of the producer
	forgets atomic.Bool // an epoch may begin, and rows that only some nodes have are lost with the old one
}

// fencedNode is a process of the cluster.
type fencedNode struct {
	name, address, folder, file string
	process                     *process
}

// build builds the program.
func (f *fenced) build() {
	f.t.Helper()
	f.program = filepath.Join(f.folder, "rueda")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", f.program, "./cmd/rueda").CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// addUsers makes the database of the nodes.
func (f *fenced) addUsers() {
	f.t.Helper()
	data, err := gateway.OpenData(f.t.Context(), gateway.DataConfig{Folder: filepath.Join(f.folder, "data")})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := demo.AddDemoUsers(f.t.Context(), data.Users); err != nil {
		f.t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// newFenced starts three NATS servers, two sequencers and two edges.
func newFenced(t *testing.T) *fenced {
	t.Helper()
	f := &fenced{t: t, folder: t.TempDir()}
	f.build()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	var urls []string
	for i := range 3 {
		r, err := newRelay(ctx, "127.0.0.1:0", func() string { return f.server(i) })
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { r.run(ctx) })
		f.relays, urls = append(f.relays, r), append(urls, "nats://"+r.address())
	}
	f.startServers()
	t.Cleanup(f.stopServers)
	f.addUsers()
	ports, err := freePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"sequencer-1", "sequencer-2", "edge-1", "edge-2"} {
		n := &fencedNode{name: name, address: "127.0.0.1:" + strconv.Itoa(ports[i]), folder: filepath.Join(f.folder, name)}
		f.nodes = append(f.nodes, n)
		f.configure(n, urls, ports[4:])
		f.start(n)
	}
	f.awaitReady()
	return f
}

// configure writes the configuration of a node, of a cluster if there are NATS servers.
func (f *fenced) configure(n *fencedNode, urls []string, ports []int) {
	role, _, _ := strings.Cut(n.name, "-")
	text := fmt.Sprintf("listen = %q\ndata = %q\ndrain = \"100ms\"\n[journal]\nfolder = %q\n[limits]\nlogins_per_minute = 10000\nlogin_burst = 10000\n",
		n.address, filepath.Join(f.folder, "data"), filepath.Join(n.folder, "journal"))
	if len(urls) > 0 {
		text += fmt.Sprintf("[cluster]\nname = \"fence\"\nnode = %q\nrole = %q\nnats = [\"%s\"]\nreplicas = 3\nbytes = \"256MiB\"\nlease = \"1s\"\n",
			n.name, role, strings.Join(urls, `", "`))
	}
	if role == "sequencer" {
		port := ports[len(f.feeds)]
		f.feeds = append(f.feeds, "127.0.0.1:"+strconv.Itoa(port))
		token := filepath.Join(n.folder, "token")
		f.write(token, strings.Repeat("t", 40))
		text += fmt.Sprintf("[[feed]]\nname = \"lines\"\ntype = \"ndjson\"\nlisten = \"127.0.0.1:%d\"\ntoken_file = %q\n", port, token)
	}
	n.file = filepath.Join(n.folder, "rueda.toml")
	f.write(n.file, text)
}

func (f *fenced) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// server returns the address of a NATS server, or "".
func (f *fenced) server(i int) string {
	if s := f.servers.Load(); s != nil {
		return strings.TrimPrefix((*s)[i].ClientURL(), "nats://")
	}
	return ""
}

func (f *fenced) startServers() {
	f.t.Helper()
	s, err := startServers(serversConfig{folder: f.store(), nodes: 3})
	if err != nil {
		f.t.Fatal(err)
	}
	f.servers.Store(&s)
}

func (f *fenced) stopServers() {
	if s := f.servers.Swap(nil); s != nil {
		s.stop()
	}
}

// start starts a node. One that ends by itself is started again: a node that has copied a journal
// needs that.
func (f *fenced) start(n *fencedNode) {
	f.t.Helper()
	if n.process == nil {
		n.process = &process{name: n.name, log: n.folder + ".log", command: func() *exec.Cmd {
			return exec.Command(f.program, "serve", "--config", n.file)
		}}
	}
	n.process.start(f.t)
	f.t.Cleanup(func() {
		f.kill(n)
		if text, _ := os.ReadFile(n.folder + ".log"); f.t.Failed() && len(text) > 0 {
			f.t.Logf("%s:\n%s", n.name, text[max(0, len(text)-5000):])
			_ = os.Remove(n.folder + ".log") // once
		}
	})
}

// kill ends a process with kill -9.
func (f *fenced) kill(n *fencedNode) {
	if n.process != nil {
		n.process.signal(syscall.SIGKILL)
	}
}

func (f *fenced) awaitReady() {
	f.t.Helper()
	c := http.Client{Timeout: time.Second}
	for _, n := range f.nodes {
		f.await(n.name+" is ready", func() bool { return isReady(f.t.Context(), &c, n.address) })
	}
}

// await waits until a condition holds.
func (f *fenced) await(what string, ok func() bool) {
	f.t.Helper()
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			f.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// numbers is a producer that numbers its trades, and keeps them until they are acknowledged.
type numbers struct {
	f       *fenced
	next    uint64   // SQ of the next new trade
	kept    []uint64 // not acknowledged
	session atomic.Int64
	leader  atomic.Pointer[string] // its address
	sent    atomic.Uint64
}

// run produces until ctx ends.
func (p *numbers) run(ctx context.Context) {
	p.next = max(p.next, 1)
	for i := 0; ctx.Err() == nil; i++ {
		address := p.f.feeds[i%len(p.f.feeds)]
		if err := p.connect(ctx, address); err != nil && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// held is an answer of the gateway.
type held struct {
	Type, Reason, Msg string
	Last              map[string]map[string]uint64
}

const fenceInstrument = "LINE|FENCE|CI"

// connect sends trades until the connection ends.
func (p *numbers) connect(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, `{"type":"Hello","token":%q,"name":"p","resume":"day"}`+"\n", strings.Repeat("t", 40)); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	read := func() (h held, err error) {
		if !lines.Scan() {
			return h, fmt.Errorf("the connection has ended: %w", lines.Err())
		}
		return h, json.Unmarshal(lines.Bytes(), &h)
	}
	first, err := read()
	if err != nil || first.Type != "Hello" {
		return fmt.Errorf("answered %+v, %w", first, err)
	}
	p.leader.Store(&address)
	p.session.Add(1)
	acks := make(chan uint64, 1<<16)
	go func() { // ends with the connection
		defer close(acks)
		for {
			h, err := read()
			if err != nil {
				return
			}
			if h.Type != "Ack" && (h.Reason != "sequence_gap" || !p.f.forgets.Load()) {
				p.f.t.Errorf("the producer is answered %+v", h)
			}
			acks <- h.Last[fenceInstrument]["T"]
		}
	}()
	p.drop(first.Last[fenceInstrument]["T"])
	out := bufio.NewWriter(conn)
	_, _ = fmt.Fprintf(out, `{"type":"F","I":%q,"price_decimals":2,"size_decimals":0,"no_book":true}`+"\n", fenceInstrument) // see Flush
	for _, n := range p.kept {
		send(out, n)
	}
	for tick := time.NewTicker(4 * time.Millisecond); ; <-tick.C {
		for more := true; more; {
			select {
			case n, ok := <-acks:
				if !ok {
					return nil
				}
				p.drop(n)
			default:
				more = false
			}
		}
		p.kept = append(p.kept, p.next)
		send(out, p.next)
		p.sent.Store(p.next)
		p.next++
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func send(out *bufio.Writer, n uint64) {
	_, _ = fmt.Fprintf(out, `{"type":"T","I":%q,"SQ":%d,"X":"%d","P":%d,"Z":1}`+"\n", fenceInstrument, n, n, 100+n%10) // see Flush
}

// drop forgets trades that are stored.
func (p *numbers) drop(n uint64) {
	for len(p.kept) > 0 && p.kept[0] <= n {
		p.kept = p.kept[1:]
	}
}

// witness is a client that follows the trades of the producer on one edge.
type witness struct {
	mu     sync.Mutex
	epochs []string          // in their order, of open sockets and of new ones
	opened int               // connections
	epoch  string            // of the trades
	last   uint64            // N
	newest uint64            // number of the producer
	given  map[string]uint64 // by epoch and N
	wrong  []string
	told   bool // an open socket was informed of an epoch
}

// follow starts a witness.
func (f *fenced) follow(ctx context.Context, all *sync.WaitGroup, n *fencedNode) *witness {
	c, err := client.New([]string{"http://" + n.address}, client.Options{Username: command.DemoUser, Password: command.DemoUser, Messages: true, Queue: 1 << 16, Heartbeat: 2 * time.Second})
	if err == nil {
		err = c.Subscribe(client.Set{Trades: []string{"*|FENCE|*"}})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	w := &witness{given: map[string]uint64{}}
	all.Go(func() {
		for e := range c.Events(ctx) {
			w.event(e)
		}
		if err := c.Err(); err != nil && ctx.Err() == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.fail("the client ended: %v", err)
		}
	})
	return w
}

func (w *witness) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *witness) event(e client.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := e.(type) {
	case client.StateChange:
		if e.State == client.Syncing {
			w.opened++
		}
	case client.Message:
		var m struct{ Type, Msg, Epoch string }
		if json.Unmarshal(e.Raw(), &m) != nil || m.Type != "Subscription" {
			return
		}
		w.told = w.told || m.Msg == "Epoch"
		if m.Epoch != w.epoch {
			w.epoch, w.last = m.Epoch, 0
			w.epochs = append(w.epochs, m.Epoch)
		}
	case client.Lost:
		if e.Reason != "epoch_changed" {
			w.fail("%v", e)
		}
	case *client.Trade:
		id, err := strconv.ParseUint(e.ID, 10, 64)
		next := id == w.newest+1 || len(w.epochs) > 1 && w.last == 0 && id > w.newest
		if err != nil || w.newest > 0 && !next {
			w.fail("trade %s of the producer comes after %d (N %d)", e.ID, w.newest, e.N)
		}
		if !e.Ended && w.last != 0 && e.N != w.last+1 {
			w.fail("N %d comes after %d", e.N, w.last)
		}
		key := fmt.Sprint(w.epoch, " ", e.N)
		if was, ok := w.given[key]; ok && !e.Ended && was != id {
			w.fail("%s is trade %d and trade %d", key, was, id)
		}
		if w.newest = id; !e.Ended {
			w.given[key], w.last = id, e.N
		}
	}
}

// seen returns the number of epochs, and of connections.
func (w *witness) seen() (epochs, opened int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.epochs), w.opened
}

func (w *witness) received() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// progress waits until the witnesses have received the trades sent by now, and some more.
func (f *fenced) progress(p *numbers, all ...*witness) {
	f.t.Helper()
	want := p.sent.Load() + 50
	for i, w := range all {
		f.await(fmt.Sprintf("client %d has trade %d", i, want), func() bool { return w.received() >= want })
	}
}

// store is the folder of what the NATS servers store.
func (f *fenced) store() string { return filepath.Join(f.folder, "nats") }

// lose stops the NATS servers, changes what they have stored, and starts them again.
func (f *fenced) lose(change func() error) {
	f.t.Helper()
	f.stopServers()
	if err := change(); err != nil {
		f.t.Fatal(err)
	}
	f.startServers()
}

// blocks returns the files of the rows on all NATS servers.
func (f *fenced) blocks() []string {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.store(), "nats-*", "jetstream", "*", "streams", "rueda-fence", "msgs", "*.blk"))
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

// truncate cuts the newest messages of the rows in half, on all servers.
func (f *fenced) truncate() error {
	for _, file := range f.blocks() {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := os.Truncate(file, info.Size()/2); err != nil {
			return err
		}
	}
	return nil
}

// TestStreamLostE2E kills the sequencer, and then takes stored messages from all NATS servers at
// once. A producer with numbers sends trades all the time. Each client receives each trade once and
// in order: the stream is refilled. When no node can prove what was shown, an epoch begins, of
// which open sockets are informed. No N is used twice.
func TestStreamLostE2E(t *testing.T) {
	f := newFenced(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	p := &numbers{f: f}
	running.Go(func() { p.run(ctx) })
	f.await("the producer is connected", func() bool { return p.sent.Load() > 20 })
	one, two := f.follow(ctx, &running, f.nodes[2]), f.follow(ctx, &running, f.nodes[3])
	f.progress(p, one, two)
	for range 3 {
		for i, address := range f.feeds {
			if *p.leader.Load() == address {
				f.kill(f.nodes[i])
				f.progress(p, one, two)
				f.start(f.nodes[i])
			}
		}
		f.awaitReady()
	}
	t.Logf("sequencers killed: %d trades, %d connections of the producer", p.sent.Load(), p.session.Load())

	// All servers return to what they had a moment ago.
	older := filepath.Join(f.folder, "older")
	f.lose(func() error { return os.CopyFS(older, os.DirFS(f.store())) })
	f.progress(p, one, two)
	f.awaitReady()
	f.lose(func() error { return errors.Join(os.RemoveAll(f.store()), os.Rename(older, f.store())) })
	f.progress(p, one, two)
	f.awaitReady()
	t.Logf("an older stream: %d trades", p.sent.Load())
	f.lose(func() error { return os.RemoveAll(f.store()) })
	f.progress(p, one, two)
	f.awaitReady()
	t.Logf("no stream: %d trades", p.sent.Load())
	if n, _ := one.seen(); n != 1 {
		t.Errorf("%d epochs, want 1: the journals have all rows", n)
	}

	// An edge has shown rows, and cannot state which.
	f.forgets.Store(true)
	f.kill(f.nodes[3])
	_, opened := one.seen()
	if err := os.RemoveAll(filepath.Join(f.nodes[3].folder, "journal")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.nodes[3].folder, "node")); err != nil {
		t.Fatal(err)
	}
	f.lose(func() error { return os.RemoveAll(f.store()) })
	f.start(f.nodes[3])
	f.progress(p, one, two)
	cancel()
	running.Wait()
	if len(one.epochs) != 2 || !one.told || one.opened != opened {
		t.Errorf("the client of an edge that ran has seen the epochs %v, informed %v, with %d new connections", one.epochs, one.told, one.opened-opened)
	}
	for i, w := range []*witness{one, two} {
		for _, text := range w.wrong {
			t.Errorf("client %d: %s", i, text)
		}
		t.Logf("client %d: %d trades in %d epochs", i, len(w.given), len(w.epochs))
	}
}

// deleteStream deletes the stream of the rows.
func (f *fenced) deleteStream() {
	f.t.Helper()
	conn, err := nats.Connect("nats://" + f.server(0))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	f.await("the stream is deleted", func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
		defer cancel()
		err := js.DeleteStream(ctx, "rueda-fence")
		return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
	})
}

// TestStreamTruncatedE2E cuts the files of the rows on all NATS servers. The stream is refilled.
func TestStreamTruncatedE2E(t *testing.T) {
	f := newFenced(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	p := &numbers{f: f}
	running.Go(func() { p.run(ctx) })
	f.await("the producer is connected", func() bool { return p.sent.Load() > 20 })
	one, two := f.follow(ctx, &running, f.nodes[2]), f.follow(ctx, &running, f.nodes[3])
	f.progress(p, one, two)
	// Clients have a row when two of three servers have stored it.
	f.await("three servers have stored rows", func() bool { return len(f.blocks()) >= 3 })
	f.lose(f.truncate)
	before := one.received()
	for until := time.Now().Add(15 * time.Second); one.received() == before && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	if one.received() == before {
		// NATS chooses no leader of the stream: an operator removes it, as docs/cluster.md says.
		f.deleteStream()
		t.Log("the stream had no leader, and was deleted")
	}
	f.progress(p, one, two)
	f.awaitReady()
	cancel()
	running.Wait()
	for i, w := range []*witness{one, two} {
		for _, text := range w.wrong {
			t.Errorf("client %d: %s", i, text)
		}
		t.Logf("client %d: %d trades in %d epochs", i, len(w.given), len(w.epochs))
	}
}

// TestProducerOfOneProcessE2E kills a gateway without a cluster again and again. A producer with
// numbers continues where the journal ends, and a client receives each trade once and in order.
func TestProducerOfOneProcessE2E(t *testing.T) {
	f := &fenced{t: t, folder: t.TempDir()}
	f.build()
	f.addUsers()
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	n := &fencedNode{name: "sequencer-1", address: "127.0.0.1:" + strconv.Itoa(ports[0]), folder: filepath.Join(f.folder, "one")}
	f.nodes = []*fencedNode{n}
	f.configure(n, nil, ports[1:])
	f.start(n)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	p := &numbers{f: f}
	running.Go(func() { p.run(ctx) })
	f.await("the producer is connected", func() bool { return p.sent.Load() > 20 })
	w := f.follow(ctx, &running, n)
	f.progress(p, w)
	for range 5 {
		f.kill(n)
		f.start(n)
		f.progress(p, w)
	}
	cancel()
	running.Wait()
	for _, text := range w.wrong {
		t.Error(text)
	}
	if len(w.epochs) != 1 || p.session.Load() < 6 {
		t.Errorf("%d epochs, %d connections of the producer", len(w.epochs), p.session.Load())
	}
	t.Logf("%d trades, %d connections of the producer", len(w.given), p.session.Load())
}
