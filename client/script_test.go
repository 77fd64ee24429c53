package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/wire"
)

// fake is a gateway in memory that follows a script: one function for each connection of the
// stream, and refusals of handshakes.
type fake struct {
	t       *testing.T
	scripts []func(*fakeConn)
	any     func(*fakeConn)         // in place of scripts, for every connection
	refuse  []http.Header           // answers to the next handshakes, 503 with these headers
	life    int                     // of access tokens, in seconds
	format  wire.Format             // that the client requests; the gateway knows only JSON
	queue   int                     // the client waits for a program that has not taken so many events; 0: it does not
	wrap    func(net.Conn) net.Conn // of the client; nil: as it is

	conns  chan net.Conn
	ended  chan struct{}
	mu     sync.Mutex
	opened int
	grants int
}

// fakeConn is a connection as the script sees it.
type fakeConn struct {
	*websocket.Conn
	t   *testing.T
	ctx context.Context
}

// play runs a client against scripts in a bubble, until on returns false.
func play(t *testing.T, f *fake, set client.Set, on func(*client.Client, client.Event) (more bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.t, f.conns, f.ended = t, make(chan net.Conn), make(chan struct{})
		server := &http.Server{Handler: f}
		var group sync.WaitGroup
		group.Go(func() { _ = server.Serve(f) })
		o := client.Options{Username: "ana", Password: "canary", Session: "bot", Format: f.format, Dial: f.dial}
		if f.queue > 0 {
			o.Queue, o.Overflow = f.queue, client.Block
		}
		c, err := client.New([]string{"http://127.0.0.1:1"}, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Subscribe(set); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		for ev := range c.Events(ctx) {
			if !on(c, ev) {
				break
			}
		}
		if ctx.Err() != nil {
			t.Error("the script did not end")
		}
		cancel()
		close(f.ended)
		c.Close()
		_ = server.Close()
		group.Wait()
	})
}

func (f *fake) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case f.conns <- theirs:
		if f.wrap != nil {
			ours = f.wrap(ours)
		}
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener, as Close and Addr do.
func (f *fake) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.ended:
		return nil, net.ErrClosed
	}
}

func (f *fake) Close() error   { return nil }
func (f *fake) Addr() net.Addr { return &net.TCPAddr{} }

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.URL.Path == "/auth/token":
		f.grants++
		life := f.life
		if life == 0 {
			life = 86400
		}
		fmt.Fprintf(w, `{"success":true,"data":{"access_token":"access-%d","expires_in":%d,"refresh_token":"r","refresh_expires_in":2592000,"scope":"marketdata:read"}}`, f.grants, life)
	case r.URL.Path != "/stream":
		http.NotFound(w, r)
	case len(f.refuse) > 0:
		for name, values := range f.refuse[0] {
			w.Header()[name] = values
		}
		f.refuse = f.refuse[1:]
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"success":false,"error":{"code":503,"reason":"unavailable","msg":"Full"}}`)
	default:
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		if f.opened++; f.any == nil && f.opened > len(f.scripts) {
			f.t.Errorf("connection %d", f.opened)
			_ = conn.CloseNow()
			return
		}
		c := &fakeConn{conn, f.t, context.WithoutCancel(r.Context())}
		defer func() { _ = conn.CloseNow() }()
		script := f.any
		if script == nil {
			script = f.scripts[f.opened-1]
		}
		f.mu.Unlock()
		defer f.mu.Lock()
		script(c)
	}
}

// read reads a message, and answers pings of the client.
func (c *fakeConn) read() (text string, err error) {
	for {
		_, data, err := c.Read(c.ctx)
		if err != nil || string(data) != `{"action":"ping"}` {
			return string(data), err
		}
		c.send(`{"action":"pong","time":"` + string(wire.AppendTime(nil, time.Now().Add(time.Hour).UnixNano())) + `"}`)
	}
}

// want reads a message and compares it with a JSON text.
func (c *fakeConn) want(want string) {
	c.t.Helper()
	got, err := c.read()
	var a, b any
	if err != nil || json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		c.t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

func (c *fakeConn) send(messages ...string) {
	for _, m := range messages {
		_ = c.Write(c.ctx, websocket.MessageText, []byte(m))
	}
}

// begin authenticates a connection.
func (c *fakeConn) begin() {
	c.t.Helper()
	if text, err := c.read(); err != nil || !strings.Contains(text, `"action":"auth_token"`) {
		c.t.Errorf("%s, %v", text, err)
	}
	c.send(success)
}

// drain answers pings until the connection ends.
func (c *fakeConn) drain() {
	for {
		if _, err := c.read(); err != nil {
			return
		}
	}
}

const (
	success   = `{"type":"Success","code":200,"msg":"Connected","time":"2031-01-01T00:00:00.000000000Z","expires_in":86400,"heartbeat":{"interval":20,"timeout":30},"limits":{"message_bytes":65536}}`
	accepted  = `{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1","trades":["GGAL|BYMA|24hs"],"count":{"trades":1}}`
	resumed   = `{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1","trades":["GGAL|BYMA|24hs"],"count":{"trades":1},"resumed":{"trades":{"GGAL|BYMA|24hs":3}}}`
	caughtUp  = `{"type":"CaughtUp","code":200,"id":1,"epoch":"e1","position":"e1:9","resumed":{"trades":{"GGAL|BYMA|24hs":3}}}`
	subscribe = `{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"alive":true}`
)

