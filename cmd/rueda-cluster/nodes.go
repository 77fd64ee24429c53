package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/server"
	"github.com/ruedahq/rueda/market"
)

// This file measures nodes of Rueda with the same NATS servers as the bare program: a sequencer
// whose feed changes levels of books, and an edge with a client.

// nodesConfig configures a run with nodes.
type nodesConfig struct {
	bareConfig
	folder string
}

// nodeFigures are results of a run with nodes.
type nodeFigures struct {
	figures
	AloneIngest      float64       // of one process without NATS
	Alone50, Alone99 time.Duration // latency of that process, at the same rate
}

// Settings of the measurement.
const (
	benchBooks = 100                   // instruments whose books change
	probeEvery = 5 * time.Millisecond  // between two trades whose latency is measured
	benchTurn  = 2 * time.Millisecond  // between two batches of the latency run
	benchLook  = 10 * time.Millisecond // between two looks at the position of a node
	benchToken = "the-token-of-the-operator-of-a-bench"
	probe      = "PROBE|BENCH|CI"
)

// benchFeed publishes what a measurement asks for.
type benchFeed struct {
	work chan func(sink feed.Sink, books []market.Handle, probe market.Handle) error
	done chan error
}

// Run implements feed.Source.
func (f *benchFeed) Run(ctx context.Context, sink feed.Sink) error {
	define := func(symbol string) (market.Handle, error) {
		return sink.Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "BENCH", Term: "CI"}, PriceDecimals: 2, StartsEmpty: true})
	}
	trades, err := define("PROBE")
	if err != nil {
		return err
	}
	var books []market.Handle
	for i := range benchBooks {
		h, err := define(fmt.Sprintf("B%d", i))
		if err != nil {
			return err
		}
		book := market.Event{Kind: market.KindSnapshot, Handle: h, Time: time.Now().UnixNano()}
		for k := range int64(5) {
			book.Bids = append(book.Bids, benchLevel(-k-1, 100))
			book.Asks = append(book.Asks, benchLevel(k+1, 100))
		}
		if err := sink.Publish([]market.Event{book}); err != nil {
			return err
		}
		books = append(books, h)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-f.work:
			f.done <- w(sink, books, trades)
		}
	}
}

// do makes the running feed call w, and waits for it.
func (f *benchFeed) do(ctx context.Context, w func(sink feed.Sink, books []market.Handle, probe market.Handle) error) error {
	select {
	case f.work <- w:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// benchLevel returns the n-th level from the middle of a book.
func benchLevel(n, size int64) market.Level {
	return market.Level{Price: market.Price((1000 + n) * market.Scale), Size: market.Size(size * market.Scale), Orders: 1}
}

// change returns the i-th change of a level: one row.
func change(books []market.Handle, i int) market.Event {
	return market.Event{Kind: market.KindUpdate, Handle: books[i%len(books)], Bids: []market.Level{changedLevel(i)}}
}

// changedLevel returns the level of the i-th change, which is not the best of its side. Levels and
// sizes vary, because equal ones would compress better than those of a market.
func changedLevel(i int) market.Level {
	const spread = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	h := uint64(i) * spread
	return benchLevel(-2-int64(h>>62), int64(1+h>>40%10_000))
}

// benchNode is a running gateway of a measurement.
type benchNode struct {
	bound  gateway.Bound
	cancel context.CancelFunc
	ended  chan error
}

// startNode starts a gateway. Without urls it is one process with a journal, as its own log.
func startNode(ctx context.Context, folder, name, role string, urls []string, replicas int, source feed.Source) (*benchNode, error) {
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: filepath.Join(folder, "data")})
	if err != nil {
		return nil, err
	}
	if err := server.AddDemoUsers(ctx, data.Users); err != nil {
		return nil, errors.Join(err, data.Close())
	}
	bound := make(chan gateway.Bound, 1)
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Logger: slog.New(slog.DiscardHandler), Drain: time.Millisecond,
		Admin:   gateway.Admin{Listen: "127.0.0.1:0", Tokens: benchToken},
		Journal: gateway.Journal{Folder: filepath.Join(folder, name, "journal"), Segment: 64 << 20},
		OnReady: func(b gateway.Bound) { bound <- b },
	}
	if len(urls) > 0 {
		cfg.Cluster = gateway.Cluster{Name: benchCluster, Node: name, Role: role, NATS: urls, Replicas: replicas, Bytes: 8 << 30}
	}
	if source != nil {
		cfg.Feeds = []gateway.Feed{{Name: "bench", Source: source}}
	}
	g, err := gateway.New(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	n := &benchNode{cancel: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- errors.Join(g.Run(ctx), data.Close()) }()
	select {
	case n.bound = <-bound:
		return n, nil
	case err := <-n.ended:
		cancel()
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
}

// stop ends the node.
func (n *benchNode) stop() error {
	n.cancel()
	return <-n.ended
}

// get reads an answer of the node, from the listener for administrators or of clients.
func (n *benchNode) get(ctx context.Context, url, token string, data any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	envelope := struct{ Data any }{data}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", url, answer.Status), err)
	}
	return nil
}

