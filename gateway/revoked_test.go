package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// do sends a body and returns the status and the text of the answer.
func (c *literalClient) do(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.rest+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+c.access)
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

// twoGateways runs two gateways on one folder, like two processes, with a client of user demo for
// each.
func twoGateways(t *testing.T) (here, elsewhere *literalClient, users *local.Base) {
	folder := filepath.Join(t.TempDir(), "data")
	var clients [2]*literalClient
	for i := range clients {
		d, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		if i == 0 {
			users = d.Users
			addDemo(t, users)
		}
		c, stop, done := launch(t, gateway.Config{Data: d, Drain: time.Millisecond})
		t.Cleanup(func() {
			c.http.CloseIdleConnections()
			stop()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
		clients[i] = c
	}
	here, elsewhere = clients[0], clients[1]
	if err := here.login(); err != nil {
		t.Fatal(err)
	}
	elsewhere.access, elsewhere.refresh = here.access, here.refresh
	return here, elsewhere, users
}

// TestThreat13TokenReplayE2E checks that a token is invalid after its logout, on REST and on the
// stream, at the gateway of the logout and at another one with the same database. Open sockets
// close.
func TestThreat13TokenReplayE2E(t *testing.T) {
	t.Parallel()
	here, elsewhere, _ := twoGateways(t)
	sockets := map[string]*bot{"here": connect(t, here), "elsewhere": connect(t, elsewhere)}
	if err := elsewhere.accounts(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if status, text := here.do(t, http.MethodPost, "/auth/revoke", `{"token":"`+here.refresh+`"}`); status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, text)
	}
	for _, where := range []string{"here", "elsewhere"} {
		b := sockets[where]
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("%s: closed by %v", where, err)
		}
		promised(t, "logged out, socket "+where+" closed", began, time.Second)
	}
	for where, c := range map[string]*literalClient{"here": here, "elsewhere": elsewhere} {
		if status, text := c.do(t, http.MethodGet, "/broker/accounts", ""); status != http.StatusUnauthorized || !strings.Contains(text, `"token_revoked"`) {
			t.Errorf("%s: %d %s", where, status, text)
		}
		if status, text := c.do(t, http.MethodPost, "/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+c.refresh+`"}`); status != http.StatusUnauthorized || !strings.Contains(text, `"invalid_refresh_token"`) {
			t.Errorf("%s: %d %s", where, status, text)
		}
		ws, _, err := websocket.Dial(t.Context(), c.stream, &websocket.DialOptions{HTTPClient: c.http})
		if err != nil {
			t.Fatal(err)
		}
		b := &bot{t, ws}
		b.send(map[string]any{"action": "auth_token", "token": c.access})
		b.until(t, "Error", "token_revoked")
	}
}

// TestThreat09DisabledUserE2E checks that the refresh tokens of a disabled user are refused at both
// gateways, and that their open sockets close (CVE-2023-22492).
func TestThreat09DisabledUserE2E(t *testing.T) {
	t.Parallel()
	here, elsewhere, users := twoGateways(t)
	sockets := []*bot{connect(t, here), connect(t, elsewhere)}
	began := time.Now()
	if err := users.Disable(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*literalClient{here, elsewhere} {
		if status, text := c.do(t, http.MethodPost, "/auth/token", `{"grant_type":"refresh_token","refresh_token":"`+c.refresh+`"}`); status != http.StatusUnauthorized || !strings.Contains(text, `"invalid_refresh_token"`) {
			t.Errorf("refresh: %d %s", status, text)
		}
	}
	for _, b := range sockets {
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("closed by %v", err)
		}
	}
	promised(t, "user disabled, both sockets closed", began, 500*time.Millisecond)
	for _, c := range []*literalClient{here, elsewhere} {
		if status, text := c.do(t, http.MethodGet, "/broker/accounts", ""); status != http.StatusUnauthorized || !strings.Contains(text, `"token_revoked"`) {
			t.Errorf("accounts: %d %s", status, text)
		}
	}
}

// TestSecondFactorOverREST checks that a user with a second factor is asked for it, and that a
// malformed one-time password is an invalid field.
func TestSecondFactorOverREST(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	if _, err := data.Users.Add(t.Context(), local.NewUser{Username: "maria", Password: "a long password", Scopes: []string{broker.ScopeRead}}); err != nil {
		t.Fatal(err)
	}
	factor, err := data.Users.EnableSecondFactor(t.Context(), "maria", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	c, stop, done := launch(t, gateway.Config{Data: data, Drain: time.Millisecond})
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	for _, s := range []struct {
		otp    string
		status int
		has    string
	}{
		{``, http.StatusForbidden, `"mfa_required"`},
		{`,"otp":"12"`, http.StatusBadRequest, `"bad_field"`},
		{`,"otp":123456`, http.StatusBadRequest, `"bad_field"`},
		{`,"otp":"AAAA-BBBB-CCCC-DDDD"`, http.StatusUnauthorized, `"invalid_credentials"`},
		{`,"otp":"` + factor.Codes[0] + `"`, http.StatusOK, `"access_token"`},
		{`,"otp":"` + factor.Codes[0] + `"`, http.StatusUnauthorized, `"invalid_credentials"`},
	} {
		status, text := c.do(t, http.MethodPost, "/auth/token", `{"grant_type":"password","username":"maria","password":"a long password"`+s.otp+`}`)
		if status != s.status || !strings.Contains(text, s.has) {
			t.Errorf("otp %q: %d %s", s.otp, status, text)
		}
	}
}
