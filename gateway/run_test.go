package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// launch starts a gateway that the test itself stops.
func launch(t *testing.T, cfg gateway.Config) (c *literalClient, stop context.CancelFunc, done <-chan error) {
	t.Helper()
	ready := make(chan gateway.Bound, 1)
	cfg.Listen, cfg.OnReady = "127.0.0.1:0", func(b gateway.Bound) { ready <- b }
	g, err := gateway.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	select {
	case b := <-ready:
		return &literalClient{http: &http.Client{}, rest: b.REST, stream: b.Stream}, stop, ended
	case err := <-ended:
		t.Fatalf("run: %v", err)
	}
	panic("unreachable")
}

func (c *literalClient) enter(t *testing.T, username, password string) {
	t.Helper()
	answer, err := c.token(`{"grant_type":"password","username":"` + username + `","password":"` + password + `"}`)
	if err != nil {
		t.Fatal(err)
	}
	c.access = answer.Data.AccessToken
}

// TestDrain shuts down a gateway with three clients. Each is warned with its own time, receives
// trades until then, and is closed with 4503. Readiness answers 503 meanwhile.
func TestDrain(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	addDemo(t, data.Users)
	const window = 600 * time.Millisecond
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: window,
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 10 * time.Millisecond}}},
	})
	c.enter(t, "demo", "demo-password")
	var bots []*bot
	for range 3 {
		b := connect(t, c)
		b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
		bots = append(bots, b)
	}
	for _, b := range bots {
		b.until(t, "T", "")
	}
	stop()
	for _, b := range bots {
		b.until(t, "Warning", "shutting_down")
	}
	res, err := c.http.Get(c.rest + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readiness while draining: %s", res.Status)
	}
	trades := 0
	for _, b := range bots {
		for {
			m, err := b.next(t.Context())
			if code := websocket.CloseStatus(err); code == 4503 {
				break
			} else if err != nil {
				t.Fatalf("closed by %v", err)
			}
			if m.Type == "T" {
				trades++
			}
		}
	}
	if trades == 0 {
		t.Error("no trade came while draining")
	}
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// until reads messages up to one of a type and reason.
func (b *bot) until(t *testing.T, kind, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		m, err := b.next(ctx)
		if err != nil {
			t.Fatalf("waiting for %s %s: %v", kind, reason, err)
		}
		if m.Type == kind && m.Reason == reason {
			return
		}
		if m.Action == "ping" { // on a busy machine
			b.send(map[string]string{"action": "pong"})
		}
	}
}

