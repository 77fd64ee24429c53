package gateway_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/gateway"
)

// TestSessionEndsItsSockets checks that a login lists its open sockets, including those of
// server-sent events, and that they close when another login ends it.
func TestSessionEndsItsSockets(t *testing.T) {
	t.Parallel()
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", Proxies: proxies(t, "127.0.0.0/8")})
	lost, own := enter(t, b.Address, "demo", "demo-password"), enter(t, b.Address, "demo", "demo-password")
	var sockets []*websocket.Conn
	for range 2 {
		c, _, err := websocket.Dial(t.Context(), b.Stream, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + lost}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if _, text, err := c.Read(t.Context()); err != nil || !strings.Contains(string(text), `"Success"`) {
			t.Fatalf("%s: %v", text, err)
		}
		sockets = append(sockets, c)
	}
	_, body := askAs(t, b.Address, "GET", "/auth/sessions", own)
	m := regexp.MustCompile(`"sid":"([^"]+)"[^}]*"connections":2,"current":false`).FindStringSubmatch(body)
	if m == nil || strings.Count(body, `"connections":0,"current":true`) != 1 {
		t.Fatalf("sessions: %s", body)
	}
	if status, body := askAs(t, b.Address, "DELETE", "/auth/sessions/"+m[1], own); status != http.StatusForbidden {
		t.Fatalf("end without the password: %d %s", status, body)
	}
	text := fmt.Sprintf(`{"username":"demo","password":"demo-password","sid":%q}`, m[1])
	answer, body := raw(t, b.Address, fmt.Sprintf("POST /auth/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("end: %d %s", answer.StatusCode, body)
	}
	for _, c := range sockets {
		last := ""
		for {
			_, text, err := c.Read(t.Context())
			if err != nil {
				if websocket.CloseStatus(err) != 4401 || !strings.Contains(last, `"token_revoked"`) {
					t.Errorf("closed with %v after %s", err, last)
				}
				break
			}
			last = string(text)
		}
	}
	if status, _ := askAs(t, b.Address, "GET", "/auth/sessions", lost); status != http.StatusUnauthorized {
		t.Errorf("its token: %d", status)
	}
	if _, body := askAs(t, b.Address, "GET", "/auth/sessions", own); strings.Contains(body, m[1]) {
		t.Errorf("still listed: %s", body)
	}
}
