package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	demo "github.com/ruedahq/rueda/internal/ops/cli/server"
	"github.com/ruedahq/rueda/wire"
)

// nodes are nodes of one cluster in this process, each with a relay to NATS, and one database.
type nodes struct {
	t      *testing.T
	nats   servers
	folder string
	lease  time.Duration // 0: the default
	list   []*testNode
}

// dataDelay is the delay of the user late.
const dataDelay = 2 * time.Second

// lateUser gets trades after dataDelay.
var lateUser = local.NewUser{
	Username: "late", Password: "late", WeakPassword: true, Scopes: []string{broker.ScopeRead, broker.ScopeWildcard},
	Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Delay: int(dataDelay / time.Second)}},
}

// testNode is a node whose connection to NATS a test cuts.
type testNode struct {
	name, address string
	relay         *relay
	users         *local.Base
	stop          func() // begins its end
	ended         chan error
}

// startNodes starts NATS, a sequencer and edges, and waits until they are ready.
func startNodes(t *testing.T, edges int) *nodes { return startNodesWith(t, edges, 0) }

func startNodesWith(t *testing.T, edges int, lease time.Duration) *nodes {
	t.Helper()
	n := &nodes{t: t, folder: t.TempDir(), lease: lease}
	var err error
	if n.nats, err = startServers(serversConfig{folder: filepath.Join(n.folder, "nats"), nodes: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.nats.stop)
	for i := range 1 + edges {
		if i == 0 {
			n.start("sequencer-1", "sequencer")
		} else {
			n.start(fmt.Sprint("edge-", i), "edge")
		}
	}
	for _, x := range n.list {
		n.await(x, true)
	}
	return n
}

// start starts a node.
func (n *nodes) start(name, role string) *testNode { return n.startIn(name, name, role) }

// startIn starts a node with its journal in a folder.
func (n *nodes) startIn(folder, name, role string) *testNode {
	t := n.t
	t.Helper()
	r, err := newRelay(t.Context(), "127.0.0.1:0", func() string { return strings.TrimPrefix(n.nats.url(), "nats://") })
	if err != nil {
		t.Fatal(err)
	}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(n.folder, "data")})
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.AddDemoUsers(t.Context(), data.Users); err != nil {
		t.Fatal(err)
	}
	bound := make(chan gateway.Bound, 1)
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Drain: time.Millisecond,
		Journal: gateway.Journal{Folder: filepath.Join(n.folder, folder, "journal")},
		Cluster: gateway.Cluster{Name: "test", Node: name, Role: role, NATS: []string{"nats://" + r.address()}, Bytes: 256 << 20, Lease: n.lease},
		Limits:  gateway.Limits{LoginsPerMinute: 10_000, LoginBurst: 10_000, Connections: 4, Handshakes: 10_000, UnauthenticatedPerAddress: 10_000},
		Stream:  gateway.Stream{Delays: []time.Duration{dataDelay}},
		OnReady: func(b gateway.Bound) { bound <- b },
	}
	if role != "edge" {
		exchange, err := sim.New(sim.Config{Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Feeds = []gateway.Feed{{Name: "sim", Source: exchange}}
	}
	g, err := gateway.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := &testNode{name: name, relay: r, users: data.Users, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	running, stop := context.WithCancel(ctx)
	x.stop = stop
	var all sync.WaitGroup
	all.Go(func() { r.run(ctx) })
	all.Go(func() { x.ended <- g.Run(running) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case b := <-bound:
		x.address = b.Address
	case err := <-x.ended:
		t.Fatal(err)
	}
	n.list = append(n.list, x)
	return x
}

// await waits until a node is ready, or is not.
func (n *nodes) await(x *testNode, ready bool) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%s ready: %t", x.name, ready), func() bool { return isReady(n.t.Context(), http.DefaultClient, x.address) == ready })
}

// eventually waits until a state is reached.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	began := time.Now()
	for !reached() {
		if time.Since(began) > time.Minute {
			t.Fatalf("not after a minute: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tokens are the answer to a login.
type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

// post sends a request to a node, and decodes the answer into v, unless it is nil.
func (x *testNode) post(t *testing.T, path, token string, body, v any) (status int) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+x.address+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if v != nil {
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	return answer.StatusCode
}

// login logs a user in.
func (x *testNode) login(t *testing.T, user string) tokens {
	t.Helper()
	var answer struct{ Data tokens }
	if status := x.post(t, "/auth/token", "", map[string]string{"grant_type": "password", "username": user, "password": user}, &answer); status != http.StatusOK {
		t.Fatalf("login: %d", status)
	}
	return answer.Data
}

// bot is a raw connection to the stream.
type bot struct {
	t    *testing.T
	conn *websocket.Conn
}

// message has the members of messages that the tests check.
type message struct {
	Type, Reason, Epoch, E, Y, S, I, Msg string
	N                                    uint64
	R                                    bool
	T                                    time.Time
}

// connect opens a connection and authenticates it. name is that of the session; "": none. fault is
// the reason of a refusal, or "".
func (x *testNode) connect(t *testing.T, token, name string) (b *bot, fault string) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+x.address+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	b = &bot{t, conn}
	request := map[string]any{"action": "auth_token", "token": token}
	if name != "" {
		request["session"] = name
	}
	b.send(request)
	for {
		switch m := b.next(); m.Type {
		case "Success":
			return b, ""
		case "Error":
			return b, m.Reason
		}
	}
}

func (b *bot) send(v any) {
	b.t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = b.conn.Write(b.t.Context(), websocket.MessageText, text)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// next returns the next message.
func (b *bot) next() (m message) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	_, text, err := b.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// until returns the next message that is wanted.
func (b *bot) until(wanted func(m message) bool) message {
	b.t.Helper()
	for {
		if m := b.next(); wanted(m) {
			return m
		}
	}
}

// closed waits for an Error and the close of the connection, and checks the reason and the code.
func (b *bot) closed(reason string, code websocket.StatusCode) {
	b.t.Helper()
	if m := b.until(func(m message) bool { return m.Type == "Error" }); m.Reason != reason {
		b.t.Errorf("closed with %s instead of %s", m.Reason, reason)
	}
	if _, _, err := b.conn.Read(b.t.Context()); websocket.CloseStatus(err) != code {
		b.t.Errorf("closed by %v", err)
	}
}

// within checks a promise of a second, with time for a busy machine, and logs the figure.
func within(t *testing.T, what string, began time.Time) {
	t.Helper()
	took := time.Since(began)
	t.Logf("%s: %v", what, took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

// TestAcrossEdgesE2E requires that a takeover, the limit of connections, a logout, a changed right
// and a disabled user take effect on another edge.
func TestAcrossEdgesE2E(t *testing.T) {
	n := startNodes(t, 2)
	a, b := n.list[1], n.list[2]
	k := a.login(t, command.BasicUser) // without a limit of its own
	if _, fault := n.list[0].connect(t, k.Access, ""); fault != string(wire.Overloaded) {
		t.Errorf("the sequencer answers a client with %q", fault)
	}

	old, fault := a.connect(t, k.Access, "bot-1")
	if fault != "" {
		t.Fatal(fault)
	}
	began := time.Now()
	moved, fault := b.connect(t, k.Access, "bot-1")
	if fault != "" {
		t.Fatalf("takeover: %s", fault)
	}
	old.closed("replaced", 4409)
	within(t, "takeover on another edge", began)

	var open []*bot // with moved, 4 connections on two edges
	for i := range 3 {
		x, fault := n.list[1+i%2].connect(t, k.Access, "")
		if fault != "" {
			t.Fatalf("connection %d: %s", 2+i, fault)
		}
		open = append(open, x)
	}
	began = time.Now()
	for _, edge := range n.list[1:] {
		eventually(t, "the limit counts both edges", func() bool {
			x, fault := edge.connect(t, k.Access, "")
			_ = x.conn.CloseNow()
			return fault == "connection_limit"
		})
	}
	within(t, "limit across edges", began)
	began = time.Now()
	if err := open[0].conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a connection on the other edge", func() bool {
		x, fault := b.connect(t, k.Access, "")
		if fault == "" {
			open[0] = x
		}
		return fault == ""
	})
	within(t, "a place that became free on another edge", began)

	moved.send(map[string]any{"action": "subscribe", "quotes": []string{"GGAL|BYMA|24hs"}})
	moved.until(func(m message) bool { return m.Msg == "Subscribed" })
	began = time.Now()
	if _, err := a.users.Revoke(t.Context(), command.BasicUser, func(broker.Entitlement) bool { return true }); err != nil {
		t.Fatal(err)
	}
	moved.until(func(m message) bool { return m.Msg == "Rights changed" })
	within(t, "rights taken at one edge, subscription removed at the other", began)

	began = time.Now()
	if status := a.post(t, "/auth/revoke", k.Access, map[string]string{"token": k.Refresh}, nil); status != http.StatusOK {
		t.Fatalf("revoke: %d", status)
	}
	for _, x := range append(open, moved) {
		x.closed("token_revoked", 4401)
	}
	within(t, "logout on both edges", began)

	k = a.login(t, command.BasicUser)
	x, _ := b.connect(t, k.Access, "")
	began = time.Now()
	if err := a.users.Disable(t.Context(), command.BasicUser); err != nil {
		t.Fatal(err)
	}
	x.closed("token_revoked", 4401)
	within(t, "user disabled at one edge, socket closed at the other", began)
}

// TestAdmittedAtOnceE2E requires that a limit holds when two edges admit connections at the same
// time: those that came last are closed.
func TestAdmittedAtOnceE2E(t *testing.T) {
	n := startNodes(t, 2)
	k := n.list[1].login(t, command.BasicUser)
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	open := 0
	for i := range 8 {
		all.Go(func() {
			conn, _, err := websocket.Dial(t.Context(), "ws://"+n.list[1+i%2].address+"/stream", &websocket.DialOptions{
				HTTPHeader: http.Header{"Authorization": {"Bearer " + k.Access}},
			})
			if err != nil {
				return
			}
			defer func() { _ = conn.CloseNow() }()
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				_, text, err := conn.Read(ctx)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					mu.Lock()
					open++
					mu.Unlock()
				}
				if err != nil {
					return
				}
				if bytes.Contains(text, []byte(`"connection_limit"`)) {
					t.Logf("refused or closed after %v", time.Since(began).Round(time.Millisecond))
				}
			}
		})
	}
	all.Wait()
	if open != 4 {
		t.Errorf("%d connections are open after 3 s, of 4", open)
	}
}

// TestCutOffEdgeE2E requires that an edge that is cut off from the log is not ready, and that its
// subscribers get feed_down as a state, which consumes no N. A client that resumes with rows which
// it does not have is sent away after 5 s. When the edge is back, its clients get the rows that they
// have missed, feed_up, and the books.
func TestCutOffEdgeE2E(t *testing.T) {
	n := startNodes(t, 2)
	x := n.list[1]
	b, fault := x.connect(t, x.login(t, command.DemoUser).Access, "")
	if fault != "" {
		t.Fatal(fault)
	}
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}, "order_book": []string{"GGAL|BYMA|24hs"}, "snapshot": true})
	last := map[string]uint64{}
	trades := func(m message) {
		if m.Type != "T" {
			return
		}
		if was, ok := last[m.I]; ok && !m.R && m.N != was+1 {
			t.Errorf("%s: N %d after %d", m.I, m.N, was)
		}
		last[m.I] = m.N
	}
	until := func(wanted func(m message) bool) message {
		return b.until(func(m message) bool { trades(m); return wanted(m) })
	}
	epoch := until(func(m message) bool { return m.Type == "Subscription" }).Epoch
	until(func(m message) bool { return m.Type == "O" && m.R })
	first := until(func(m message) bool { return m.Type == "T" })
	x.relay.set(cut)
	n.await(x, false)
	down := until(func(m message) bool { return m.Type == "H" && m.E == "feed_down" && m.I == "*|BYMA|*" })
	if !down.R || down.Y != "cut_off" {
		t.Errorf("%+v is not a state", down)
	}
	late, _ := x.connect(t, x.login(t, command.DemoUser).Access, "")
	late.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
	late.until(func(m message) bool { return m.Type == "H" && m.E == "feed_down" })
	ahead, _ := x.connect(t, x.login(t, command.DemoUser).Access, "")
	ahead.send(map[string]any{"action": "subscribe", "trades": []string{first.I}, "resume": map[string]any{"epoch": epoch, "trades": map[string]uint64{first.I: first.N + 1e6}}})
	ahead.closed("overloaded", 4503)

	x.relay.set(passing)
	n.await(x, true)
	up := until(func(m message) bool { return m.Type == "H" && m.E == "feed_up" && m.I == "*|BYMA|*" })
	if !up.R || up.N != down.N {
		t.Errorf("%+v after %+v: a number was consumed", up, down)
	}
	until(func(m message) bool { return m.Type == "O" && m.R && m.I == "GGAL|BYMA|24hs" })
	until(func(m message) bool { return m.Type == "T" })
	late.until(func(m message) bool { return m.Type == "H" && m.E == "feed_up" })
}

