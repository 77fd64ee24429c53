package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker/local"
)

// TestThreat44PasswordChangeE2E checks that a user's own change of the password ends all earlier
// logins with their sockets, at this gateway and at another one with the same database. The tokens
// of the answer work at once.
func TestThreat44PasswordChangeE2E(t *testing.T) {
	t.Parallel()
	here, elsewhere, _ := twoGateways(t)
	sockets := map[string]*bot{"here": connect(t, here), "elsewhere": connect(t, elsewhere)}
	began := time.Now()
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
