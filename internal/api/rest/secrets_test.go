package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// TestThreat16SecretsStayIn sends secrets in every part of requests, and checks that no error and
// no log contains one.
func TestThreat16SecretsStayIn(t *testing.T) {
	const canary = "canary5ecret"
	g := newArchive(t, journal.Config{}, nil).gateway
	access, refresh := g.login(t, "historian")
	address := g.serve(t)
	g.users.set(func() { g.users.passwords["historian"] = canary })

	bodies := []string{
		`{"grant_type":"password","username":"historian","password":"` + canary + `"}`,
		`{"grant_type":"password","username":"` + canary + `","password":"` + canary + `"}`,
		`{"grant_type":"` + canary + `","username":"x"}`,
		`{"grant_type":"refresh_token","refresh_token":"` + canary + `"}`,
		`{"grant_type":"refresh_token","refresh_token":"` + refresh + `"}`,
		`{"grant_type":"refresh_token","refresh_token":["` + refresh + `"]}`,
		`{"token":"` + canary + `"}`, `{"token":"` + access + `"}`, `{"` + canary + `":1,"` + canary + `":2}`, canary, `{"x":` + canary,
		"grant_type=password&username=historian&password=" + canary, "grant_type=password&username=" + canary + "&password=" + canary,
		"grant_type=" + canary, "grant_type=refresh_token&refresh_token=" + canary, "grant_type=refresh_token&refresh_token=" + refresh,
		`{"username":"historian","password":"` + canary + `","new_password":"` + canary + `"}`,
		`{"action":"` + canary + `","username":"` + canary + `"}`, `{"action":"confirm","enrolment":"` + canary + `","otp":"` + canary + `"}`,
		`{"action":"enrol","username":"historian","password":"` + canary + `"}`,
		canary + "=1&" + canary + "=2", "%zz" + canary, "token=" + canary, "grant_type=password&username=historian&password=x&otp=" + canary,
	}
	paths := []string{
		"/auth/token", "/auth/revoke", "/auth/password", "/auth/otp", "/oauth/token", "/oauth/revoke", "/auth/sessions", "/auth/sessions/" + canary, "/broker/accounts", "/broker/accounts/" + canary, "/market/markets", "/market/instruments",
		"/market/status", "/market/time", "/market/snapshot", "/market/book", "/.well-known/jwks.json", "/livez", "/readyz",
		"/market/trades", "/market/bars", "/market/calendar", "/market/export", "/market/stream", "/stream", "/" + canary, "/auth/token/" + access,
	}
	queries := []string{"", "?access_token=" + canary, "?instruments=" + canary, "?instrument=" + canary, "?cursor=" + canary,
		"?limit=" + canary, "?depth=" + canary, "?status=" + canary, "?password=" + canary, "?q=" + canary + strings.Repeat("x", 64),
		"?instrument=GGAL%7CBYMA%7C24hs&start=" + canary, "?instrument=GGAL%7CBYMA%7C24hs&order=" + canary, "?market=" + canary, "?type=" + canary, "?trades=" + canary, "?" + canary + "=1", "?otp=" + canary}
	headers := []string{"", "Authorization: Bearer " + canary, "Authorization: Basic " + canary, "Authorization: Bearer " + access,
		"X-Request-Id: " + canary + " x", "Accept: " + canary + "/x", "Content-Type: " + canary + "/x", "Cookie: " + canary,
		"Content-Length: " + canary, "Transfer-Encoding: " + canary, canary, "Origin: https://" + canary}
	methods := []string{"GET", "POST", strings.ToUpper(canary)}

	answers := make(map[int]int)
	ask := func(method, target, header, body string) {
		status, got := exchange(t, address, method, target, header, body)
		answers[status]++
		if status >= 400 && containsSecret(got, canary, access, refresh) {
			t.Errorf("%s %s %q: %s", method, target, header, got)
		}
	}
	for _, path := range paths {
		for _, method := range methods {
			for _, header := range headers {
				ask(method, path, header, "")
			}
			for _, query := range queries {
				ask(method, path+query, "Authorization: Bearer "+access, "")
			}
		}
		for _, body := range bodies {
			ask("POST", path, "", body)
		}
	}
	for _, status := range []int{200, 400, 401, 404, 405, 406, 415} {
		if answers[status] == 0 {
			t.Errorf("no answer %d among %v", status, answers)
		}
	}
	for line := range strings.SplitSeq(g.log.String(), "\n") {
		if containsSecret(line, canary, access, refresh) {
			t.Errorf("logged: %s", line)
		}
	}
}

// exchange sends one request unchanged and returns the status and body of the answer.
func exchange(t *testing.T, address, method, target, header, body string) (status int, answer string) {
	t.Helper()
	if header != "" {
		header += "\r\n"
	}
	switch {
	case body == "":
	case strings.ContainsAny(body, "{"):
		header += "Content-Type: application/json\r\n"
	default:
		header += "Content-Type: application/x-www-form-urlencoded\r\n"
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: rueda.test\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", method, target, len(body), header, body); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s %s %q: %v", method, target, header, err)
	}
	got, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(got)
}

// containsSecret searches for secrets in any case, and for the first half of each.
func containsSecret(s string, secrets ...string) bool {
	s = strings.ToLower(s)
	for _, secret := range secrets {
		if strings.Contains(s, strings.ToLower(secret[:len(secret)/2+4])) {
			return true
		}
	}
	return false
}
