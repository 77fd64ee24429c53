package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// TestThreat44PasswordChangeE2E checks that a user's own change of the password ends all earlier
// logins with their sockets, at this gateway and at another one with the same database. The tokens
// of the answer work at once.
func TestThreat44PasswordChangeE2E(t *testing.T) {
	t.Parallel()
	here, elsewhere, _ := twoGateways(t)
	sockets := map[string]*bot{"here": connect(t, here), "elsewhere": connect(t, elsewhere)}
	status, text := here.do(t, http.MethodPost, "/auth/password", `{"username":"demo","password":"demo-password","new_password":"another long password"}`)
	var answer struct {
		Data struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("change: %d %s %v", status, text, err)
	}
	began := time.Now()
	here.access, here.refresh = answer.Data.Access, answer.Data.Refresh
	fresh := connect(t, here)
	for _, where := range []string{"here", "elsewhere"} {
		b := sockets[where]
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("%s: closed by %v", where, err)
		}
		promised(t, "password changed, socket "+where+" closed", began, time.Second)
	}
	if status, text := elsewhere.do(t, http.MethodGet, "/broker/accounts", ""); status != http.StatusUnauthorized || !strings.Contains(text, `"token_revoked"`) {
		t.Errorf("elsewhere, with the token of before: %d %s", status, text)
	}
	elsewhere.access = here.access
	for where, c := range map[string]*literalClient{"here": here, "elsewhere": elsewhere} {
		if status, text := c.do(t, http.MethodGet, "/broker/accounts", ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", where, status, text)
		}
	}
	fresh.send(map[string]any{"action": "ping", "id": 1})
	for {
		m, err := fresh.next(t.Context())
		if err != nil {
			t.Fatalf("the socket of the new login has ended: %v", err)
		}
		if m.Action == "pong" {
			return
		}
	}
}