// state is what a node states about itself.
type state struct {
	Position uint64
	Current  bool
}

// await waits until the node has the newest row of the log that is at a position or later.
func (n *benchNode) await(ctx context.Context, position uint64) (s state, err error) {
	for {
		if err := n.get(ctx, "http://"+n.bound.Admin+"/admin/cluster", benchToken, &s); err != nil || s.Current && s.Position >= position {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(benchLook):
		}
	}
}

// runNodes measures a sequencer and an edge.
func runNodes(ctx context.Context, c nodesConfig) (f nodeFigures, err error) {
	f.Rows = c.rows
	if err = c.alone(ctx, &f); err != nil {
		return f, fmt.Errorf("one process: %w", err)
	}
	urls := strings.Split(c.url, ",")
	source := &benchFeed{work: make(chan func(feed.Sink, []market.Handle, market.Handle) error), done: make(chan error)}
	start := func(name, role string, s feed.Source) (*benchNode, error) {
		return startNode(ctx, c.folder, name, role, urls, c.replicas, s)
	}
	sequencer, err := start("sequencer-1", "sequencer", source)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, sequencer.stop()) }()
	edge, err := start("edge-1", "edge", nil)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if _, err := edge.await(ctx, benchBooks); err != nil {
		return f, err
	}
	if f.P50, f.P99, err = c.delay(ctx, edge, source); err != nil {
		return f, err
	}
	if f.Ingest, err = c.fill(ctx, edge, source); err != nil {
		return f, err
	}
	end, err := edge.await(ctx, 0)
	if err != nil {
		return f, err
	}
	began := time.Now()
	another, err := start("edge-2", "edge", nil)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, another.stop()) }()
	if _, err = another.await(ctx, end.Position); err == nil {
		f.CatchUp = time.Duration(float64(time.Since(began)) * float64(c.rows) / float64(end.Position))
	}
	return f, err
}

// alone measures one process without NATS.
func (c *nodesConfig) alone(ctx context.Context, f *nodeFigures) error {
	source := &benchFeed{work: make(chan func(feed.Sink, []market.Handle, market.Handle) error), done: make(chan error)}
	n, err := startNode(ctx, filepath.Join(c.folder, "alone"), "alone", "", nil, 0, source)
	if err != nil {
		return err
	}
	if f.Alone50, f.Alone99, err = c.delay(ctx, n, source); err == nil {
		f.AloneIngest, err = c.fill(ctx, n, source)
	}
	return errors.Join(err, n.stop())
}

