package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/gateway"
)

// crossing is a TCP proxy for a server. It can forward bytes, hold them back, or close connections.
type crossing struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	mode    string // "", hang, refuse
	changed chan struct{}
	all     sync.WaitGroup
}

func newCrossing(t *testing.T, to string) *crossing {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &crossing{listener: l, to: to, changed: make(chan struct{})}
	x.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			x.all.Go(func() { x.cross(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		x.set("closed")
		x.all.Wait()
	})
	return x
}

// set changes the mode of all connections, including open ones.
func (x *crossing) set(mode string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mode = mode
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *crossing) now() (string, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mode, x.changed
}

// pass waits until bytes may be forwarded. It returns false if the connection has ended.
func (x *crossing) pass() bool {
	for {
		mode, changed := x.now()
		switch mode {
		case "":
			return true
		case "hang":
			<-changed
		default:
			return false
		}
	}
}

func (x *crossing) cross(client net.Conn) {
	defer client.Close()
	if !x.pass() {
		return
	}
	server, err := net.Dial("tcp", x.to)
	if err != nil {
		return
	}
	defer server.Close()
	over := make(chan struct{})
	defer close(over)
	x.all.Go(func() { // a change that ends connections also ends idle ones
		for {
			mode, changed := x.now()
			if mode != "" && mode != "hang" {
				client.Close()
				server.Close()
				return
			}
			select {
			case <-changed:
			case <-over:
				return
			}
		}
	})
	var pair sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		pair.Go(func() {
			defer way[1].Close()
			buf := make([]byte, 4096)
			for {
				n, err := way[0].Read(buf)
				if err != nil || !x.pass() {
					return
				}
				if _, err := way[1].Write(buf[:n]); err != nil {
					return
				}
			}
		})
	}
	pair.Wait()
}

// loginService is a broker's login service with one user, demo.
func loginService(w http.ResponseWriter, r *http.Request) {
	var q struct{ Username, Password, ID string }
	w.Header().Set("Content-Type", "application/json")
	switch err := json.NewDecoder(r.Body).Decode(&q); {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case q.ID == "u-1", q.Username == "demo" && q.Password == "demo-password":
		fmt.Fprint(w, `{"id":"u-1","username":"demo","version":1,"scopes":["marketdata:read"],`+
			`"entitlements":[{"market":"*","trades":true,"quotes":false,"depth":0}],"limits":{}}`)
	default:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"reason":"invalid_credentials"}`)
	}
}

// outage is a gateway whose user base is behind a crossing, with a client that follows its stream.
type outage struct {
	*literalClient
	crossing *crossing
	guard    *guard.Guard
	trades   atomic.Int64
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(loginService))
	t.Cleanup(service.Close)
	o := &outage{crossing: newCrossing(t, service.Listener.Addr().String())}
	base, err := httpusers.New(httpusers.Config{URL: "http://" + o.crossing.listener.Addr().String(), Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	o.guard = guard.New(guard.Config{Pause: 500 * time.Millisecond})
	t.Cleanup(func() { _ = base.Close() })
	t.Cleanup(func() { _ = o.guard.Close() })
	client, at := run(t, gateway.Config{
		Listen: "127.0.0.1:0", Users: guard.Users(o.guard, base),
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 20 * time.Millisecond}}},
	})
	o.literalClient = &literalClient{http: client, rest: at.REST, stream: at.Stream}
	return o
}

// ask sends a request to a route and returns the response and its reason.
func (o *outage) ask(t *testing.T, method, route, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, o.rest+route, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodGet {
		req.Header.Set("Authorization", "Bearer "+o.access)
	}
	res, err := o.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a struct{ Error struct{ Reason string } }
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(text, &a)
	return res, a.Error.Reason
}

func (o *outage) login(t *testing.T, username, password string) (*http.Response, string) {
	t.Helper()
	return o.ask(t, http.MethodPost, "/auth/token", `{"grant_type":"password","username":"`+username+`","password":"`+password+`"}`)
}

// count follows the stream until ctx ends and counts its trades.
func (o *outage) count(ctx context.Context) error {
	ws, _, err := websocket.Dial(ctx, o.stream, &websocket.DialOptions{HTTPClient: o.http})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	for _, s := range []string{`{"action":"auth_token","token":"` + o.access + `"}`, `{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(s)); err != nil {
			return err
		}
	}
	for {
		_, text, err := ws.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case strings.Contains(string(text), `"type":"T"`):
			o.trades.Add(1)
		case strings.Contains(string(text), `"action":"ping"`): // on a busy machine
			if err := ws.Write(ctx, websocket.MessageText, []byte(`{"action":"pong"}`)); err != nil && ctx.Err() == nil {
				return err
			}
		case strings.Contains(string(text), `"type":"Error"`):
			return errors.New(string(text))
		}
	}
}