// TestUsersChangedElsewhere changes a user by another connection to the database, as another
// process does. The open socket closes within half a second.
func TestUsersChangedElsewhere(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	opened := func() *gateway.Data {
		t.Helper()
		d, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	elsewhere := opened().Users
	for name, change := range map[string]func() error{
		"password": func() error { return elsewhere.SetPassword(t.Context(), "password", "another long password") },
		"disabled": func() error { return elsewhere.Disable(t.Context(), "disabled") },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := elsewhere.Add(t.Context(), local.NewUser{Username: name, Password: "a long password", Scopes: []string{broker.ScopeRead}})
			if err != nil {
				t.Fatal(err)
			}
			c, stop, done := launch(t, gateway.Config{Data: opened(), Drain: time.Millisecond})
			c.enter(t, name, "a long password")
			b := connect(t, c)
			began := time.Now()
			if err := change(); err != nil {
				t.Fatal(err)
			}
			b.until(t, "Error", "token_revoked")
			if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
				t.Errorf("closed by %v", err)
			}
			t.Logf("figure: user change noticed after %v", time.Since(began).Round(time.Millisecond))
			if _, err := c.token(`{"grant_type":"password","username":"` + name + `","password":"a long password"}`); err == nil {
				t.Error("the old login still works")
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadiness checks readiness with a feed that fails at first.
func TestReadiness(t *testing.T) {
	t.Parallel()
	up := make(chan struct{})
	c, stop, done := launch(t, gateway.Config{Drain: time.Millisecond, Feeds: []gateway.Feed{{Name: "late", Source: brokenUntil(up)}}})
	status := func() int {
		t.Helper()
		res, err := c.http.Get(c.rest + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("with its only feed down: %d", got)
	}
	close(up)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(time.Minute); status() != http.StatusOK; <-look.C {
		if time.Now().After(deadline) {
			t.Fatal("never ready again")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestReadinessWithoutFeed checks that a gateway without a working feed is not ready, for each
// cause, and that the answer states the cause.
func TestReadinessWithoutFeed(t *testing.T) {
	t.Parallel()
	good := metronome{[]string{"GGAL|BYMA|24hs"}, time.Millisecond}
	define := func(sink feed.Sink, id string) market.Handle {
		in, err := market.ParsePattern(id)
		if err != nil {
			t.Error(err)
		}
		h, err := sink.Define(market.Instrument{ID: in})
		if err != nil {
			t.Error(err)
		}
		return h
	}
	ended := source(func(_ context.Context, sink feed.Sink) error {
		h := define(sink, "AL30|BYMA|CI")
		return sink.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Price: market.Scale, Size: market.Scale}})
	})
	down := source(func(ctx context.Context, sink feed.Sink) error {
		define(sink, "AL30|BYMA|CI")
		err := sink.Publish([]market.Event{{Kind: market.KindStatus, Handle: define(sink, "*|BYMA|*"), Phase: market.FeedDown, Reason: "line_down"}})
		<-ctx.Done()
		return err
	})
	silent := source(func(ctx context.Context, _ feed.Sink) error { <-ctx.Done(); return nil })
	for _, c := range []struct {
		name  string
		feeds []gateway.Feed
		want  int
	}{
		{"none configured", nil, http.StatusOK},
		{"one", []gateway.Feed{{Name: "a", Source: good}}, http.StatusOK},
		{"one of two", []gateway.Feed{{Name: "a", Source: down}, {Name: "b", Source: good}}, http.StatusOK},
		{"one that ended", []gateway.Feed{{Name: "a", Source: ended}}, http.StatusServiceUnavailable},
		{"one whose line is down", []gateway.Feed{{Name: "a", Source: down}}, http.StatusServiceUnavailable},
		{"one that nobody feeds", []gateway.Feed{{Name: "a", Source: silent, Late: true}}, http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, stop, done := launch(t, gateway.Config{Drain: time.Millisecond, Feeds: c.feeds})
			got, body := 0, ""
			look := time.NewTicker(10 * time.Millisecond)
			defer look.Stop()
			for deadline := time.Now().Add(time.Minute); got != c.want && time.Now().Before(deadline); <-look.C {
				res, err := client.http.Get(client.rest + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				got, body = res.StatusCode, string(b)
			}
			if got != c.want || got != http.StatusOK && !strings.Contains(body, `"Not ready: no feed is up"`) {
				t.Errorf("%d %s", got, body)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// source is a feed.Source.
type source func(ctx context.Context, sink feed.Sink) error

func (f source) Run(ctx context.Context, sink feed.Sink) error { return f(ctx, sink) }

// brokenUntil is a source that fails until a channel is closed, and then publishes trades.
type brokenUntil chan struct{}

func (b brokenUntil) Run(ctx context.Context, sink feed.Sink) error {
	select {
	case <-b:
		return metronome{[]string{"GGAL|BYMA|24hs"}, time.Millisecond}.Run(ctx, sink)
	default:
		return errors.New("not connected")
	}
}

// TestSilentFeed checks that a gateway says which feeds have published nothing when it starts
// without them.
func TestSilentFeed(t *testing.T) {
	t.Parallel()
	silent := source(func(ctx context.Context, _ feed.Sink) error { <-ctx.Done(); return nil })
	ready, ended := make(chan gateway.Bound, 1), make(chan error, 1)
	g, err := gateway.New(t.Context(), gateway.Config{
		Listen: "127.0.0.1:0", Drain: time.Millisecond, OnReady: func(b gateway.Bound) { ready <- b },
		Feeds: []gateway.Feed{
			{Name: "silent", Source: silent}, {Name: "late", Source: silent, Late: true},
			{Name: "good", Source: metronome{[]string{"GGAL|BYMA|24hs"}, time.Millisecond}}, {Name: "stuck", Source: silent},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- g.Run(ctx) }()
	if b := <-ready; b.Silent != "silent, stuck" {
		t.Errorf("silent feeds: %q", b.Silent)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
