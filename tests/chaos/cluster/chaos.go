//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
	"github.com/ruedahq/rueda/tests/chaos/single"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Config says what a run does.
type Config struct {
	Seed     uint64
	Duration time.Duration
	Clients  int
	Report   *check.Report
	Logf     func(format string, args ...any)
}

// chaos is a run.
type chaos struct {
	Config
	cluster  *Cluster
	producer *producer.Producer
	judge    *check.Judge
	clients  []*check.Client
	watch    *watch
	faults   *Faults
}

// Chaos makes the cluster fail while clients follow it. At the end of each phase, and of the run,
// all nodes and clients must have all events of the market.
func (c *Cluster) Chaos(ctx context.Context, config Config) error {
	x := newChaos(c, config)
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() { stop(); group.Wait() }()
	group.Go(func() { x.producer.Run(ctx) })
	if err := c.begin(ctx, x.judge); err != nil {
		return err
	}
	for _, k := range x.clients {
		group.Go(func() { k.Run(ctx) })
	}
	x.watch.started.Store(time.Now().UnixNano())
	group.Go(func() { x.watch.run(ctx) })
	for _, n := range c.Nodes {
		p := &Probe{Node: n, Token: c.Token, Judge: x.judge, Every: 50 * time.Millisecond}
		group.Go(func() { p.Run(ctx) })
	}
	phases := max(1, min(6, int(x.Duration/(30*time.Second))))
	for i := range phases {
		limit, done := context.WithTimeout(ctx, x.Duration/time.Duration(phases))
		x.faults.Run(limit)
		done()
		if err := x.settle(ctx, i == phases-1); err != nil {
			return err
		}
	}
	for _, text := range x.producer.Refused() {
		x.Report.Violation("line", "%s", text)
	}
	if n := x.producer.Forgotten.Load(); n > 0 {
		x.Report.Violation("last", "%d times the log did not know which lines it had", n)
	}
	for _, text := range x.producer.Lost() {
		x.Report.Violation("acknowledged", "%s", text)
	}
	for _, reason := range []string{"invalid_token", "token_expired", "token_revoked"} {
		if n := x.Report.Get("error " + reason); n > 0 {
			x.Report.Violation("token", "%d times %s", n, reason)
		}
	}
	for _, n := range c.Nodes {
		single.Verify(ctx, c.program, filepath.Join(n.data(), "journal"), false, x.Report)
	}
	x.Report.Count("connections of the producer", x.producer.Connections.Load())
	x.Report.Count("longest silence in ms", x.watch.longest.Load()/int64(time.Millisecond))
	x.Logf("the longest time until all nodes were ready was %v, of: %s", x.faults.slowest.Round(time.Millisecond), x.faults.slow)
	return nil
}

func newChaos(c *Cluster, config Config) *chaos {
	x := &chaos{Config: config, cluster: c}
	m := market.New(x.Seed, time.Now(), 25*time.Millisecond, 6)
	x.producer = producer.New(producer.Config{
		Market: m, Name: "chaos", Resume: "1", Token: FeedToken, Addresses: c.Feeds(), AckLimit: 2 * time.Second,
	})
	x.judge = check.NewJudge(m, x.Report)
	var addresses, serving []string
	for _, n := range c.Nodes {
		addresses = append(addresses, n.Address)
		if n.Serves() {
			serving = append(serving, n.Address)
		}
	}
	for i := range x.Clients {
		x.clients = append(x.clients, check.NewClient(check.ClientConfig{
			Name: fmt.Sprintf("c%d", i), Addresses: addresses, User: userName, Password: password, Judge: x.judge,
			Seed: x.Seed + uint64(i),
		}))
	}
	x.watch = &watch{addresses: serving, token: c.Token}
	x.faults = &Faults{Cluster: c, Random: rand.New(rand.NewPCG(x.Seed, 0)), Report: x.Report, Logf: x.Logf, Late: x.watch.lateness}
	return x
}

// begin waits until the log has trades of all instruments, and gives their epoch to the judge.
func (c *Cluster) begin(ctx context.Context, judge *check.Judge) error {
	for _, in := range judge.Market.Instruments {
		var h *stream.History
		var err error
		if !producer.Until(ctx, func() bool {
			h, err = stream.ReadHistory(ctx, c.Nodes[0].Address, c.Token, "trades", in.ID, "", 0)
			return err == nil && len(h.Rows) > 0
		}) {
			return fmt.Errorf("%s has no trade: %v", in.ID, err)
		}
		judge.Epoch(h.Epoch)
	}
	return nil
}