// TestDelayedOnAnEdgeE2E requires that the trades of a user with a delay come when it has passed, each
// once, also when the edge was cut off.
func TestDelayedOnAnEdgeE2E(t *testing.T) {
	n := startNodes(t, 2)
	x := n.list[2]
	if _, err := n.list[0].users.Add(t.Context(), lateUser); err != nil {
		t.Fatal(err)
	}
	b, fault := x.connect(t, x.login(t, "late").Access, "")
	if fault != "" {
		t.Fatal(fault)
	}
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}})
	last := map[string]uint64{}
	least, most := time.Hour, time.Duration(0)
	const trades = 400
	for i := range trades {
		if i == trades/2 {
			x.relay.set(cut)
			time.AfterFunc(time.Second, func() { x.relay.set(passing) })
		}
		m := b.until(func(m message) bool { return m.Type == "T" })
		if was, ok := last[m.I]; ok && m.N != was+1 {
			t.Fatalf("%s: N %d after %d", m.I, m.N, was)
		}
		last[m.I] = m.N
		age := time.Since(m.T)
		if least, most = min(least, age), max(most, age); age < dataDelay {
			t.Fatalf("%s %d came %v after the trade", m.I, m.N, age)
		}
	}
	t.Logf("%d trades came %v to %v after they were made, with a cut of a second", trades, least.Round(time.Millisecond), most.Round(time.Millisecond))
}