func tradeText(n int) string {
	return fmt.Sprintf(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"2000-01-01T00:00:00.000000000Z","P":7050,"Z":%d}`, n, n)
}

// seen collects events as texts.
type seen struct{ list []string }

func (s *seen) add(ev client.Event) {
	switch ev := ev.(type) {
	case client.StateChange:
		text := ev.State.String()
		if ev.Err != nil {
			text += ": " + ev.Err.Error()
		}
		s.list = append(s.list, text)
	case *client.Trade:
		s.list = append(s.list, fmt.Sprintf("trade %d", ev.N))
	case client.Rejected:
		s.list = append(s.list, fmt.Sprintf("rejected %s %s %s %v", ev.Channel, ev.Instrument, ev.Reason, ev.Removed))
	case client.Delayed:
		s.list = append(s.list, fmt.Sprintf("delayed %s %v", ev.Instrument, ev.Delay))
	default:
		s.list = append(s.list, fmt.Sprint(ev))
	}
}

func (s *seen) has(text string) bool { return slices.Contains(s.list, text) }

// TestResumeScript checks what a client sends after a connection, and that a replay repeats
// nothing, in a market that is silent for 25 s although pings are answered. The clock of the
// gateway is an hour ahead.
func TestResumeScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(1), tradeText(2))
			c.send(`{"type":"Alive","epoch":"e1","position":"e1:5","last":{}}`)
			c.drain()
		},
		func(c *fakeConn) {
			c.begin()
			c.want(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"alive":true,"resume":{"epoch":"e1","position":"e1:5","trades":{"GGAL|BYMA|24hs":2}}}`)
			c.send(resumed, tradeText(2), tradeText(3), caughtUp, tradeText(4))
			c.drain()
		},
	}}
	var s seen
	play(t, f, client.Set{Trades: []string{ggal}}, func(c *client.Client, ev client.Event) bool {
		s.add(ev)
		if offset := c.Health().ClockOffset; s.has("trade 4") && offset != time.Hour {
			t.Errorf("the clock of the gateway is %v ahead", offset)
		}
		return !s.has("trade 4")
	})
	want := []string{"connecting", "authenticating", "syncing", "live", "trade 1", "trade 2",
		"waiting: http://127.0.0.1:1: the stream is silent", "connecting", "authenticating", "syncing", "trade 3", "recovered trades GGAL|BYMA|24hs from 3 to 3", "live", "trade 4"}
	if !slices.Equal(s.list, want) {
		t.Errorf("%q", s.list)
	}
}

// TestHalfOpenScript checks that a connection without any answer ends after two heartbeats.
func TestHalfOpenScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted)
			for { // reads, so that the pipe does not block, and answers nothing
				if _, _, err := c.Read(c.ctx); err != nil {
					return
				}
			}
		},
		func(c *fakeConn) { c.begin(); c.drain() },
	}}
	var live time.Time
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		change, ok := ev.(client.StateChange)
		switch {
		case ok && change.State == client.Live:
			live = time.Now()
		case ok && change.State == client.Waiting:
			if took := time.Since(live); took != 20*time.Second || change.Err.Error() != "http://127.0.0.1:1: the connection is silent" {
				t.Errorf("%v after %v", change.Err, took)
			}
			return false
		}
		return true
	})
}

