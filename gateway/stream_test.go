package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
)

// bot is a client that knows the whole protocol, as far as tests need it.
type bot struct {
	t  *testing.T
	ws *websocket.Conn
}

// frame has the fields of messages that a bot reads.
type frame struct {
	Type     string                       `json:"type"`
	Action   string                       `json:"action"`
	Reason   string                       `json:"reason"`
	Code     int                          `json:"code"`
	I        string                       `json:"I"`
	N        uint64                       `json:"N"`
	X        string                       `json:"X"`
	Epoch    string                       `json:"epoch"`
	Position string                       `json:"position"`
	Lost     map[string]map[string]lost   `json:"lost"`
	Resumed  map[string]map[string]uint64 `json:"resumed"`
}

type lost struct {
	From, To uint64
	Reason   string
}

func connect(t *testing.T, c *literalClient) *bot {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), c.stream, &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	b := &bot{t, ws}
	b.send(map[string]any{"action": "auth_token", "token": c.access})
	if m, err := b.next(t.Context()); err != nil || m.Type != "Success" {
		t.Fatalf("authenticate: %+v %v", m, err)
	}
	return b
}

func (b *bot) send(v any) {
	b.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	asyncapitest.Sent(b.t, text)
	if err := b.ws.Write(b.t.Context(), websocket.MessageText, text); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bot) next(ctx context.Context) (m frame, err error) {
	text, err := b.read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// read returns the next message, or the end of the connection.
func (b *bot) read(ctx context.Context) ([]byte, error) {
	b.t.Helper()
	_, text, err := b.ws.Read(ctx)
	return text, err
}

// TestResumeOverSocketsE2E loses its socket at 200 random times (a twentieth unless in full) while
// it follows 20 instruments of the simulated market. It must receive every trade once and in order,
// or the exact range that is lost.
func TestResumeOverSocketsE2E(t *testing.T) {
	t.Parallel()
	source, err := sim.New(sim.Config{Seed: 7, Speed: 600})
	if err != nil {
		t.Fatal(err)
	}
	client, at := run(t, gateway.Config{
		Listen: "127.0.0.1:0",
		Feeds:  []gateway.Feed{{Name: "sim", Source: source}},
		// The smallest number of recent rows, 512, and time for a client on a busy machine.
		Stream: gateway.Stream{TradesKept: 1, PongTimeout: 5 * time.Minute, MaxWaiting: 64 << 20, MaxAge: 5 * time.Minute},
		Limits: gateway.Limits{Handshakes: 100_000},
	})
	awaitMarket(t, client, at.REST)
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, in := range source.Instruments() {
		if len(names) < 20 {
			names = append(names, in.ID.String())
		}
	}
	seen := map[string]uint64{}
	epoch, position := "", ""
	rng := rand.New(rand.NewPCG(1, 1))
	got, gaps := 0, 0
	for round := range count(200) {
		b := connect(t, c)
		subscribe := map[string]any{"action": "subscribe", "trades": names}
		if epoch != "" {
			subscribe["resume"] = map[string]any{"epoch": epoch, "trades": seen, "position": position}
		}
		b.send(subscribe)
		for range 1 + rng.IntN(3000) {
			m, err := b.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch m.Type {
			case "Subscription":
				if epoch == "" {
					epoch, position = m.Epoch, m.Position
				}
				for name, l := range m.Lost["trades"] {
					if l.From != seen[name]+1 && seen[name] > 0 {
						t.Fatalf("round %d: %s lost from %d, had %d", round, name, l.From, seen[name])
					}
					seen[name] = l.To
					gaps++
				}
			case "T":
				if last, ok := seen[m.I]; ok && m.N != last+1 {
					t.Fatalf("round %d: %s %d after %d", round, m.I, m.N, last)
				}
				seen[m.I] = m.N
				got++
			case "CaughtUp":
				position = m.Position
			case "Error":
				t.Fatalf("%+v", m)
			}
		}
		b.ws.CloseNow()
		if round%5 == 4 {
			away(t, c, names)
		}
	}
	if gaps == 0 {
		t.Error("nothing was ever lost: the test does not reach past the tape")
	}
	t.Logf("figure: resume: %d trades over %d sockets, %d lost ranges reported", got, count(200), gaps)
}

// away lets the market run until the recent rows of the busiest instruments no longer include the
// client's last ones.
func away(t *testing.T, c *literalClient, names []string) {
	b := connect(t, c)
	defer b.ws.CloseNow()
	b.send(map[string]any{"action": "subscribe", "trades": names})
	for range 20_000 {
		if _, err := b.next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoPong does not answer the ping. The socket closes 30 s after it. A full run measures that
// over a real socket; a short run shortens the timeout.
func TestNoPong(t *testing.T) {
	t.Parallel()
	settings := gateway.Stream{PingInterval: 200 * time.Millisecond, PongTimeout: 300 * time.Millisecond}
	if full() {
		settings = gateway.Stream{}
	}
	client, at := run(t, gateway.Config{Listen: "127.0.0.1:0", Stream: settings})
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	b := connect(t, c)
	defer b.ws.CloseNow()
	var pinged time.Time
	last := frame{}
	for {
		m, err := b.next(t.Context())
		if err != nil {
			var e websocket.CloseError
			if !errors.As(err, &e) || e.Code != 4504 || e.Reason != "pong_timeout" || last.Reason != "pong_timeout" {
				t.Fatalf("ended with %v after %+v", err, last)
			}
			break
		}
		if m.Action == "ping" && pinged.IsZero() {
			pinged = time.Now()
		}
		last = m
	}
	took := time.Since(pinged)
	t.Logf("figure: no pong: closed %v after the ping", took.Round(time.Millisecond))
	if full() && (took < 29*time.Second || took > 31*time.Second) {
		t.Errorf("closed %v after the ping, want 30 s within 1 s", took)
	}
}

// TestStolenRefreshToken presents a dead refresh token late. This ends the family, its access
// tokens and its sockets.
func TestStolenRefreshToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, at := run(t, gateway.Config{Listener: newPipes()})
		c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		b := connect(t, c)
		defer b.ws.CloseNow()
		parent := c.refresh
		child, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + parent + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		// The successor is used: the parent is dead. Reuse within 30 s counts as an accident.
		if _, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + child.Data.RefreshToken + `"}`); err != nil {
			t.Fatal(err)
		}
		if _, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + parent + `"}`); err == nil || !strings.Contains(err.Error(), "invalid_refresh_token") {
			t.Fatalf("dead token: %v", err)
		}
		if err := c.accounts(); err != nil {
			t.Fatalf("an accident ended the family: %v", err)
		}
		time.Sleep(31 * time.Second)
		done := make(chan error, 1)
		go func() {
			for {
				m, err := b.next(t.Context())
				if err != nil {
					done <- err
					return
				}
				if m.Type == "Error" && m.Reason != "token_revoked" {
					done <- fmt.Errorf("%+v", m)
					return
				}
				if m.Action == "ping" {
					b.send(map[string]string{"action": "pong"})
				}
			}
		}()
		synctest.Wait()
		if _, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + parent + `"}`); err == nil {
			t.Fatal("a dead token was taken")
		}
		if code := websocket.CloseStatus(<-done); code != 4401 {
			t.Errorf("socket closed with %d", code)
		}
		if err := c.accounts(); err == nil {
			t.Error("an access token of the family still serves")
		}
	})
}
