package gateway_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
)

// full reports whether long counts run in full (make soak) or at a twentieth.
func full() bool { return os.Getenv("RUEDA_SOAK") != "" }

func count(n int) int {
	if full() {
		return n
	}
	return max(1, n/20)
}

// bound returns the time limit for a promise of the documents: most itself in full, otherwise three
// times as long, because the machine does other work too.
func bound(most time.Duration) time.Duration {
	if full() {
		return most
	}
	return 3 * most
}

// promised compares the time since began with a promise of the documents.
func promised(t *testing.T, what string, began time.Time, most time.Duration) {
	t.Helper()
	took := time.Since(began)
	t.Logf("figure: %s after %v", what, took.Round(time.Millisecond))
	if took > bound(most) {
		t.Errorf("%s after %v, promised within %v and allowed %v here", what, took, most, bound(most))
	}
}

// pipes is a listener of in-memory connections, for gateways inside a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- fromLoopback{server}:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fromLoopback adds the addresses of a real connection to a pipe.
type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
}

// run starts a gateway with user demo/demo-password and stops it with the test. It returns a client
// and the base address.
func run(t *testing.T, cfg gateway.Config) (*http.Client, gateway.Bound) {
	t.Helper()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	if cfg.Data == nil {
		cfg.Data = data
	}
	addDemo(t, cfg.Data.Users)
	ready := make(chan gateway.Bound, 1)
	cfg.OnReady = func(b gateway.Bound) { ready <- b }
	g, err := gateway.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	tr := &http.Transport{}
	if p, ok := cfg.Listener.(*pipes); ok {
		tr.DialContext = p.dial
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case b := <-ready:
		return &http.Client{Transport: openapitest.Wrap(tr)}, b
	case err := <-done:
		done <- nil
		t.Fatalf("run: %v", err)
	}
	panic("unreachable")
}

// awaitMarket waits until the gateway is ready. A gateway on a slow machine may serve before the
// simulated market has begun.
func awaitMarket(t *testing.T, client *http.Client, rest string) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for late := time.Now().Add(time.Minute); ; <-look.C {
		res, err := client.Get(rest + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the market does not begin")
		}
	}
}

// metronome is a source with one trade of each instrument at an interval.
type metronome struct {
	names []string
	every time.Duration
}

func (m metronome) Run(ctx context.Context, sink feed.Sink) error {
	events := make([]market.Event, len(m.names))
	for i, n := range m.names {
		id, err := market.ParseInstrumentID(n)
		if err != nil {
			return err
		}
		h, err := sink.Define(market.Instrument{ID: id, PriceDecimals: 2, StartsEmpty: true})
		if err != nil {
			return err
		}
		events[i] = market.Event{Kind: market.KindTrade, Handle: h, Price: 7050 * market.Scale, Size: 120 * market.Scale, Side: market.Buy}
	}
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for i := range events {
				events[i].Time = now.UnixNano()
			}
			if err := sink.Publish(events); err != nil {
				return err
			}
		}
	}
}

// addDemo adds user demo with every right and one account.
func addDemo(t *testing.T, users *local.Base) {
	t.Helper()
	if err := seedDemo(t.Context(), users); err != nil {
		t.Fatal(err)
	}
}

func seedDemo(ctx context.Context, users *local.Base) error {
	_, err := users.Add(ctx, local.NewUser{
		Username: "demo", Password: "demo-password",
		Scopes:       []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
		Limits:       broker.Limits{Connections: 100, RequestsPerMinute: 1_000_000},
	})
	if err != nil {
		return err
	}
	_, err = users.AddAccount(ctx, "demo", broker.Account{Number: "1", Name: "Demo", Type: "cash", Currency: "ARS"})
	return err
}