// TestWrongLogE2E requires that a node ends with a sentence when the stream has a batch of another
// cluster, or one of a newer version.
func TestWrongLogE2E(t *testing.T) {
	for name, s := range map[string]struct {
		change func(data []byte) []byte
		has    string
	}{
		"cluster": {func([]byte) []byte {
			h := cluster.History{Epoch: "e", Starts: []cluster.Start{{Term: cluster.Term{Number: 1 << 30, Leader: 1}}}}
			return cluster.AppendBatch(nil, &cluster.Batch{
				Cluster: "other", Kind: cluster.TermRow, First: true, Final: true, Epoch: "e",
				ID: cluster.ID{Term: h.Newest()}, History: h,
			})
		}, `the log belongs to another cluster: "other", this node belongs to "test"`},
		"version": {func(data []byte) []byte {
			data[4] = cluster.FormatVersion + 1
			return data
		}, "the log is written by a newer program: upgrade this node first"},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNodes(t, 1)
			c, err := nats.Connect(n.nats.url())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sub, err := c.SubscribeSync("rueda.test.rows")
			if err != nil {
				t.Fatal(err)
			}
			m, err := sub.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if err := sub.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
			if err := c.Publish("rueda.test.rows", s.change(m.Data)); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-n.list[1].ended:
				if err == nil || !strings.Contains(err.Error(), s.has) {
					t.Errorf("the edge ended with %v", err)
				}
				t.Log(err)
			case <-time.After(time.Minute):
				t.Error("the edge has not ended")
			}
		})
	}
}