// more waits for n more trades.
func (o *outage) more(t *testing.T, n int64) {
	t.Helper()
	want := o.trades.Load() + n
	for late := time.Now().Add(time.Minute); o.trades.Load() < want; {
		if time.Now().After(late) {
			t.Fatal("the stream stands still")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestThreat30IdentityDown makes the user base hang and then fail. Connected clients keep
// streaming, and known tokens verify. Logins and refreshes answer 503 in time and do not count as
// failed logins. When the user base is up again, everything works as before.
func TestThreat30IdentityDown(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang", "refuse"} {
		t.Run(mode, func(t *testing.T) { testOutage(t, newOutage(t), mode) })
	}
}

func testOutage(t *testing.T, o *outage, mode string) {
	if err := o.literalClient.login(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- o.count(ctx) }()
	defer func() {
		cancel()
		if err := <-followed; err != nil {
			t.Errorf("the connected client: %v", err)
		}
	}()
	o.more(t, 3)

	o.crossing.set(mode)
	refresh := `{"grant_type":"refresh_token","refresh_token":"` + o.refresh + `"}`
	var all sync.WaitGroup
	for i := range 18 { // as many as an address may have in flight, none of which waits for others of its account
		all.Go(func() {
			begun := time.Now()
			var res *http.Response
			var reason string
			switch i % 6 {
			case 0:
				res, reason = o.ask(t, http.MethodPost, "/auth/token", refresh)
			case 1:
				res, reason = o.login(t, fmt.Sprint("user", i), "wrong")
			default:
				res, reason = o.login(t, fmt.Sprint("demo", i), "demo-password")
			}
			if res.StatusCode != http.StatusServiceUnavailable || reason != "unavailable" || res.Header.Get("Retry-After") == "" {
				t.Errorf("%d: %s %s, Retry-After %q", i, res.Status, reason, res.Header.Get("Retry-After"))
			}
			if d := time.Since(begun); d > bound(3*time.Second) {
				t.Errorf("%d: answered after %v", i, d)
			}
		})
	}
	all.Wait()
	o.more(t, 10)
	if o.guard.State() == guard.Closed {
		t.Error("the base is still asked")
	}
	for range 60 { // three times the failures that an address may have at once
		if res, reason := o.login(t, "demo", "wrong"); res.StatusCode != http.StatusServiceUnavailable || reason != "unavailable" {
			t.Fatalf("%s %s", res.Status, reason)
		}
	}
	if res, reason := o.ask(t, http.MethodGet, "/market/instruments", ""); res.StatusCode != http.StatusOK {
		t.Errorf("a token that was seen: %s %s", res.Status, reason)
	}
	o.more(t, 10)

	o.crossing.set("")
	for late := time.Now().Add(time.Minute); ; {
		res, reason := o.login(t, "demo", "demo-password")
		if res.StatusCode == http.StatusOK {
			break
		}
		if reason != "unavailable" || time.Now().After(late) {
			t.Fatalf("when it is back: %s %s", res.Status, reason)
		}
	}
	if res, reason := o.login(t, "demo", "wrong"); res.StatusCode != http.StatusUnauthorized || reason != "invalid_credentials" {
		t.Errorf("a wrong password: %s %s", res.Status, reason)
	}
	if err := o.renew(); err != nil {
		t.Errorf("the refresh token of before: %v", err)
	}
	o.more(t, 3)
}
