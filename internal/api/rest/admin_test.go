package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

const adminToken = "admin-token-of-at-least-32-characters"

// newAdmin returns the administrator's handler of a gateway.
func newAdmin(t *testing.T, g *gateway) http.Handler {
	t.Helper()
	h, err := rest.NewAdmin(rest.AdminConfig{
		Auth: g.service, Token: auth.NewSecret(adminToken), Logger: g.logger(),
		Ready: func() error {
			if g.sick.Load() {
				return errDown
			}
			return nil
		},
		Sockets: func(string) int { return 3 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return described(t, "/admin/openapi.json", h)
}

// ask sends a request to a handler; fields are names and values of the header in turn.
func ask(t *testing.T, h http.Handler, method, target, body string, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// adminRequests has all requests that the administrator's listener answers with a token.
var adminRequests = []struct{ method, path, body string }{
	{"POST", "/oauth/introspect", "token=x"},
	{"GET", "/admin/users/u1/sessions", ""},
	{"DELETE", "/admin/users/u1/sessions", ""},
	{"DELETE", "/admin/sessions/s1", ""},
	{"GET", "/admin/users", ""},
	{"GET", "/admin/users/u1", ""},
	{"POST", "/admin/users/u1", `{"action":"disable"}`},
	{"GET", "/admin/connections", ""},
	{"DELETE", "/admin/connections", ""},
	{"DELETE", "/admin/connections/0-1-1", ""},
	{"POST", "/admin/reload", ""},
	{"GET", "/admin/log-level", ""},
	{"PUT", "/admin/log-level", `{"level":"error"}`},
}

// TestThreat35AdminSurface checks that the clients' listener has no path of the administrator, with
// any method and token, and that the administrator's listener answers 401 without the token.
func TestThreat35AdminSurface(t *testing.T) {
	g := newGateway(t, nil)
	admin := newAdmin(t, g)
	access, refresh := g.login(t, "demo")
	for _, path := range []string{"/oauth/introspect", "/admin", "/admin/", "/admin/users", "/admin/users/u1", "/admin/users/u1/sessions", "/admin/sessions/s1", "/admin/log-level", "/admin/connections", "/admin/connections/0-1-1", "/admin/reload", "/admin/livez"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			for _, token := range []string{"", "Bearer " + adminToken, "Bearer " + access} {
				w := ask(t, g.handler, method, path, "token=x", "Authorization", token, "Content-Type", "application/x-www-form-urlencoded")
				if w.Code != http.StatusNotFound {
					t.Errorf("public %s %s with %q: %d", method, path, token, w.Code)
				}
			}
		}
	}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, r := range adminRequests {
		admin := newAdmin(t, g) // whose limit of guesses is unused
		for _, token := range []string{"Bearer " + adminToken[1:], "Bearer " + adminToken + "x", "Bearer " + access, "Bearer " + refresh, "Basic " + adminToken, "Bearer"} {
			w := ask(t, admin, r.method, r.path, r.body, append(form, "Authorization", token)...)
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("admin %s %s with %q: %d %v", r.method, r.path, token, w.Code, w.Header())
			}
		}
		if w := ask(t, admin, r.method, r.path, r.body, form...); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" ||
			!strings.Contains(w.Body.String(), "The administrator's token is missing") ||
			!strings.Contains(w.Body.String(), `"hint":"Send Authorization: Bearer with an operator's token, see docs/operations.md#operators"`) {
			t.Errorf("admin %s %s without a token: %d %v", r.method, r.path, w.Code, w.Header())
		}
		if w := ask(t, admin, r.method, r.path, r.body, append(form, "Authorization", "Bearer "+adminToken, "Authorization", "Bearer "+adminToken)...); w.Code != http.StatusBadRequest {
			t.Errorf("admin %s %s with two tokens: %d", r.method, r.path, w.Code)
		}
		if w := ask(t, admin, r.method, r.path+"?access_token="+adminToken, r.body, form...); w.Code != http.StatusBadRequest {
			t.Errorf("admin %s %s with the token in the URL: %d", r.method, r.path, w.Code)
		}
	}
	for _, path := range []string{"/auth/token", "/auth/sessions", "/broker/accounts", "/market/markets", "/stream", "/.well-known/jwks.json"} {
		if w := ask(t, admin, "GET", path, "", "Authorization", "Bearer "+adminToken); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "hint") {
			t.Errorf("a client's route on the administrator's listener: %s: %d", path, w.Code)
		}
	}
	if strings.Contains(g.log.String(), adminToken) {
		t.Error("the token was logged")
	}
}

// TestThreat35AdminTokenGuesses checks that guesses of the administrator's token are slowed down.
// The right one is not accepted among too many, also if they come at once. Guesses are in the audit
// log. Requests with the token are not limited.
func TestThreat35AdminTokenGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		admin := newAdmin(t, g)
		guess := func(token string) int {
			return ask(t, admin, "GET", "/admin/users/u1/sessions", "", "Authorization", "Bearer "+token).Code
		}
		for range 100 {
			if code := guess(adminToken); code != http.StatusOK {
				t.Fatalf("with the token: %d", code)
			}
		}
		w := ask(t, admin, "GET", "/admin/users/u1/sessions", "", "Authorization", "Bearer wrong")
		if w.Code != http.StatusUnauthorized || w.Header().Get("RateLimit-Policy") != `"address";q=30;w=60` {
			t.Fatalf("a guess: %d %v", w.Code, w.Header())
		}
		var all sync.WaitGroup
		var looked atomic.Int64
		for range 100 {
			all.Go(func() {
				if guess("wrong") == http.StatusUnauthorized {
					looked.Add(1)
				}
			})
		}
		all.Wait()
		if n := looked.Load(); n != 29 {
			t.Errorf("%d guesses at once were looked at, want 29", n)
		}
		if code := guess(adminToken); code != http.StatusTooManyRequests {
			t.Errorf("the right one among them: %d", code)
		}
		rows := 0
		for row, err := range g.store.Store.(*store.Memory).AuditRows(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if row.Kind == audit.AdminRefused {
				rows++
			}
		}
		if rows != 1 {
			t.Errorf("%d rows in the audit log, want one a minute", rows)
		}
	})
}