// TestThreat45RequiredFactorE2E checks that a group that requires a second factor ends logins and
// sockets of members without one, at both gateways, and that enrolment leads to a login.
func TestThreat45RequiredFactorE2E(t *testing.T) {
	t.Parallel()
	here, elsewhere, users := twoGateways(t)
	sockets := map[string]*bot{"here": connect(t, here), "elsewhere": connect(t, elsewhere)}
	if err := users.AddGroup(t.Context(), "strict", local.Rights{}); err != nil {
		t.Fatal(err)
	}
	if _, err := users.Join(t.Context(), "demo", "strict"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := users.RequireFactor(t.Context(), "strict", true); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"here", "elsewhere"} {
		b := sockets[where]
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("%s: closed by %v", where, err)
		}
		promised(t, "second factor required, socket "+where+" closed", began, 500*time.Millisecond)
	}
	for where, c := range map[string]*literalClient{"here": here, "elsewhere": elsewhere} {
		if status, text := c.do(t, http.MethodGet, "/broker/accounts", ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", where, status, text)
		}
		if status, text := c.do(t, http.MethodPost, "/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+c.refresh+`"}`); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", where, status, text)
		}
		if status, text := c.do(t, http.MethodPost, "/auth/token", `{"grant_type":"password","username":"demo","password":"demo-password"}`); status != http.StatusForbidden || !strings.Contains(text, "mfa_enrolment_required") {
			t.Errorf("%s: %d %s", where, status, text)
		}
	}
	if _, err := users.EnableSecondFactor(t.Context(), "demo", ""); err != nil {
		t.Fatal(err)
	}
	if status, text := elsewhere.do(t, http.MethodPost, "/auth/token", `{"grant_type":"password","username":"demo","password":"demo-password"}`); status != http.StatusForbidden || !strings.Contains(text, "mfa_required") {
		t.Errorf("with a second factor: %d %s", status, text)
	}
}

// from sends a request as the client of a proxy, and returns the status and the text of the answer.
func (c *literalClient) from(t *testing.T, client, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.rest+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.access)
	req.Header.Set("X-Forwarded-For", client)
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// socketFrom opens a socket as the client of a proxy, with the token in the handshake if bearer is
// set.
func (c *literalClient) socketFrom(t *testing.T, client string, bearer bool) (*bot, error) {
	t.Helper()
	header := http.Header{"X-Forwarded-For": {client}}
	if bearer {
		header.Set("Authorization", "Bearer "+c.access)
	}
	ws, _, err := websocket.Dial(t.Context(), c.stream, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	if err != nil {
		return nil, err
	}
	b := &bot{t, ws}
	if !bearer {
		b.send(map[string]any{"action": "auth_token", "token": c.access})
	}
	return b, nil
}

// TestThreat46UnknownClient checks that a client whose proxy passed on a second header, or one that
// is no list of addresses, does not count as the proxy, which is in the networks of the account.
func TestThreat46UnknownClient(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	here := netip.MustParsePrefix("127.0.0.0/8")
	_, b := run(t, gateway.Config{Data: data, Listen: "127.0.0.1:0", Proxies: []netip.Prefix{here}})
	if _, err := data.Users.EditRights(t.Context(), "demo", func(r *local.Rights) error {
		r.Networks = []netip.Prefix{here}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const login = `{"grant_type":"password","username":"demo","password":"demo-password"}`
	for _, tt := range []struct {
		headers string
		want    int
	}{
		{"", 200},
		{"X-Forwarded-For: 127.0.0.9\r\n", 200},
		{"X-Forwarded-For: 198.51.100.9\r\n", 403},
		{"X-Forwarded-For: 198.51.100.9\r\nForwarded: for=203.0.113.9\r\n", 403},
		{"X-Forwarded-For: 198.51.100.9, x\r\n", 403},
	} {
		r, body := raw(t, b.Address, fmt.Sprintf("POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
			tt.headers, len(login), login))
		if r.StatusCode != tt.want {
			t.Errorf("%q: %d %s, want %d", tt.headers, r.StatusCode, body, tt.want)
		}
	}
}

// TestThreat46NetworksE2E limits a user to a network: sockets of other clients close, by the
// address behind a proxy, and nothing is served to them any more. The others notice nothing.
func TestThreat46NetworksE2E(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	addDemo(t, data.Users)
	c, stop, done := launch(t, gateway.Config{Data: data, Drain: time.Millisecond, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	const inside, outside = "192.0.2.7", "198.51.100.9"
	sockets := map[string]*bot{}
	for _, client := range []string{inside, outside} {
		b, err := c.socketFrom(t, client, client == inside)
		if err != nil {
			t.Fatal(err)
		}
		b.until(t, "Success", "")
		sockets[client] = b
	}
	began := time.Now()
	if _, err := data.Users.EditRights(t.Context(), "demo", func(r *local.Rights) error {
		r.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sockets[outside].until(t, "Error", "address_not_allowed")
	if _, err := sockets[outside].next(t.Context()); websocket.CloseStatus(err) != 4403 {
		t.Errorf("closed by %v", err)
	}
	promised(t, "networks changed, socket from elsewhere closed", began, time.Second)

	login := `{"grant_type":"password","username":"demo","password":"demo-password"}`
	wrong := strings.Replace(login, "demo-password", "wrong", 1)
	refresh := `{"grant_type":"refresh_token","refresh_token":"` + c.refresh + `"}`
	for _, s := range []struct {
		client, method, path, body string
		status                     int
		has                        string
	}{
		{outside, http.MethodGet, "/broker/accounts", "", 403, "address_not_allowed"},
		{outside, http.MethodGet, "/market/stream?trades=A%7CB%7CC", "", 403, "address_not_allowed"},
		{outside, http.MethodPost, "/auth/token", login, 403, "address_not_allowed"},
		{outside, http.MethodPost, "/auth/token", wrong, 401, "invalid_credentials"},
		{outside, http.MethodPost, "/auth/token", refresh, 403, "address_not_allowed"},
		{inside, http.MethodGet, "/broker/accounts", "", 200, "accounts"},
		{inside, http.MethodPost, "/auth/token", login, 200, "access_token"},
		{inside, http.MethodPost, "/auth/token", refresh, 200, "access_token"},
	} {
		if status, text := c.from(t, s.client, s.method, s.path, s.body); status != s.status || !strings.Contains(text, s.has) {
			t.Errorf("%s %s %s from %s: %d %s", s.method, s.path, s.body, s.client, status, text)
		}
	}
	b, err := c.socketFrom(t, outside, false)
	if err != nil {
		t.Fatal(err)
	}
	b.until(t, "Error", "address_not_allowed")
	if _, err := c.socketFrom(t, outside, true); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a handshake with the token: %v", err)
	}
	sockets[inside].send(map[string]any{"action": "auth_token", "token": c.access})
	sockets[inside].until(t, "Success", "")
}