// settle stops the market, and checks that all nodes and clients have all of it. At the end, that
// includes nodes that serve no clients.
func (x *chaos) settle(ctx context.Context, last bool) error {
	if !producer.Until(ctx, func() bool { return x.watch.lateness() < time.Second }) {
		x.Report.Violation("clock", "bars come %v after their end, although all nodes are ready", x.watch.lateness().Round(time.Millisecond))
	}
	x.watch.stopped.Store(true)
	end := x.producer.StopAt(time.Now())
	for _, k := range x.clients {
		k.Calm(true)
	}
	defer func() {
		x.producer.Continue()
		for _, k := range x.clients {
			k.Calm(false)
		}
		x.watch.started.Store(time.Now().UnixNano())
		x.watch.stopped.Store(false)
	}()
	if !producer.Until(ctx, x.producer.Drained) {
		return errors.New("the producer has no Ack for lines of half a minute ago")
	}
	for _, n := range x.cluster.Nodes {
		if !n.Serves() {
			if !last {
				continue
			}
			n.End(syscall.SIGTERM, 30*time.Second)
			n.Role = "all"
			n.start()
			if !producer.Until(ctx, n.Ready) {
				return fmt.Errorf("%s is not ready with the role all", n.Name)
			}
		}
		if !producer.Until(ctx, func() bool { return x.barsEnded(ctx, n, end) }) {
			return fmt.Errorf("%s has no bar of the last second after half a minute", n.Name)
		}
		if err := x.judge.History(ctx, n.Address, x.cluster.Token, end); err != nil {
			return fmt.Errorf("history of %s: %w", n.Name, err)
		}
	}
	behind, first := "", x.cluster.Nodes[0]
	if !producer.Until(ctx, func() bool {
		// A minute may end meanwhile, with its bars.
		if err := x.judge.History(ctx, first.Address, x.cluster.Token, end); err != nil {
			behind = fmt.Sprintf("history of %s: %v", first.Name, err)
			return false
		}
		final := x.judge.Final()
		for _, k := range x.clients {
			if behind = k.Behind(final); behind != "" {
				return false
			}
		}
		return true
	}) {
		x.Report.Violation("behind", "%s", behind)
	}
	x.Logf("%s", x.Report)
	return nil
}

// barsEnded reports whether a node has the last bars of a second that ended before the market
// stopped. The clock of the gateway ends them, and not the next event.
func (x *chaos) barsEnded(ctx context.Context, n *Node, end int64) bool {
	for _, in := range x.judge.Market.Instruments {
		var page struct{ Bars []stream.Message }
		query := url.Values{"instrument": {in.ID}, "interval": {"1s"}, "order": {"desc"}, "limit": {"20"}}
		err := stream.Get(ctx, n.Address, x.cluster.Token, "/market/bars", query, &page)
		at := market.Stamp(in.Time(end - 1).Truncate(time.Second).Add(-time.Second))
		if err != nil || !slices.ContainsFunc(page.Bars, func(m stream.Message) bool { return m.T == at }) {
			return false
		}
	}
	return true
}

// watch is a client that follows all trades and connects to the next node when a connection ends.
// It measures the longest time without a trade.
type watch struct {
	addresses []string
	token     string
	stopped   atomic.Bool  // the market is
	started   atomic.Int64 // when it began or continued
	longest   atomic.Int64
	late      atomic.Int64 // time from the end of the newest bar of a second until it came

	last int64 // when the newest trade came
}

func (w *watch) lateness() time.Duration { return time.Duration(w.late.Load()) }

func (w *watch) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		w.follow(ctx, w.addresses[i%len(w.addresses)])
		producer.Wait(ctx, 50*time.Millisecond)
	}
}

// follow follows one node. It leaves a node that says nothing for two seconds.
func (w *watch) follow(ctx context.Context, address string) {
	s, err := stream.Dial(ctx, address, stream.Options{})
	if err != nil {
		return
	}
	defer s.Close()
	defer context.AfterFunc(ctx, s.Close)()
	for _, m := range []map[string]any{
		{"action": "auth_token", "token": w.token}, {"action": "subscribe", "trades": []string{"*|M1|24hs"}, "bars": []string{"*|M1|24hs"}, "interval": "1s"},
	} {
		if s.Send(m) != nil {
			return
		}
	}
	for {
		m, err := s.Read(time.Now().Add(2 * time.Second))
		if err != nil {
			return
		}
		if now := time.Now().UnixNano(); m.Type == "T" && !w.stopped.Load() {
			w.longest.Store(max(w.longest.Load(), now-max(w.last, w.started.Load())))
			w.last = now
		}
		if at, err := time.Parse(time.RFC3339Nano, m.T); err == nil && m.Type == "K" && !m.Snapshot() {
			w.late.Store(int64(time.Since(at.Add(time.Second))))
		}
		if m.Action == "ping" && s.Send(map[string]any{"action": "pong"}) != nil {
			return
		}
	}
}
