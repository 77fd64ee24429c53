package rest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// streaming is a gateway with its stream, in a bubble.
type streaming struct {
	*gateway
	t        *testing.T
	listener *pipeListener
	registry *session.Registry
	sockets  *socket.Server
	end      func()
}

// withStream runs f with a gateway whose stream runs too.
func withStream(t *testing.T, change func(*session.Env, *rest.Config), f func(s *streaming)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, stop := startStream(t, change)
		defer stop()
		s.listener = newPipeListener()
		defer s.serveOn(t, s.listener)()
		defer s.end()
		f(s)
	})
}

// startStream starts a gateway with its stream. Call end before its server ends, and stop last.
func startStream(t *testing.T, change func(*session.Env, *rest.Config)) (s *streaming, stop func()) {
	t.Helper()
	s = &streaming{t: t, registry: &session.Registry{}}
	env := &session.Env{Registry: s.registry, Version: "test"}
	var hub *hub.Hub
	s.gateway = newGateway(t, func(c *rest.Config, a *auth.Config) {
		env.Verify = func(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
			return verify(ctx, c.Auth, token)
		}
		a.OnRevoke, a.OnRefresh = s.registry.Revoke, s.registry.Extend
		if change != nil {
			change(env, c)
		}
		hub = c.Hub
		s.sockets = socket.New(socket.Config{Env: env, Hub: c.Hub, Shards: 1})
		c.Connect = s.sockets.Open
	})
	s.hub = hub
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	done := make(chan error, 2)
	go func() { done <- s.sockets.Run(ctx) }()
	go func() { done <- s.hub.Run(ctx) }()
	return s, func() {
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		if n := s.registry.Len(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
}

func verify(ctx context.Context, service *auth.Service, token string) (*session.Identity, *wire.Fault) {
	id, err := service.Verify(ctx, token)
	if err != nil {
		var e *auth.Error
		if errors.As(err, &e) {
			return nil, &wire.Fault{Reason: wire.Reason(e.Reason)}
		}
		return nil, &wire.Fault{Reason: wire.Overloaded}
	}
	grants := session.Grants{Scopes: id.User.Scopes}
	for _, e := range id.User.Entitlements {
		grants.Rights = append(grants.Rights, broker.Entitlement{Market: e.Market, Trades: e.Trades, Quotes: e.Quotes, Depth: e.Depth, Delay: e.Delay})
	}
	return &session.Identity{User: id.User.ID, Username: id.User.Username, Family: id.Family, Expires: id.Expires, Grants: grants}, nil
}

// event is an event of a stream, or a comment.
type event struct {
	id, data, retry string
	comment         bool
}

// events is a client of GET /market/stream.
type events struct {
	t      *testing.T
	conn   net.Conn
	answer *http.Response
	reader *bufio.Reader
	lastID string
}

// follow opens a stream; header lines are added to the request.
func (s *streaming) follow(token, query string, header ...string) *events {
	s.t.Helper()
	c := s.listener.dial()
	s.t.Cleanup(func() { c.Close() })
	head := append([]string{"GET /market/stream?" + query + " HTTP/1.1", "Host: rueda.test", "Authorization: Bearer " + token}, header...)
	if _, err := io.WriteString(c, strings.Join(head, "\r\n")+"\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &events{t: s.t, conn: c, answer: r, reader: bufio.NewReader(r.Body)}
}

// next returns the next event. ok is false at the end of the stream.
func (e *events) next() (ev event, ok bool) {
	e.t.Helper()
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil {
			return ev, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			return ev, true
		case name == "":
			ev.comment = true
		case name == "id":
			ev.id, e.lastID = value, value
		case name == "data":
			ev.data = value
			asyncapitest.Received(e.t, []byte(value))
		case name == "retry":
			ev.retry = value
		default:
			e.t.Fatalf("field %q", line)
		}
	}
}

// message returns the next event with data, and checks that it contains the texts.
func (e *events) message(texts ...string) event {
	e.t.Helper()
	for {
		ev, ok := e.next()
		if !ok {
			e.t.Fatalf("the stream ended, want %q", texts)
		}
		if ev.data == "" {
			continue
		}
		for _, text := range texts {
			if !strings.Contains(ev.data, text) {
				e.t.Fatalf("got %s, want %q in it", ev.data, text)
			}
		}
		return ev
	}
}

// refused checks that the answer is an error.
func (e *events) refused(status int, texts ...string) {
	e.t.Helper()
	body, err := io.ReadAll(e.answer.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.answer.StatusCode != status || e.answer.Header.Get("Content-Type") != "application/json" {
		e.t.Errorf("status %d, want %d: %s", e.answer.StatusCode, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(string(body), text) {
			e.t.Errorf("got %s, want %q in it", body, text)
		}
	}
}

// trade publishes a trade of an instrument of the fixture.
func (g *gateway) trade(t *testing.T, id string, price int64) {
	t.Helper()
	at, err := market.ParseInstrumentID(id)
	if err != nil {
		t.Fatal(err)
	}
	in, _ := g.hub.Instrument(at)
	h, err := g.hub.Define(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.hub.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Time: time.Now().UnixNano(), Price: market.Price(price) * market.Scale, Size: market.Scale}}); err != nil {
		t.Fatal(err)
	}
}

const ggalTrades = "trades=GGAL%7CBYMA%7C24hs"

func TestFollow(t *testing.T) {
	withStream(t, nil, func(s *streaming) {
		access, _ := s.login(s.t, "demo")
		e := s.follow(access, ggalTrades+"&quotes=GGAL%7CBYMA%7C24hs,NOPE%7CBYMA%7CCI")
		if got := e.answer.Header.Get("Content-Type"); e.answer.StatusCode != http.StatusOK || got != "text/event-stream" {
			t.Fatalf("status %d, %s", e.answer.StatusCode, got)
		}
		if got := e.answer.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control %q", got)
		}
		first := e.message(`"type":"Subscription"`, `"epoch":"e1"`, `"rejected":[{"channel":"quotes","instrument":"NOPE|BYMA|CI"`)
		if first.retry != "3000" || !strings.HasPrefix(first.id, "e1:") || first.id == "e1:0" {
			t.Errorf("first event: %+v", first)
		}
		e.message(`"type":"Q"`, `"R":true`)
		s.trade(t, "GGAL|BYMA|24hs", 7051)
		if ev := e.message(`"type":"T"`, `"N":2`, `"P":7051`); ev.id == "" || ev.id == first.id {
			t.Errorf("id of a trade: %+v", ev)
		}
		start := time.Now()
		for range 3 {
			if ev, ok := e.next(); !ok || !ev.comment {
				t.Fatalf("after a silence: %+v, %v", ev, ok)
			}
		}
		if took := time.Since(start); took > 45*time.Second || took < 30*time.Second {
			t.Errorf("three comments in %v", took)
		}
		// The client answers pings: long after the first pong was due the stream is open.
		for time.Since(start) < 5*time.Minute {
			if ev, ok := e.next(); !ok || !ev.comment {
				t.Fatalf("after %v: %+v, %v", time.Since(start), ev, ok)
			}
		}
		s.trade(t, "GGAL|BYMA|24hs", 7052)
		e.message(`"N":3`)
		if s.registry.Connections("u1") != 1 {
			t.Errorf("%d connections", s.registry.Connections("u1"))
		}
		e.conn.Close()
		synctest.Wait()
		if s.registry.Connections("u1") != 0 {
			t.Error("the connection is counted after its end")
		}
	})
}

// TestFollowResumes checks that a client that reconnects with the last id gets each trade once.
func TestFollowResumes(t *testing.T) {
	withStream(t, nil, func(s *streaming) {
		access, _ := s.login(s.t, "demo")
		seen := 1
		id := ""
		for round := range 5 {
			header := []string{}
			if id != "" {
				header = append(header, "Last-Event-ID: "+id)
			}
			e := s.follow(access, "trades=*%7C*%7C*", header...)
			if round > 0 {
				e.message(`"type":"Subscription"`)
			}
			for range round { // while it was away, then while it is there
				seen++
				e.message(`"I":"GGAL|BYMA|24hs"`, fmt.Sprintf(`"N":%d,`, seen))
			}
			for range 3 {
				s.trade(t, "GGAL|BYMA|24hs", int64(7000+seen))
				s.trade(t, "XYZ|OTHER|CI", int64(7000+seen))
				synctest.Wait()
			}
			for range 3 {
				seen++
				for {
					ev := e.message()
					if strings.Contains(ev.data, `"I":"GGAL|BYMA|24hs"`) {
						if !strings.Contains(ev.data, fmt.Sprintf(`"N":%d,`, seen)) {
							t.Fatalf("got %s, want N %d", ev.data, seen)
						}
						break
					}
				}
			}
			time.Sleep(time.Second)
			e.message(`"XYZ|OTHER|CI"`)
			id = e.lastID
			e.conn.Close()
			synctest.Wait()
			for range round + 1 {
				s.trade(t, "GGAL|BYMA|24hs", 1)
			}
		}
	})
}

func TestFollowEnds(t *testing.T) {
	t.Run("expiry", func(t *testing.T) {
		withStream(t, nil, func(s *streaming) {
			access, _ := s.login(t, "demo")
			e := s.follow(access, ggalTrades)
			e.message(`"type":"Subscription"`)
			e.message(`"type":"Warning"`, `"reason":"token_expiring"`)
			e.message(`"type":"Error"`, `"code":401`, `"reason":"token_expired"`)
			if ev, ok := e.next(); ok {
				t.Errorf("after the end: %+v", ev)
			}
		})
	})
	t.Run("revocation", func(t *testing.T) {
		withStream(t, nil, func(s *streaming) {
			access, refresh := s.login(t, "demo")
			e := s.follow(access, ggalTrades)
			e.message(`"type":"Subscription"`)
			s.post("/auth/revoke", `{"token":"`+refresh+`"}`)
			e.message(`"reason":"token_revoked"`)
			if ev, ok := e.next(); ok {
				t.Errorf("after the end: %+v", ev)
			}
		})
	})
	t.Run("drain", func(t *testing.T) {
		withStream(t, nil, func(s *streaming) {
			access, _ := s.login(t, "demo")
			e := s.follow(access, ggalTrades)
			e.message(`"type":"Subscription"`)
			s.registry.Drain(10 * time.Second)
			if ev := e.message(`"reason":"shutting_down"`); ev.retry != "10000" {
				t.Errorf("%+v", ev)
			}
			s.trade(t, "GGAL|BYMA|24hs", 7051)
			e.message(`"type":"T"`)
			start := time.Now()
			e.message(`"type":"Error"`, `"reason":"shutting_down"`)
			if took := time.Since(start); took.Round(time.Second) != 10*time.Second {
				t.Errorf("ended after %v", took)
			}
		})
	})
	t.Run("rights", func(t *testing.T) {
		withStream(t, nil, func(s *streaming) {
			access, _ := s.login(t, "demo")
			e := s.follow(access, ggalTrades)
			e.message(`"type":"Subscription"`)
			s.registry.GrantsChanged("u1", session.Grants{Scopes: []string{broker.ScopeRead}})
			e.message(`"type":"Subscription"`, `"removed":[{"channel":"trades","instrument":"GGAL|BYMA|24hs"`, `"not_entitled"`)
		})
	})
}

// TestFollowSlow checks that a client that accepts nothing is closed, as on a socket.
func TestFollowSlow(t *testing.T) {
	withStream(t, nil, func(s *streaming) {
		access, _ := s.login(t, "demo")
		e := s.follow(access, ggalTrades)
		e.message(`"type":"Subscription"`)
		start := time.Now()
		for s.registry.Connections("u1") > 0 && time.Since(start) < time.Minute {
			s.trade(t, "GGAL|BYMA|24hs", 7051)
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("held on for %v", took)
		}
		// Events that it had not accepted may follow, and then the end.
		for {
			if _, ok := e.next(); !ok {
				return
			}
		}
	})
}

// TestFollowSlowOverTCP checks the same over TCP, where the kernel's buffers must not hide the
// backlog of a client.
func TestFollowSlowOverTCP(t *testing.T) {
	s, stop := startStream(t, func(e *session.Env, _ *rest.Config) {
		e.SlowAfter, e.MaxAge = 20*time.Millisecond, 100*time.Millisecond
	})
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.serveOn(t, l)()
	defer s.end()
	access, _ := s.login(t, "demo")
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /market/stream?%s HTTP/1.1\r\nHost: rueda.test\r\nAuthorization: Bearer %s\r\n\r\n", ggalTrades, access); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	// Some hundreds of KiB fit into the buffers of the connection. Without a limit it would be
	// megabytes.
	trades, late := 0, time.Now().Add(30*time.Second)
	for ; s.registry.Connections("u1") > 0 && time.Now().Before(late); trades++ {
		s.trade(t, "GGAL|BYMA|24hs", 7051)
	}
	if s.registry.Connections("u1") > 0 {
		t.Fatalf("held on after %d trades", trades)
	}
}

func TestFollowRefused(t *testing.T) {
	withStream(t, func(e *session.Env, _ *rest.Config) { e.Connections = 2 }, func(s *streaming) {
		access, _ := s.login(t, "demo")
		basic, _ := s.login(t, "basic")
		none, _ := s.login(t, "none")
		s.follow("x"+access, ggalTrades).refused(401, "invalid_token")
		s.follow(none, ggalTrades).refused(403, `"forbidden"`)
		s.follow(basic, ggalTrades).refused(403, `"not_entitled"`, `{"field":"trades","msg":"GGAL|BYMA|24hs: `)
		s.follow(access, "").refused(400, `"bad_field"`)
		s.follow(access, "trades=GGAL").refused(400, `"bad_instrument"`)
		s.follow(access, "trades=GGAI%7CBYMA%7C24hs").refused(422, `"unknown_instrument"`, "Did you mean")
		s.follow(access, "order_book=IMV%7CBYMA%7CCI").refused(404, `"unknown_channel"`)
		s.follow(access, ggalTrades+"&"+ggalTrades).refused(400, "more than once")
		s.follow(access, ggalTrades+"&slow=never").refused(422, `"unsupported_option"`)
		s.follow(access, ggalTrades+"&depth=3").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades+"&snapshot=1").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades+"&conflate=1ms").refused(422, `"unsupported_option"`)
		for _, name := range []string{"trades", "bars", "depth", "conflate", "interval", "snapshot", "alive", "start", "slow"} {
			s.follow(access, "quotes=GGAL%7CBYMA%7C24hs&"+name+"=").refused(400, name)
		}
		s.follow(access, ggalTrades, "Last-Event-ID: ").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades, "Last-Event-ID: 77").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades, "Last-Event-ID: e1:x").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades, "Last-Event-ID: e1:1", "Last-Event-ID: e1:2").refused(400, `"bad_field"`)
		s.follow(access, ggalTrades, "Accept: text/csv").refused(406, `"not_acceptable"`)
		s.follow(access, ggalTrades).message(`"Subscription"`)
		s.follow(access, ggalTrades).message(`"Subscription"`)
		third := s.follow(access, ggalTrades)
		if third.answer.Header.Get("Retry-After") != "30" {
			t.Errorf("Retry-After %q", third.answer.Header.Get("Retry-After"))
		}
		third.refused(429, `"connection_limit"`)
		synctest.Wait()
		if got := s.sockets.Stats().Open; got != 2 {
			t.Errorf("%d connections are open", got)
		}
	})
}