// TestBackoffScript checks the waits of refused handshakes: random parts of a bound that doubles,
// and what the gateway asks for.
func TestBackoffScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){func(c *fakeConn) { c.begin(); c.drain() }}}
	for range 10 {
		f.refuse = append(f.refuse, http.Header{})
	}
	f.refuse = append(f.refuse, http.Header{"Retry-After": {"100"}})
	var waits []time.Duration
	play(t, f, client.Set{}, func(_ *client.Client, ev client.Event) bool {
		change, ok := ev.(client.StateChange)
		if ok && change.State == client.Waiting {
			waits = append(waits, change.Wait)
			if client.ReasonOf(change.Err) != wire.Unavailable {
				t.Error(change.Err)
			}
		}
		return !ok || change.State != client.Live
	})
	bound, sum := 500*time.Millisecond, time.Duration(0)
	for i, wait := range waits[:10] {
		if wait > bound {
			t.Errorf("wait %d is %v, the bound %v", i, wait, bound)
		}
		sum += wait
		bound = min(2*bound, 30*time.Second)
	}
	if last := waits[10]; len(waits) != 11 || last < 100*time.Second || last > 130*time.Second || sum < 10*time.Second {
		t.Errorf("%v", waits)
	}
}

// TestHintsScript checks a gateway that shuts down, one that limits messages, one that cannot
// resume, and ranges and identifiers that are lost.
func TestHintsScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(`{"type":"Error","code":429,"reason":"rate_limited","msg":"Wait","id":1,"retry":true,"retry_after":3}`)
			c.want(`{"action":"subscribe","id":2,"trades":["GGAL|BYMA|24hs"],"alive":true}`)
			c.send(strings.Replace(accepted, `"id":1`, `"id":2`, 1), tradeText(1))
			c.send(`{"type":"Warning","code":200,"reason":"shutting_down","msg":"Reconnect","reconnect_in_ms":7000}`)
			time.Sleep(time.Second)
			c.send(`{"type":"Error","code":503,"reason":"shutting_down","msg":"Shutting down","retry":true}`)
			_ = c.Conn.Close(4503, "shutting_down")
		},
		func(c *fakeConn) {
			c.begin()
			c.want(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"alive":true,"resume":{"epoch":"e1","position":"e1:1","trades":{"GGAL|BYMA|24hs":1}}}`)
			c.send(resumed, `{"type":"Error","code":500,"reason":"internal","msg":"Internal error","id":1,"retry":true}`)
			c.drain()
		},
		func(c *fakeConn) {
			c.begin()
			c.want(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"alive":true,"resume":{"epoch":"e1","position":"e1:1","trades":{"GGAL|BYMA|24hs":1}}}`)
			c.send(`{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1","trades":["GGAL|BYMA|24hs"],"count":{"trades":1},"resumed":{"trades":{"GGAL|BYMA|24hs":12}},"lost":{"trades":{"GGAL|BYMA|24hs":{"from":2,"to":6,"reason":"buffer_exceeded"}}}}`)
			c.send(tradeText(7), tradeText(8))
			c.send(`{"type":"Subscription","code":200,"msg":"Rows lost","epoch":"e1","lost":{"trades":{"GGAL|BYMA|24hs":{"from":9,"to":10,"reason":"buffer_exceeded"}}}}`)
			c.send(tradeText(11), tradeText(12), strings.ReplaceAll(caughtUp, `":3`, `":12`))
			c.send(`{"type":"Subscription","code":200,"msg":"Rights changed","epoch":"e1","moved":[{"channel":"trades","instrument":"GGAL|BYMA|24hs","delay":900}]}`)
			c.send(`{"type":"Subscription","code":200,"msg":"Rights changed","epoch":"e1","trades":[],"count":{"trades":0},"removed":[{"channel":"trades","instrument":"GGAL|BYMA|24hs","reason":"not_entitled"}]}`)
			c.drain()
		},
	}}
	var s seen
	var hinted time.Duration
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		s.add(ev)
		if change, ok := ev.(client.StateChange); ok && change.State == client.Waiting && hinted == 0 {
			hinted = change.Wait
		}
		return !s.has("rejected trades GGAL|BYMA|24hs not_entitled true")
	})
	for _, want := range []string{
		"waiting: shutting_down: Shutting down", "lost trades GGAL|BYMA|24hs from 2 to 6: buffer_exceeded", "trade 7",
		"recovered trades GGAL|BYMA|24hs from 7 to 8", "lost trades GGAL|BYMA|24hs from 9 to 10: buffer_exceeded", "recovered trades GGAL|BYMA|24hs from 11 to 12", "delayed GGAL|BYMA|24hs 15m0s",
	} {
		if !s.has(want) {
			t.Errorf("%q is not in %q", want, s.list)
		}
	}
	if hinted != 6*time.Second {
		t.Errorf("the first wait is %v", hinted)
	}
	if s.has("trade 2") || !s.has("waiting: http://127.0.0.1:1: the gateway could not complete a resume") {
		t.Errorf("%q", s.list)
	}
}

