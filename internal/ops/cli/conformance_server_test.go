package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/conformance/server"
)

// testedGateway is a dev gateway with a feed of JSON lines and a listener for administrators.
type testedGateway struct {
	url   string
	flags []string // of conformance server
}

func startTested(t *testing.T) testedGateway {
	t.Helper()
	p, url := startDev(t, "--ndjson", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	feed := p.line(`^  JSON lines +(\S+)$`)[1]
	admin := p.line(`^  Operators +(\S+), with RUEDA_ADMIN_TOKEN=(\S+)$`)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, admin[2]+"\n")
	return testedGateway{url, []string{"--feed", feed, "--admin", admin[1], "--token-file", token, "-o", "json"}}
}

// judge runs conversations at an address, and returns the results and the exit status.
func (g *testedGateway) judge(t *testing.T, url string, cases ...string) ([]server.Result, int) {
	t.Helper()
	args := append([]string{"conformance", "server", url, "--user", "demo", "--basic", "basic", "--parallel", "20"}, g.flags...)
	if len(cases) > 0 {
		args = append(args, "--case", strings.Join(cases, ","))
	}
	p := start(t, args...)
	var results []server.Result
	for line := range p.out {
		var r server.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results = append(results, r)
	}
	return results, p.exit()
}

// TestConformanceServerE2E runs all conversations against rueda dev, except those that wait for
// minutes and those about the rate of messages, which a busy machine sends too slowly. With
// RUEDA_SOAK it runs these too.
func TestConformanceServerE2E(t *testing.T) {
	t.Parallel()
	all, err := server.Conversations()
	if err != nil {
		t.Fatal(err)
	}
	least, without := 104, map[string]bool{
		"bars": true, "bars-intervals": true, "summary": true, "alive": true, "rights-in-time": true,
		"rate-flood": true, "rate-free": true, "rate-free-has-an-end": true, "rate-limit": true, "rate-of-user": true,
	}
	if os.Getenv("RUEDA_SOAK") != "" {
		without = nil
	}
	var cases []string
	for _, c := range all {
		if !without[c.Name] {
			cases = append(cases, c.Name)
		}
	}
	least -= len(without)
	g := startTested(t)
	results, status := g.judge(t, g.url, cases...)
	passed := 0
	reasons := map[string]int{}
	for _, r := range results {
		switch r.Word {
		case server.Passed:
			passed++
		case server.NotRun:
			reasons[r.Why]++
		default:
			t.Errorf("%+v", r)
		}
	}
	t.Logf("figure: %d of %d conversations passed against rueda dev; not run: %v", passed, len(results), reasons)
	if passed < least || status != command.ExitOK || len(results) != len(cases) {
		t.Errorf("%d of %d passed, want %d; status %d", passed, len(results), least, status)
	}
}