func TestAdminRoutes(t *testing.T) {
	g := newGateway(t, nil)
	admin := newAdmin(t, g)
	access, refresh := g.login(t, "demo")
	bearer := []string{"Authorization", "Bearer " + adminToken, "Content-Type", "application/x-www-form-urlencoded"}
	introspect := func(token string, hint ...string) map[string]any {
		t.Helper()
		w := ask(t, admin, "POST", "/oauth/introspect", url.Values{"token": {token}, "token_type_hint": hint}.Encode(), bearer...)
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("introspect: %d %s", w.Code, w.Body)
		}
		var state map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil {
			t.Fatal(err)
		}
		return state
	}
	for kind, token := range map[string]string{"access_token": access, "refresh_token": refresh} {
		state := introspect(token, kind)
		if state["active"] != true || state["sub"] != "u1" || state["username"] != "demo" || state["token_use"] != kind ||
			state["sid"] == "" || state["exp"].(float64) < float64(time.Now().Unix()) {
			t.Errorf("%s: %v", kind, state)
		}
		access := kind == "access_token"
		if (state["iss"] == "rueda") != access || (state["aud"] == "rueda") != access || (state["token_type"] == "Bearer") != access {
			t.Errorf("%s: %v", kind, state)
		}
		for _, hint := range []string{"", "access_token", "refresh_tokens"} {
			if state := introspect(token, hint); state["active"] != access {
				t.Errorf("%s with the hint %q: %v", kind, hint, state)
			}
		}
	}
	for _, token := range []string{"nobodys", access + "x", access[:len(access)-1], "rt1_" + strings.Repeat("A", 48), adminToken, " ", "a.b.c"} {
		if state := introspect(token); len(state) != 1 || state["active"] != false {
			t.Errorf("%.20q: %v", token, state)
		}
	}
	for body, want := range map[string]int{"": 400, "token=": 400, "token=a&token=b": 400} {
		if w := ask(t, admin, "POST", "/oauth/introspect", body, bearer...); w.Code != want || !strings.Contains(w.Body.String(), `"error":"invalid_request"`) {
			t.Errorf("introspect %q: %d %s", body, w.Code, w.Body)
		}
	}

	w := ask(t, admin, "GET", "/admin/users/u1/sessions", "", bearer...)
	if w.Code != http.StatusOK || strings.Count(w.Body.String(), `"sid"`) != 1 || !strings.Contains(w.Body.String(), `"connections":3,"current":false`) {
		t.Errorf("sessions: %d %s", w.Code, w.Body)
	}
	if w := ask(t, admin, "GET", "/admin/users/nobody/sessions", "", bearer...); w.Code != http.StatusNotFound {
		t.Errorf("sessions of nobody: %d %s", w.Code, w.Body)
	}
	// The name is not the id: no session ends, and the answer does not claim it.
	if w := ask(t, admin, "DELETE", "/admin/users/demo/sessions", "", bearer...); w.Code != http.StatusNotFound ||
		!strings.Contains(w.Body.String(), `"hint":"The id is in rueda user show NAME and in sub of /oauth/introspect"`) {
		t.Errorf("end a name: %d %s", w.Code, w.Body)
	}
	if w := ask(t, admin, "DELETE", "/admin/users/u1/sessions", "", bearer...); w.Code != http.StatusOK || w.Body.String() != `{"success":true,"data":{"ended":1}}`+"\n" {
		t.Errorf("end the user: %d %s", w.Code, w.Body)
	}
	for _, token := range []string{access, refresh} {
		if state := introspect(token); state["active"] != false {
			t.Errorf("after the end: %v", state)
		}
	}
	if w := ask(t, g.handler, "GET", "/broker/accounts", "", "Authorization", "Bearer "+access); w.Code != http.StatusUnauthorized {
		t.Errorf("after the end: %d", w.Code)
	}

	g.sick.Store(true)
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503} {
		if w := ask(t, admin, "GET", path, ""); w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestEndOneLogin ends one of two logins of a user.
func TestEndOneLogin(t *testing.T) {
	g := newGateway(t, nil)
	admin := newAdmin(t, g)
	first, _ := g.login(t, "demo")
	second, _ := g.login(t, "demo")
	end := func(sid string, code int, want string) {
		t.Helper()
		if w := ask(t, admin, "DELETE", "/admin/sessions/"+sid, "", "Authorization", "Bearer "+adminToken); w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("end %s: %d %s", sid, w.Code, w.Body)
		}
	}
	use := func(access string, code int) {
		t.Helper()
		if w := ask(t, g.handler, "GET", "/broker/accounts", "", "Authorization", "Bearer "+access); w.Code != code {
			t.Errorf("use of a token: %d, want %d", w.Code, code)
		}
	}
	w := ask(t, g.handler, "GET", "/auth/sessions", "", "Authorization", "Bearer "+second)
	var list struct {
		Data struct {
			Sessions []struct {
				SID     string
				Current bool
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Data.Sessions) != 2 {
		t.Fatalf("sessions: %v %s", err, w.Body)
	}
	end("nobodys", http.StatusNotFound, "No login has this id")
	use(second, http.StatusOK)
	for _, s := range list.Data.Sessions {
		if s.Current {
			end(s.SID, http.StatusOK, `"data":{"ended":1}`)
			end(s.SID, http.StatusNotFound, "or it has ended")
		}
	}
	use(second, http.StatusUnauthorized)
	use(first, http.StatusOK)
}

// TestAdminAnswersNoPage checks that no web page may call the administrator's listener, not even
// one of its own host.
func TestAdminAnswersNoPage(t *testing.T) {
	g := newGateway(t, nil)
	admin := newAdmin(t, g)
	for _, origin := range []string{"http://example.com", "https://evil.example", "null", "null:", "*"} {
		w := ask(t, admin, "OPTIONS", "/oauth/introspect", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight of %s: %d %v", origin, w.Code, w.Header())
		}
	}
}