// TestFollowLost checks that an id of another epoch is reported as lost, and the stream continues.
func TestFollowLost(t *testing.T) {
	withStream(t, nil, func(s *streaming) {
		access, _ := s.login(t, "demo")
		e := s.follow(access, ggalTrades+"&start=2026-11-20T14:00:00Z", "Last-Event-ID: e0:77")
		e.message(`"type":"Subscription"`, `"lost":{"trades":{"GGAL|BYMA|24hs":{"reason":"epoch_changed"}}}`)
		e.message(`"type":"CaughtUp"`)
		s.trade(t, "GGAL|BYMA|24hs", 7051)
		e.message(`"N":2`)
	})
}

func TestFollowLines(t *testing.T) {
	withStream(t, nil, func(s *streaming) {
		access, _ := s.login(t, "demo")
		e := s.follow(access, ggalTrades, "Accept: application/x-ndjson")
		if got := e.answer.Header.Get("Content-Type"); got != "application/x-ndjson" {
			t.Fatalf("%d %s", e.answer.StatusCode, got)
		}
		line := func(texts ...string) {
			t.Helper()
			got, err := e.reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wire.ParseJSON([]byte(strings.TrimSuffix(got, "\n"))); err != nil {
				t.Errorf("%v: %s", err, got)
			}
			asyncapitest.Received(t, []byte(got))
			for _, text := range texts {
				if !strings.Contains(got, text) {
					t.Errorf("got %s, want %q in it", got, text)
				}
			}
		}
		line(`"type":"Subscription"`)
		s.trade(t, "GGAL|BYMA|24hs", 7051)
		line(`"type":"T"`, `"N":2`)
		line(`"type":"Alive"`, `"position":"e1:`)
		for range 20 { // pings are answered meanwhile
			line(`"type":"Alive"`)
		}
	})
}

// TestFollowWithoutStream checks that a gateway without a stream has no stream over HTTP.
func TestFollowWithoutStream(t *testing.T) {
	g := newGateway(t, nil)
	access, _ := g.login(t, "demo")
	if w := g.get("/market/stream?"+ggalTrades, access); w.Code != http.StatusNotFound {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