// TestCloseCodes checks which closes are final. After 4401 the client connects with a new token.
func TestCloseCodes(t *testing.T) {
	for code, final := range map[websocket.StatusCode]bool{
		4400: true, 4401: false, 4403: true, 4408: false, 4409: true, 4429: false, 4500: false, 4503: false, 4507: false, 1002: false,
	} {
		reason := map[websocket.StatusCode]string{4401: "token_expired", 4409: "replaced"}[code]
		f := &fake{scripts: []func(*fakeConn){
			func(c *fakeConn) { c.begin(); _ = c.Conn.Close(code, reason); c.drain() },
			func(c *fakeConn) {
				text, err := c.read()
				if isNew := strings.Contains(text, `"access-2"`); err != nil || isNew != (code == 4401) {
					t.Errorf("%d: %s, %v", code, text, err)
				}
				c.send(success)
				c.drain()
			},
		}}
		connections, isClosed := 0, false
		play(t, f, client.Set{}, func(c *client.Client, ev client.Event) bool {
			if change, ok := ev.(client.StateChange); ok {
				isClosed = change.State == client.Closed
				if change.State == client.Syncing {
					connections++
				}
			}
			return connections < 2 && !isClosed
		})
		if isClosed != final {
			t.Errorf("%d: final is %v", code, isClosed)
		}
	}
}

// TestReplacedByOwn checks a client whose earlier connection breaks off, and takes the session over
// when the network delivers its token: the client connects again. Without such a connection, or a
// minute after it, another program has taken the session over, and the client ends.
func TestReplacedByOwn(t *testing.T) {
	broken := func(c *fakeConn) { c.begin(); _ = c.Conn.CloseNow() }
	replaced := func(after time.Duration) func(c *fakeConn) {
		return func(c *fakeConn) {
			c.begin()
			time.AfterFunc(after, func() { _ = c.Conn.Close(4409, "replaced") })
			c.drain()
		}
	}
	for name, f := range map[string]*fake{
		"twice":  {scripts: []func(*fakeConn){broken, replaced(5 * time.Second), replaced(0)}},
		"late":   {scripts: []func(*fakeConn){broken, replaced(ownDelay + time.Second)}},
		"no one": {scripts: []func(*fakeConn){replaced(0)}},
	} {
		connections, isClosed := 0, false
		play(t, f, client.Set{}, func(_ *client.Client, ev client.Event) bool {
			if change, ok := ev.(client.StateChange); ok {
				isClosed = change.State == client.Closed
				if change.State == client.Syncing {
					connections++
				}
			}
			return !isClosed
		})
		if !isClosed || connections != len(f.scripts) {
			t.Errorf("%s: %d connections of %d, closed: %v", name, connections, len(f.scripts), isClosed)
		}
	}
}

// ownDelay is how long after its end a connection of the client may take over the session.
const ownDelay = time.Minute

// TestRenewalScript checks that the open connection gets a new token at 80 to 85 % of its life.
func TestRenewalScript(t *testing.T) {
	var began, renewed time.Time
	f := &fake{life: 1000, scripts: []func(*fakeConn){
		func(c *fakeConn) {
			began = time.Now()
			c.begin()
			c.want(`{"action":"auth_token","token":"access-2"}`)
			renewed = time.Now()
			c.send(`{"type":"Success","code":200,"msg":"Connected","time":"2000-01-01T00:00:00.000000000Z","expires_in":1000,"reauth":true}`)
			_ = c.Conn.Close(4400, "bad_json") // ends the client
		},
	}}
	play(t, f, client.Set{}, func(*client.Client, client.Event) bool { return true })
	if life := renewed.Sub(began); life < 800*time.Second || life > 850*time.Second {
		t.Errorf("renewed after %v", life)
	}
}

