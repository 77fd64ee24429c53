package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// journalOf records a log.
type journalOf struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journalOf) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journalOf) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// enter logs a user in and returns the access token.
func enter(t *testing.T, address, username, password string) string {
	t.Helper()
	body := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, username, password)
	_, answer := raw(t, address, fmt.Sprintf("POST /auth/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	var login struct {
		Data struct {
			Access string `json:"access_token"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &login); err != nil || login.Data.Access == "" {
		t.Fatalf("login of %s: %v %s", username, err, answer)
	}
	return login.Data.Access
}

// clientRoutes has routes of every kind, with their method.
var clientRoutes = []struct{ method, path string }{
	{"POST", "/auth/token"}, {"POST", "/auth/revoke"}, {"GET", "/auth/sessions"}, {"DELETE", "/auth/sessions/x"},
	{"POST", "/oauth/token"}, {"POST", "/oauth/revoke"}, {"GET", "/.well-known/jwks.json"}, {"GET", "/.well-known/oauth-authorization-server"},
	{"GET", "/broker/accounts"}, {"GET", "/broker/accounts/x"}, {"GET", "/market/markets"}, {"GET", "/market/instruments"},
	{"GET", "/market/stream"}, {"GET", "/market/trades"}, {"GET", "/livez"}, {"GET", "/readyz"}, {"GET", "/nowhere"},
}

const upgradeFields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"

// TestThreat16SecretsInURLs checks that a secret in a URL is refused on every route and on the
// upgrade, even a valid one, and appears in no answer and no log.
func TestThreat16SecretsInURLs(t *testing.T) {
	t.Parallel()
	log := &journalOf{}
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	access := enter(t, b.Address, "demo", "demo-password")
	const canary = "canary5ecret"
	look := func(what, answer string, status, want int) {
		t.Helper()
		if status != want {
			t.Errorf("%s: %d, want %d", what, status, want)
		}
		if strings.Contains(answer, canary) || strings.Contains(answer, access) {
			t.Errorf("%s: the answer repeats it: %s", what, answer)
		}
	}
	for _, name := range []string{"token", "access_token", "ACCESS_TOKEN", "%74oken", "refresh_token", "jwt", "password", "otp"} {
		for _, secret := range []string{canary, access} {
			for _, r := range clientRoutes {
				if r.path == "/nowhere" {
					continue
				}
				answer, body := raw(t, b.Address, fmt.Sprintf("%s %s?a=1&%s=%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nReferer: https://x/?token=%s\r\n\r\n",
					r.method, r.path, name, secret, canary))
				look(r.path+"?"+name, body, answer.StatusCode, http.StatusBadRequest)
			}
			answer, body := raw(t, b.Address, fmt.Sprintf("GET /stream?%s=%s HTTP/1.1\r\nHost: x\r\n%s\r\n", name, secret, upgradeFields))
			look("/stream?"+name, body, answer.StatusCode, http.StatusBadRequest)
		}
	}
	if text := log.String(); strings.Contains(text, canary) || strings.Contains(text, access) {
		t.Error("logged")
	}
}

// TestThreat21CrossSiteHijack opens the stream from pages of other sites, by the event loop and by
// net/http, with a valid token too.
func TestThreat21CrossSiteHijack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		origins []string
		good    []string
		bad     []string
	}{
		"own host": {
			nil, []string{"", "http://gw.example", "HTTP://GW.example", "http://gw.example:80"},
			[]string{"null", "https://gw.example", "https://evil.example", "https://gw.example.evil.example", "https://evilgw.example", "https://gw.example:8443", "https://gw.example@evil.example", "https://gw.example/", "gw.example", "file://", "*"},
		},
		"listed": {
			[]string{"https://app.example"}, []string{"", "https://app.example", "https://app.example:443"},
			[]string{"null", "http://app.example", "https://app.example.evil.example", "https://evilapp.example", "https://gw.example", "https://sub.app.example", "https://app.example."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", Origins: tt.origins, Hosts: []string{"gw.example"}})
			access := enter(t, b.Address, "demo", "demo-password")
			ask := func(target, origin string) int {
				t.Helper()
				fields := upgradeFields + "Authorization: Bearer " + access + "\r\nCookie: token=" + access + "\r\n"
				if origin != "" {
					fields += "Origin: " + origin + "\r\n"
				}
				answer, _ := raw(t, b.Address, "GET "+target+" HTTP/1.1\r\nHost: gw.example\r\n"+fields+"\r\n")
				return answer.StatusCode
			}
			for _, target := range []string{"/stream", "/stream?v=%31"} { // the second is served by net/http
				for _, origin := range tt.good {
					if got := ask(target, origin); got != http.StatusSwitchingProtocols {
						t.Errorf("%s from %q: %d", target, origin, got)
					}
				}
				for _, origin := range tt.bad {
					if got := ask(target, origin); got != http.StatusForbidden {
						t.Errorf("%s from %q: %d", target, origin, got)
					}
				}
			}
		})
	}
}

// TestThreat22CrossSiteRequests sends what browsers let a page of another site send. The gateway
// sets no cookies and reads none, so only a token of the page itself identifies a user, and the
// page cannot read the answer.
func TestThreat22CrossSiteRequests(t *testing.T) {
	t.Parallel()
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0"})
	access := enter(t, b.Address, "demo", "demo-password")
	evil := "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n"
	for _, r := range clientRoutes {
		if r.path == "/market/stream" { // does not end by itself
			continue
		}
		request := func(fields string) *http.Response {
			answer, _ := raw(t, b.Address, r.method+" "+r.path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n"+fields+"\r\n")
			return answer
		}
		plain, withCookies := request(evil), request(evil+"Cookie: token="+access+"; access_token="+access+"; session="+access+"\r\n")
		if plain.StatusCode != withCookies.StatusCode {
			t.Errorf("%s %s: %d, with cookies %d", r.method, r.path, plain.StatusCode, withCookies.StatusCode)
		}
		for _, answer := range []*http.Response{plain, withCookies, request("Authorization: Bearer " + access + "\r\n" + evil)} {
			for _, field := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"} {
				if got := answer.Header.Values(field); len(got) > 0 {
					t.Errorf("%s %s: %s: %q", r.method, r.path, field, got)
				}
			}
			if answer.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s %s: readable as a resource of another site", r.method, r.path)
			}
		}
	}
	// Forms of a page need no preflight. None is looked at, on any route, not even a right password.
	form := url.Values{"grant_type": {"password"}, "username": {"demo"}, "password": {"demo-password"}, "token": {access}}.Encode()
	for _, r := range clientRoutes {
		if r.method != http.MethodPost {
			continue
		}
		for _, fields := range []string{evil, "Origin: null\r\n", "Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"} {
			for media, text := range map[string]string{
				"text/plain": loginBody, "multipart/form-data; boundary=x": form, "application/x-www-form-urlencoded": form, "application/json": loginBody,
			} {
				answer, body := raw(t, b.Address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s", r.path, media, fields, len(text), text))
				if answer.StatusCode != http.StatusForbidden || strings.Contains(body, "access_token") {
					t.Errorf("%s, %s, %q: %d %s", r.path, media, fields, answer.StatusCode, body)
				}
			}
		}
	}
	if status, body := askAs(t, b.Address, "GET", "/auth/sessions", access); status != http.StatusOK {
		t.Errorf("a form of another site has ended the login: %d %s", status, body)
	}
}

// TestThreat22NoCookies checks that no source file reads or sets a cookie, except those of the
// console's session.
func TestThreat22NoCookies(t *testing.T) {
	t.Parallel()
	console := map[string]bool{"rest/console/console.go": true, "openapi/console.go": true, "openapi/headers.go": true} // in internal/api
	cookies := []string{"SetCookie", "Set-Cookie", ".Cookie(", ".Cookies(", `"Cookie"`, "cookiejar"}
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		files++
		for _, word := range cookies {
			if bytes.Contains(text, []byte(word)) && !console[strings.TrimPrefix(filepath.ToSlash(name), "../internal/api/")] {
				t.Errorf("%s: %s", name, word)
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestThreat24AccountsOfOthers has two users request each other's accounts and logins.
func TestThreat24AccountsOfOthers(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	addOwner(t, data.Users, "ana")
	addOwner(t, data.Users, "eve")
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", Data: data, Accounts: data.Users})
	type owned struct{ token, account, login string }
	find := func(username string) owned {
		o := owned{token: enter(t, b.Address, username, username+"'s own password")}
		for path, id := range map[string]*string{"/broker/accounts": &o.account, "/auth/sessions": &o.login} {
			_, body := askAs(t, b.Address, "GET", path, o.token)
			m := regexp.MustCompile(`"(?:account_id|sid)":"([^"]+)"`).FindAllStringSubmatch(body, -1)
			if len(m) != 1 {
				t.Fatalf("%s of %s: %s", path, username, body)
			}
			*id = m[0][1]
		}
		return o
	}
	ana, eve := find("ana"), find("eve")
	for _, tt := range []struct {
		who, of owned
		want    int
	}{{ana, ana, 200}, {ana, eve, 404}, {eve, ana, 404}, {eve, eve, 200}} {
		if got, body := askAs(t, b.Address, "GET", "/broker/accounts/"+tt.of.account, tt.who.token); got != tt.want {
			t.Errorf("account: %d, want %d: %s", got, tt.want, body)
		}
	}
	unknown, other := "", ""
	for id, body := range map[string]*string{"nobodys": &unknown, eve.account: &other} {
		_, *body = askAs(t, b.Address, "GET", "/broker/accounts/"+id, ana.token)
		*body = regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(*body, "")
	}
	if unknown != other {
		t.Errorf("the answers for a foreign account and an unknown one differ:\n%s\n%s", other, unknown)
	}
	if got, body := askAs(t, b.Address, "DELETE", "/auth/sessions/"+eve.login, ana.token); got != 404 {
		t.Errorf("another's login ended: %d %s", got, body)
	}
	if got, body := askAs(t, b.Address, "GET", "/auth/sessions", eve.token); got != 200 {
		t.Errorf("eve is out: %d %s", got, body)
	}
}

func addOwner(t *testing.T, users *local.Base, username string) {
	t.Helper()
	if _, err := users.Add(t.Context(), local.NewUser{Username: username, Password: username + "'s own password", Scopes: []string{broker.ScopeAccounts}}); err != nil {
		t.Fatal(err)
	}
	if _, err := users.AddAccount(context.Background(), username, broker.Account{Number: username, Name: username, Type: "cash", Currency: "ARS"}); err != nil {
		t.Fatal(err)
	}
}

// askAs sends a request with a token and returns the status and body of the answer.
func askAs(t *testing.T, address, method, path, token string) (int, string) {
	t.Helper()
	answer, body := raw(t, address, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	return answer.StatusCode, body
}