// TestUnknownClusterE2E requires that an edge does not make the log of a cluster whose name is
// wrong, and says why it is not ready.
func TestUnknownClusterE2E(t *testing.T) {
	n := &nodes{t: t, folder: t.TempDir()}
	var err error
	if n.nats, err = startServers(serversConfig{folder: filepath.Join(n.folder, "nats"), nodes: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.nats.stop)
	x := n.start("edge-1", "edge")
	answer, err := http.Get("http://" + x.address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", answer.StatusCode)
	}
	if _, fault := x.connect(t, "any token", ""); fault != string(wire.Overloaded) {
		t.Errorf("an edge without a log answers a client with %q", fault)
	}
	c, err := nats.Connect(n.nats.url())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := c.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if _, err := js.StreamInfo("rueda-test"); !errors.Is(err, nats.ErrStreamNotFound) {
		t.Errorf("the edge has made a stream: %v", err)
	}
}

// TestPlannedStopE2E requires that a sequencer that is stopped gives the lease back: another one
// begins after at most a thirtieth of it. The lease of the test is longer than any wait.
func TestPlannedStopE2E(t *testing.T) {
	n := startNodesWith(t, 1, 10*time.Minute)
	second := n.start("sequencer-2", "sequencer")
	n.await(second, true)
	first, edge := n.list[0], n.list[1]
	b, _ := edge.connect(t, edge.login(t, command.DemoUser).Access, "")
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}})
	b.until(func(m message) bool { return m.Type == "T" && !m.R })
	first.stop()
	b.until(func(m message) bool { return m.Type == "H" && m.Y == "sequencer_changed" })
	b.until(func(m message) bool { return m.Type == "T" && !m.R })
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
}

// TestDuplicateNameE2E requires that a node ends that is started with the name of a running one, and
// that the running one continues.
func TestDuplicateNameE2E(t *testing.T) {
	n := startNodes(t, 1)
	for _, x := range n.list[:2] {
		later := n.startIn("copied-"+x.name, x.name, strings.TrimRight(x.name, "-1"))
		if err := <-later.ended; err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has the name %q", x.name)) {
			t.Errorf("a second %s ended with %v", x.name, err)
		}
		n.await(x, true)
		select {
		case err := <-x.ended:
			t.Errorf("%s has ended: %v", x.name, err)
		default:
		}
	}
	edge := n.list[1]
	b, _ := edge.connect(t, edge.login(t, command.DemoUser).Access, "")
	b.send(map[string]any{"action": "subscribe", "trades": []string{"*|BYMA|*"}})
	b.until(func(m message) bool { return m.Type == "T" && !m.R })
}