// TestExpiringScript checks that the client renews a token of which the gateway says that it ends
// earlier than expected.
func TestExpiringScript(t *testing.T) {
	var warned, renewed time.Time
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			warned = time.Now()
			c.send(`{"type":"Warning","code":200,"reason":"token_expiring","msg":"Access token expires soon","expires_in":300}`)
			c.want(`{"action":"auth_token","token":"access-2"}`)
			renewed = time.Now()
			_ = c.Conn.Close(4400, "bad_json") // ends the client
		},
	}}
	play(t, f, client.Set{}, func(*client.Client, client.Event) bool { return true })
	if took := renewed.Sub(warned); took != 240*time.Second {
		t.Errorf("renewed after %v", took)
	}
}

// TestSetScript checks that identifiers that were removed while the client was disconnected are not
// resumed when they come back, and that those of a later subscribe begin live.
func TestSetScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(1))
			time.Sleep(time.Second)
		},
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(9))
			c.want(`{"action":"unsubscribe","id":2,"trades":["GGAL|BYMA|24hs"]}`)
			c.send(tradeText(10), `{"type":"Subscription","code":200,"msg":"Unsubscribed","id":2,"epoch":"e1","trades":["GGAL|BYMA|24hs"],"count":{"trades":0}}`)
			c.want(`{"action":"subscribe","id":3,"trades":["GGAL|BYMA|24hs"],"alive":true}`)
			c.send(strings.Replace(accepted, `"id":1`, `"id":3`, 1), tradeText(20))
			c.drain()
		},
	}}
	var s seen
	set := client.Set{Trades: []string{ggal}}
	play(t, f, set, func(c *client.Client, ev client.Event) bool {
		s.add(ev)
		var err error
		switch change, _ := ev.(client.StateChange); {
		case change.State == client.Waiting:
			err = c.Unsubscribe(set)
		case change.State == client.Syncing && s.has("trade 1"):
			err = c.Subscribe(set)
		case s.list[len(s.list)-1] == "trade 9":
			err = c.Unsubscribe(set)
		case s.list[len(s.list)-1] == "trade 10":
			time.Sleep(time.Second)
			err = c.Subscribe(set)
		}
		if err != nil {
			t.Error(err)
		}
		return !s.has("trade 20")
	})
	if strings.Contains(strings.Join(s.list, " "), "lost") || strings.Contains(strings.Join(s.list, " "), "recovered") {
		t.Errorf("%q", s.list)
	}
}

// TestHostileScript sends every kind of message in random order, before and after the answers that
// should come first, and cut off. The client survives, and reports a state after each.
func TestHostileScript(t *testing.T) {
	var messages []string
	for _, name := range []string{"messages", "control"} {
		text, err := os.ReadFile("../wire/testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, message, _ := strings.Cut(strings.TrimSpace(line), ": ")
			messages = append(messages, message)
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	var f fake
	for range 200 {
		f.scripts = append(f.scripts, func(c *fakeConn) {
			go c.drain() // so that the client can write
			if random.IntN(3) > 0 {
				c.send(success)
			}
			for range random.IntN(60) {
				m := messages[random.IntN(len(messages))]
				if random.IntN(20) == 0 {
					m = m[:random.IntN(len(m))]
				}
				c.send(strings.Replace(m, `"id":5`, `"id":`+strconv.Itoa(1+random.IntN(4)), 1))
			}
		})
	}
	f.scripts = append(f.scripts, func(c *fakeConn) { c.begin(); _ = c.Conn.Close(4400, "bad_json") })
	waits, all := 0, client.Set{Trades: []string{ggal, "*|BYMA|*"}, Quotes: []string{ggal}, Books: []string{ggal}, Status: []string{ggal}, Bars: []string{ggal + "|1m"}, Summary: []string{ggal}}
	play(t, &f, all, func(c *client.Client, ev client.Event) bool {
		if change, ok := ev.(client.StateChange); ok && change.State == client.Waiting {
			waits++
		}
		_ = c.Health()
		return true
	})
	if waits != len(f.scripts)-1 {
		t.Errorf("%d waits of %d connections", waits, len(f.scripts))
	}
}
