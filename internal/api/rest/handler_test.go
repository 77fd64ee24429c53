package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// member returns a string of the answer's data, or of its error.
func member(t testing.TB, w *httptest.ResponseRecorder, name string) string {
	t.Helper()
	body, err := wire.ParseJSON(w.Body.Bytes())
	if err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, part := range []string{"data", "error"} {
		object := body.Get(part)
		if v := object.Get(name); v.Kind == wire.String {
			return v.Text
		}
	}
	return ""
}

func TestNewWantsItsParts(t *testing.T) {
	if _, err := rest.New(rest.Config{}); err == nil {
		t.Error("made without parts")
	}
	g := newGateway(t, nil)
	whole := rest.Config{Auth: new(auth.Service), Accounts: g.users, Hub: g.hub}
	for _, origin := range []string{"app.example.com", "https://app.example.com/", "null", ""} {
		c := whole
		c.Origins = []string{origin}
		if _, err := rest.New(c); err == nil {
			t.Errorf("took %q for an origin", origin)
		}
	}
	whole.RequestsPerMinute = -1
	if _, err := rest.New(whole); err == nil {
		t.Error("took a negative rate")
	}
}

// TestGuessingIsSlowed checks the limits of guesses for one account and from one address.
func TestGuessingIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		guess := func(user string) *httptest.ResponseRecorder {
			return g.post("/auth/token", `{"grant_type":"password","username":"`+user+`","password":"wrong"}`)
		}
		for range 5 {
			if w := guess("demo"); w.Code != http.StatusUnauthorized {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		w := guess("demo")
		if w.Code != http.StatusTooManyRequests || member(t, w, "reason") != "too_many_failures" || w.Header().Get("Retry-After") != "1" {
			t.Errorf("sixth guess: %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
		for i := range 15 {
			if w := guess(fmt.Sprint("user", i)); w.Code != http.StatusUnauthorized {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		w = guess("another")
		if w.Code != http.StatusTooManyRequests || member(t, w, "reason") != "rate_limited" || w.Header().Get("Retry-After") != "6" {
			t.Errorf("21st guess: %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	})
}

// TestRevokeIsLimited checks the limits of routes that need no token and use the store.
func TestRevokeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		for range 120 {
			if w := g.post("/auth/revoke", `{"token":"x"}`); w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		if w := g.post("/auth/revoke", `{"token":"x"}`); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		if w := g.post("/auth/revoke", `{"token":"x"}`); w.Code != http.StatusOK {
			t.Errorf("a second later: %d", w.Code)
		}
	})
}

// TestRefreshInTime checks refreshes just before and after each limit of time.
func TestRefreshInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		refresh := func(token string) *httptest.ResponseRecorder {
			return g.post("/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+token+`"}`)
		}
		_, first := g.login(t, "demo")
		children := make([]string, 64)
		var wait sync.WaitGroup
		for i := range children {
			wait.Go(func() { children[i] = member(t, refresh(first), "refresh_token") })
		}
		wait.Wait()
		if slices.Sort(children); children[0] == "" || len(slices.Compact(slices.Clone(children))) != 64 {
			t.Fatalf("successors %q", children)
		}
		time.Sleep(5 * time.Minute)
		if w := refresh(children[0]); w.Code != http.StatusOK { // the first one dies
			t.Fatalf("child: %d %s", w.Code, w.Body)
		}
		time.Sleep(30 * time.Second)
		if w := refresh(first); w.Code != http.StatusUnauthorized {
			t.Fatalf("dead token: %d", w.Code)
		}
		if w := refresh(children[0]); w.Code != http.StatusOK {
			t.Fatalf("family did not live on: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := refresh(first); w.Code != http.StatusUnauthorized {
			t.Fatalf("token used again: %d", w.Code)
		}
		if w := refresh(children[0]); w.Code != http.StatusUnauthorized || member(t, w, "reason") != "invalid_refresh_token" {
			t.Fatalf("family lived on: %d", w.Code)
		}

		_, second := g.login(t, "demo")
		time.Sleep(30*24*time.Hour - time.Second)
		if w := refresh(second); w.Code != http.StatusOK {
			t.Fatalf("a second before its end: %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := refresh(second); w.Code != http.StatusUnauthorized {
			t.Fatalf("a second after its end: %d", w.Code)
		}
	})
}

// TestForeignTokens checks well-formed tokens of another gateway.
func TestForeignTokens(t *testing.T) {
	g, other := newGateway(t, nil), newGateway(t, nil)
	access, refresh := other.login(t, "demo")
	if w := g.get("/market/time", access); w.Code != http.StatusUnauthorized || member(t, w, "reason") != "invalid_token" {
		t.Errorf("access token: %d %s", w.Code, w.Body)
	}
	w := g.post("/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+refresh+`"}`)
	if w.Code != http.StatusUnauthorized || member(t, w, "reason") != "invalid_refresh_token" {
		t.Errorf("refresh token: %d %s", w.Code, w.Body)
	}
}

func TestAccessTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		access, _ := g.login(t, "demo")
		time.Sleep(24*time.Hour - 2*time.Second)
		if w := g.get("/market/time", access); w.Code != http.StatusOK {
			t.Errorf("before its end: %d", w.Code)
		}
		time.Sleep(3 * time.Second)
		w := g.get("/market/time", access)
		if w.Code != http.StatusUnauthorized || member(t, w, "reason") != "token_expired" ||
			w.Header().Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
			t.Errorf("after its end: %d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

// TestParallelLogins checks that valid logins among many succeed, or get Retry-After.
func TestParallelLogins(t *testing.T) {
	g := newGateway(t, nil)
	var wait sync.WaitGroup
	for range 200 {
		wait.Go(func() {
			if w := g.post("/auth/token", `{"grant_type":"password","username":"demo","password":"demo"}`); w.Code != http.StatusOK && w.Code < 429 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
	wait.Wait()
}

// panicking has accounts whose reading panics with the requested user.
type panicking struct{}

func (panicking) ListAccounts(context.Context, string) ([]broker.Account, error) {
	panic("cannot read canary-panic")
}

func TestPanicIsAnswered(t *testing.T) {
	g := newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Accounts = panicking{} })
	access, _ := g.login(t, "demo")
	w := g.get("/broker/accounts", access)
	if w.Code != http.StatusInternalServerError || member(t, w, "reason") != "internal" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	log := g.log.String()
	if id := member(t, w, "request_id"); id == "" || !strings.Contains(log, id) {
		t.Errorf("request id %q is not in the log", id)
	}
	if !strings.Contains(log, "request handler panicked") || !strings.Contains(log, "handler_test.go") {
		t.Error("the log has no stack")
	}
	if strings.Contains(log+w.Body.String(), "canary") {
		t.Error("the panic's value got out")
	}
	if w := g.get("/market/time", access); w.Code != http.StatusOK {
		t.Errorf("the next request: %d", w.Code)
	}
}

// TestOriginsByDefault checks that without a list only pages of the request's own host may read
// answers, and that "*" allows all.
func TestOriginsByDefault(t *testing.T) {
	own := newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Origins = nil })
	all := newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Origins = []string{"*"} })
	for _, tt := range []struct {
		g            *gateway
		host, origin string
		allowed      bool
	}{
		{own, "rueda.test", "https://rueda.test", true},
		{own, "rueda.test:8080", "http://rueda.test:8080", true},
		{own, "rueda.test:80", "http://rueda.test", true},
		{own, "rueda.test:8080", "http://rueda.test", false},
		{own, "rueda.test", "https://rueda.test.evil.example", false},
		{own, "rueda.test", "null", false},
		{all, "rueda.test", "https://evil.example", true},
		{all, "rueda.test", "null", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/livez", nil)
		r.Host = tt.host
		r.Header.Set("Origin", tt.origin)
		w := httptest.NewRecorder()
		tt.g.handler.ServeHTTP(w, r)
		if got := w.Header().Get("Access-Control-Allow-Origin"); (got == tt.origin) != tt.allowed || w.Code != http.StatusOK {
			t.Errorf("page of %s at %s: got %q", tt.origin, tt.host, got)
		}
	}
}

// TestAccessLog checks that the access log has one line per request, with known keys. Health checks
// are logged at debug level.
func TestAccessLog(t *testing.T) {
	g := newGateway(t, nil)
	access, _ := g.login(t, "demo")
	before := len(g.log.String())
	g.get("/broker/accounts/ac_9", access)
	forwarded := httptest.NewRequest(http.MethodGet, "/livez", nil)
	forwarded.Header.Set("X-Forwarded-For", "203.0.113.9") // from an untrusted peer
	forwarded.Header.Set("Forwarded", "for=203.0.113.9")
	g.handler.ServeHTTP(httptest.NewRecorder(), forwarded)
	g.get("/nowhere", "")
	var lines []map[string]any
	for line := range strings.Lines(g.log.String()[before:]) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["msg"] == "request" {
			lines = append(lines, fields)
		}
	}
	want := []map[string]any{
		{"level": "INFO", "method": "GET", "route": "/broker/accounts/{id}", "status": 404.0, "reason": "not_found", "user": "u1", "address": "192.0.2.1"},
		{"level": "DEBUG", "method": "GET", "route": "/livez", "status": 200.0, "address": "192.0.2.1"},
		{"level": "INFO", "method": "GET", "route": "none", "status": 404.0, "reason": "not_found"},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i := range want {
		for key, value := range want[i] {
			if lines[i][key] != value {
				t.Errorf("line %d: %s is %v, want %v", i+1, key, lines[i][key], value)
			}
		}
		for _, key := range []string{"request_id", "bytes", "duration", "address"} {
			if lines[i][key] == nil {
				t.Errorf("line %d has no %s", i+1, key)
			}
		}
	}
}