// fill publishes the rows of the ingest run as fast as they are taken, and then a trade. It returns
// the number of rows per second until a client of the node has read the trade.
func (c *nodesConfig) fill(ctx context.Context, n *benchNode, source *benchFeed) (perSecond float64, err error) {
	ws, err := n.subscribe(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = ws.CloseNow() }()
	began := time.Now()
	err = source.do(ctx, func(sink feed.Sink, books []market.Handle, probe market.Handle) error {
		events := make([]market.Event, 0, 500)
		for i := 0; i < c.rows; {
			events = events[:0]
			for ; i < c.rows && len(events) < cap(events); i++ {
				events = append(events, change(books, i))
			}
			if err := sink.Publish(events); err != nil {
				return err
			}
		}
		return sink.Publish([]market.Event{trade(probe, endOfRows)})
	})
	for id := ""; err == nil && id != endOfRows; {
		id, err = readTrade(ctx, ws)
	}
	return float64(c.rows) / time.Since(began).Seconds(), err
}

// endOfRows is the identity of the trade that follows the rows of the ingest run.
const endOfRows = "end"

// trade returns a trade with an identity.
func trade(h market.Handle, id string) market.Event {
	return market.Event{Kind: market.KindTrade, Handle: h, Price: 100 * market.Scale, Size: market.Scale, TradeID: id}
}

// readTrade returns the identity of the next trade.
func readTrade(ctx context.Context, ws *websocket.Conn) (id string, err error) {
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return "", fmt.Errorf("read the stream of the node: %w", err)
		}
		var m struct{ Type, X string }
		if json.Unmarshal(text, &m) == nil && m.Type == "T" {
			return m.X, nil
		}
	}
}

// delay publishes rows at a rate, and with them trades with their time. It returns the time until
// a client of the node has read them.
func (c *nodesConfig) delay(ctx context.Context, n *benchNode, source *benchFeed) (p50, p99 time.Duration, err error) {
	ws, err := n.subscribe(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = ws.CloseNow() }()
	start, total := time.Now(), int(c.time/probeEvery)
	var took []time.Duration
	read := make(chan error, 1)
	go func() {
		for len(took) < total {
			id, err := readTrade(ctx, ws)
			if err != nil {
				read <- err
				return
			}
			sent, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				read <- err
				return
			}
			took = append(took, time.Since(start)-time.Duration(sent))
		}
		read <- nil
	}()
	err = source.do(ctx, func(sink feed.Sink, books []market.Handle, probe market.Handle) error {
		return c.pace(sink, books, probe, start, total)
	})
	if err != nil {
		return 0, 0, err
	}
	if err := <-read; err != nil {
		return 0, 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
}

// pace publishes rows at the rate of the run, in batches, and the probes.
func (c *nodesConfig) pace(sink feed.Sink, books []market.Handle, probe market.Handle, start time.Time, total int) error {
	began, rows, probes := time.Now(), 0, 0
	events := make([]market.Event, 0, c.rate)
	for probes < total {
		time.Sleep(benchTurn)
		elapsed := time.Since(began)
		events = events[:0]
		if time.Duration(probes)*probeEvery <= elapsed {
			sent := strconv.FormatInt(int64(time.Since(start)), 10)
			events = append(events, trade(probe, sent))
			probes++
		}
		for due := int(elapsed * time.Duration(c.rate) / time.Second); rows < due && len(events) < cap(events); rows++ {
			events = append(events, change(books, rows))
		}
		if err := sink.Publish(events); err != nil {
			return err
		}
	}
	return nil
}

// subscribe opens a stream of the probes.
func (n *benchNode) subscribe(ctx context.Context) (*websocket.Conn, error) {
	body := strings.NewReader(`{"grant_type":"password","username":"` + command.DemoUser + `","password":"` + command.DemoUser + `"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.bound.REST+"/auth/token", body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	var token struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &token)
	}
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	ws, _, err := websocket.Dial(ctx, n.bound.Stream, nil)
	if err != nil {
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	for _, text := range []string{`{"action":"auth_token","token":"` + token.Data.AccessToken + `"}`, `{"action":"subscribe","trades":["` + probe + `"]}`} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		if strings.HasPrefix(string(text), `{"type":"Subscription"`) {
			return ws, nil
		}
	}
}