// TestConformanceServerFindsE2E puts a proxy before a gateway that breaks one rule of the protocol.
// The conversation about the rule fails at its line.
func TestConformanceServerFindsE2E(t *testing.T) {
	t.Parallel()
	g := startTested(t)
	replaced := func(old, with string) func(*spoiled, string) []string {
		re := regexp.MustCompile(old)
		return func(_ *spoiled, m string) []string { return []string{re.ReplaceAllString(m, with)} }
	}
	for _, tc := range []struct {
		rule, name, want string // want is a part of why it fails
		code             websocket.StatusCode
		close            time.Duration
		message          func(*spoiled, string) []string
	}{
		{rule: "the answer to a renewal says so", name: "auth-again", want: "has no member reauth", message: replaced(`,"reauth":true`, "")},
		{rule: "errors have stable reasons", name: "auth-invalid-token", want: `reason is "token_revoked"`, message: replaced(`"reason":"invalid_token"`, `"reason":"token_revoked"`)},
		{rule: "closes have stable codes", name: "auth-empty-token", want: "got closed 4403", code: 4403},
		{rule: "a resume has every later trade", name: "resume", want: "N is 4, not 3", message: func(_ *spoiled, m string) []string {
			if strings.Contains(m, `"type":"T"`) && strings.Contains(m, `"N":3,`) {
				return nil
			}
			return []string{m}
		}},
		{rule: "each trade comes once", name: "auth-again", want: "at the end", message: func(_ *spoiled, m string) []string {
			if strings.Contains(m, `"type":"T"`) {
				return []string{m, m}
			}
			return []string{m}
		}},
		{rule: "the acknowledgement comes first", name: "subscribe", want: `type is "Q"`, message: (*spoiled).swap},
		{rule: "nothing comes after an unsubscribe", name: "unsubscribe", want: "S is", message: func(_ *spoiled, m string) []string {
			if id := regexp.MustCompile(`"trades":\["(GGAL\|\w+\|24hs)"`).FindStringSubmatch(m); id != nil && strings.Contains(m, `"Unsubscribed"`) {
				return []string{m, `{"type":"T","S":"GGAL","I":"` + id[1] + `","N":1,"T":"2026-01-01T00:00:00.000000000Z","P":1,"Z":1}`}
			}
			return []string{m}
		}},
		{rule: "a resync sends the book again", name: "resync", want: "nothing came", message: func(s *spoiled, m string) []string {
			if s.held == "resynced" && strings.Contains(m, `"type":"O"`) {
				return nil
			}
			if strings.Contains(m, `"msg":"Resynced"`) {
				s.held = "resynced"
			}
			return []string{m}
		}},
		{rule: "levels are those of the market", name: "sim-bad-checksum", want: "B[0][1] is 301, not 300", message: replaced(`\[7049.5,300`, "[7049.5,301")},
		{rule: "a client has 10 s to authenticate", name: "auth-timeout", want: "early", close: 4 * time.Second},
		{rule: "data without a right is refused", name: "rights", want: "has no member rejected", message: replaced(`,"rejected":\[.*\]`, "")},
		{rule: "limits are those of the user", name: "auth-limits-of-user", want: "limits.connections is 8, not 2", message: replaced(`"connections":2`, `"connections":8`)},
		{rule: "an error has the last N that was sent", name: "sim-slow-down", want: "last.trades", message: replaced(`("last":\{"trades":\{"[^"]*":)`, "${1}1")},
		{rule: "a user has a rate limit", name: "rate-of-user", want: `got {"action":"pong"`, message: replaced(`\{"type":"Error","code":429.*`, `{"action":"pong","time":"2026-01-01T00:00:00.000000000Z"}`)},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			p := spoil(t, g.url, &spoiled{code: tc.code, close: tc.close, message: tc.message})
			results, status := g.judge(t, p, tc.name)
			if len(results) != 1 || results[0].Word != server.Failed || !strings.Contains(results[0].Why, tc.want) || status != command.ExitBadData {
				t.Errorf("got %+v, status %d, want a failure because %s", results, status, tc.want)
			}
		})
	}
	if results, status := g.judge(t, spoil(t, g.url, &spoiled{}), "auth-again", "resume", "rights"); status != command.ExitOK {
		t.Errorf("a proxy that breaks nothing: %+v", results)
	}
}

// spoiled is what a proxy changes on the way from a gateway to a client.
type spoiled struct {
	code    websocket.StatusCode            // of closes; 0: that of the gateway
	close   time.Duration                   // after which connections are closed; 0: never
	message func(*spoiled, string) []string // what comes in place of a message; nil: itself
	held    string                          // a message that comes later
}

// swap lets the message after an acknowledgement of order books come before it.
func (s *spoiled) swap(m string) []string {
	if held := s.held; held != "" {
		s.held = ""
		return []string{m, held}
	}
	if strings.Contains(m, `"msg":"Subscribed"`) {
		s.held = m
		return nil
	}
	return []string{m}
}

// spoil starts a proxy before a gateway, and returns its URL.
func spoil(t *testing.T, gateway string, s *spoiled) string {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	rest := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			rest.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		far, _, err := websocket.Dial(ctx, strings.Replace(gateway, "http", "ws", 1)+"/stream", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer far.CloseNow()
		near, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer near.CloseNow()
		if s.close > 0 {
			defer time.AfterFunc(s.close, func() { _ = near.Close(4408, "auth_timeout") }).Stop()
		}
		near.SetReadLimit(1 << 20)
		far.SetReadLimit(1 << 20)
		go func() {
			defer cancel()
			for {
				kind, data, err := near.Read(ctx)
				if err != nil || far.Write(ctx, kind, data) != nil {
					return
				}
			}
		}()
		s.pass(ctx, far, near)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// pass sends the messages of a gateway to a client, until the connection ends.
func (s *spoiled) pass(ctx context.Context, far, near *websocket.Conn) {
	for {
		kind, data, err := far.Read(ctx)
		var end websocket.CloseError
		if errors.As(err, &end) {
			if s.code != 0 {
				end.Code, end.Reason = s.code, "address_not_allowed"
			}
			_ = near.Close(end.Code, end.Reason)
		}
		if err != nil {
			return
		}
		messages := []string{string(data)}
		if s.message != nil {
			messages = s.message(s, string(data))
		}
		for _, m := range messages {
			if near.Write(ctx, kind, []byte(m)) != nil {
				return
			}
		}
	}
}
