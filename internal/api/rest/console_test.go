package rest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/api/rest/console"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// newConsole returns a gateway with the console.
func newConsole(t testing.TB, change func(*rest.Config)) *gateway {
	return newGateway(t, func(c *rest.Config, _ *auth.Config) {
		c.Origins, c.Console = nil, &console.Page{Dev: true, Idle: 12 * time.Hour, Hint: &console.Hint{Username: "demo", Password: "demo"}}
		if change != nil {
			change(c)
		}
	})
}

// consoleClient is the page of a browser: its cookies, and what the page itself keeps.
type consoleClient struct {
	t       testing.TB
	handler http.Handler
	host    string
	scheme  string
	cookies map[string]string // by name
	planted []string          // further cookies of a request, set by a sibling domain
	session string
}

func newConsoleClient(t testing.TB, h http.Handler) *consoleClient {
	return &consoleClient{t: t, handler: h, host: "127.0.0.1:8080", scheme: "http", cookies: map[string]string{}}
}

// ask sends a request as the page does. Pairs of name and value replace its headers; a value of "-"
// leaves one out.
func (c *consoleClient) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = c.host
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Rueda-Console", "1")
	r.Header.Set("Origin", c.scheme+"://"+c.host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range c.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for _, line := range c.planted {
		r.Header.Set("Cookie", strings.TrimPrefix(line+"; "+r.Header.Get("Cookie"), "; "))
	}
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Del(header[i]); header[i+1] != "-" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if c.cookies[cookie.Name] = cookie.Value; cookie.MaxAge < 0 {
			delete(c.cookies, cookie.Name)
		}
	}
	return w
}

type consoleSession struct {
	Access           string `json:"access_token"`
	Type             string `json:"token_type"`
	ExpiresIn        int    `json:"expires_in"`
	RefreshExpiresIn int    `json:"refresh_expires_in"`
	Scope            string `json:"scope"`
	Session          string `json:"session"`
	Idle             int    `json:"idle_timeout"`
}

const loginBody = `{"username":"demo","password":"demo"}`

// begin logs in.
func (c *consoleClient) begin() consoleSession {
	c.t.Helper()
	return c.granted(c.ask(http.MethodPost, "/console/session", loginBody))
}

// refresh renews the access token.
func (c *consoleClient) refresh() consoleSession {
	c.t.Helper()
	return c.granted(c.tryRefresh(c.session))
}

func (c *consoleClient) tryRefresh(session string) *httptest.ResponseRecorder {
	c.t.Helper()
	return c.ask(http.MethodPost, "/console/session/refresh", fmt.Sprintf(`{"session":%q}`, session))
}

func (c *consoleClient) granted(w *httptest.ResponseRecorder) consoleSession {
	c.t.Helper()
	var answer struct{ Data consoleSession }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || answer.Data.Access == "" {
		c.t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	c.session = answer.Data.Session
	return answer.Data
}

// end logs out.
func (c *consoleClient) end(session string, header ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	return c.ask(http.MethodDelete, "/console/session", fmt.Sprintf(`{"session":%q}`, session), header...)
}

// valid reports whether an access token is accepted.
func (c *consoleClient) valid(access string) bool {
	r := httptest.NewRequest(http.MethodGet, "/broker/accounts", nil)
	r.Header.Set("Authorization", "Bearer "+access)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Code == http.StatusOK
}

// wantError checks the status and reason of an error.
func wantError(t testing.TB, what string, w *httptest.ResponseRecorder, status int, reason string) {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), `"reason":"`+reason+`"`) {
		t.Errorf("%s: %d %s, want %d %s", what, w.Code, w.Body, status, reason)
	}
}

func TestConsoleSession(t *testing.T) {
	g := newConsole(t, nil)
	c := newConsoleClient(t, g.handler)
	w := c.ask(http.MethodPost, "/console/session", loginBody)
	first := c.granted(w)
	if first.Type != "bearer" || first.ExpiresIn != 43200 || first.RefreshExpiresIn != 43200 || first.Idle != 43200 || !strings.Contains(first.Scope, "marketdata:read") || first.Session == "" {
		t.Errorf("%+v", first)
	}
	if strings.Contains(w.Body.String(), "refresh_token") || strings.Contains(w.Body.String(), "rt1_") {
		t.Errorf("the page sees the refresh token: %s", w.Body)
	}
	cookie := w.Result().Cookies()[0]
	if len(w.Result().Cookies()) != 1 || cookie.Name != "rueda_console" || cookie.Path != "/console/session" || !cookie.HttpOnly || cookie.Secure ||
		cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" || cookie.MaxAge != 0 || !cookie.Expires.IsZero() {
		t.Errorf("cookie %v", cookie)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Encoding": "", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if w.Header().Get("RateLimit") == "" {
		t.Error("the answer has no limit of failures")
	}
	second := c.refresh()
	if second.Access == first.Access || second.Session != first.Session || !c.valid(second.Access) {
		t.Errorf("%+v after %+v", second, first)
	}
	if c.cookies["rueda_console"] == cookie.Value {
		t.Error("the cookie was not replaced")
	}
	w = c.end(first.Session)
	if w.Code != http.StatusOK || len(c.cookies) != 0 {
		t.Errorf("logout: %d %s, cookies %v", w.Code, w.Body, c.cookies)
	}
	if c.valid(second.Access) || c.valid(first.Access) {
		t.Error("an access token is valid after the logout")
	}
	wantError(t, "refresh after logout", c.tryRefresh(first.Session), http.StatusUnauthorized, "invalid_refresh_token")
	wantError(t, "second logout", c.end(first.Session), http.StatusConflict, "conflict")
	for body, reason := range map[string]string{
		`{"username":"demo","password":"wrong"}`:              "401 invalid_credentials",
		`{"username":"careful","password":"careful"}`:         "403 mfa_required",
		`{"username":"demo"}`:                                 "400 invalid_request",
		`{"username":"demo","password":"demo","otp":"x"}`:     "400 bad_field",
		`{"name":"demo","password":"demo"}`:                   "400 invalid_request",
		`[]`:                                                  "400 bad_json",
		`{"username":"` + strings.Repeat("x", 9000) + `"}`:    "413 body_too_big",
		`{"username":"demo","password":"demo","otp":"12345"}`: "400 bad_field",
	} {
		w := c.ask(http.MethodPost, "/console/session", body)
		if got := fmt.Sprintf("%d ", w.Code); !strings.HasPrefix(reason, got) || !strings.Contains(w.Body.String(), `"reason":"`+strings.TrimPrefix(reason, got)+`"`) || len(w.Result().Cookies()) > 0 {
			t.Errorf("%.60s: %d %s, want %s", body, w.Code, w.Body, reason)
		}
	}
	if w := c.ask(http.MethodPost, "/console/session", `{"username":"careful","password":"careful","otp":"123456"}`); w.Code != http.StatusOK {
		t.Errorf("second factor: %d %s", w.Code, w.Body)
	}
}

// TestConsoleTabs has several tabs refresh with one cookie at the same time. All succeed, and the
// login continues with the last answer.
func TestConsoleTabs(t *testing.T) {
	c := newConsoleClient(t, newConsole(t, nil).handler)
	c.begin()
	for range 5 {
		before := maps.Clone(c.cookies)
		for range 4 {
			c.cookies = maps.Clone(before)
			c.refresh()
		}
	}
}

// TestConsoleOverTLS checks that the cookie is limited to HTTPS where browsers use it, and behind a
// proxy that terminates TLS.
func TestConsoleOverTLS(t *testing.T) {
	for name, change := range map[string]func(*rest.Config){
		"TLS":   func(c *rest.Config) { c.Secure = web.HostHTTPS },
		"proxy": func(c *rest.Config) { c.PublicURL = func() string { return "https://api.broker.example" } },
	} {
		c := newConsoleClient(t, newConsole(t, change).handler)
		c.host, c.scheme = "api.broker.example", "https"
		w := c.ask(http.MethodPost, "/console/session", loginBody)
		c.granted(w)
		if cookie := w.Result().Cookies()[0]; cookie.Name != "__Host-rueda_console" || cookie.Path != "/" || cookie.Domain != "" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
			t.Errorf("%s: cookie %v", name, cookie)
		}
		c.refresh()
		c.scheme = "http"
		wantError(t, name, c.tryRefresh(c.session), http.StatusForbidden, "forbidden")
		// The cookie of a program of before goes on, and is replaced.
		c.scheme = "https"
		c.cookies = map[string]string{"__Secure-rueda_console": c.cookies["__Host-rueda_console"]}
		c.refresh()
		if len(c.cookies) != 1 || c.cookies["__Host-rueda_console"] == "" {
			t.Errorf("%s: cookies %v", name, c.cookies)
		}
	}
}

// TestConsoleLogout checks that a logout ends the login that it names, or says that it has not.
func TestConsoleLogout(t *testing.T) {
	h := newConsole(t, nil).handler
	other := newConsoleClient(t, h)
	other.begin()
	for name, prepare := range map[string]func(c *consoleClient) (header []string){
		"cookie": func(*consoleClient) []string { return nil },
		"behind planted cookies": func(c *consoleClient) []string {
			for i := range 30 {
				c.planted = append(c.planted, fmt.Sprintf("rueda_console=x%d.rt1_junk%d", i, i))
			}
			return nil
		},
		"cookie of another login": func(c *consoleClient) []string {
			c.planted = []string{"rueda_console=" + other.cookies["rueda_console"]}
			return nil
		},
		"access token alone": func(c *consoleClient) []string {
			clear(c.cookies)
			return []string{"Authorization", "Bearer " + c.begin().Access, "Cookie", "-"}
		},
	} {
		c := newConsoleClient(t, h)
		c.begin()
		header := prepare(c)
		session := c.session
		access := ""
		if header == nil {
			access = c.refresh().Access
		} else {
			access = strings.TrimPrefix(header[1], "Bearer ")
		}
		if w := c.end(session, header...); w.Code != http.StatusOK || c.valid(access) {
			t.Errorf("%s: %d %s, and the login goes on: %v", name, w.Code, w.Body, c.valid(access))
		}
	}
	if !other.valid(other.refresh().Access) {
		t.Error("the other login has ended")
	}
	// Nothing of the request belongs to the login.
	for name, header := range map[string][]string{
		"no cookie":                    {"Cookie", "-"},
		"another one's access token":   {"Cookie", "-", "Authorization", "Bearer " + other.refresh().Access},
		"another one's cookie and id":  {"Cookie", "rueda_console=" + other.cookies["rueda_console"]},
		"this id, another one's token": {"Cookie", "rueda_console=ID." + strings.SplitN(other.cookies["rueda_console"], ".", 2)[1]},
	} {
		c := newConsoleClient(t, h)
		access := c.begin().Access
		for i := range header {
			header[i] = strings.Replace(header[i], "ID", c.session, 1)
		}
		w := c.end(c.session, header...)
		wantError(t, name, w, http.StatusConflict, "conflict")
		if !c.valid(access) || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: the login has ended", name)
		}
	}
	if !other.valid(other.refresh().Access) {
		t.Error("the other login has ended")
	}
	// A page of a program of before names no login.
	old := newConsoleClient(t, h)
	access := old.begin().Access
	if w := old.ask(http.MethodDelete, "/console/session", ""); w.Code != http.StatusOK || old.valid(access) {
		t.Errorf("without a body: %d %s", w.Code, w.Body)
	}
}

// TestConsoleIdle checks that a login of the console that is not renewed ends.
func TestConsoleIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsoleClient(t, newConsole(t, nil).handler)
		c.begin()
		for range 5 {
			time.Sleep(11 * time.Hour)
			c.refresh()
		}
		access := c.refresh().Access
		time.Sleep(12*time.Hour + time.Second)
		if c.valid(access) {
			t.Error("the access token is valid")
		}
		wantError(t, "an idle login", c.tryRefresh(c.session), http.StatusUnauthorized, "invalid_refresh_token")
	})
}

// TestConsoleOff checks that a gateway without the console has none of its routes.
func TestConsoleOff(t *testing.T) {
	c := newConsoleClient(t, newConsole(t, func(c *rest.Config) { c.Console = nil }).handler)
	for _, route := range [][2]string{{"POST", "/console/session"}, {"POST", "/console/session/refresh"}, {"DELETE", "/console/session"}, {"GET", "/console/config"}} {
		wantError(t, route[1], c.ask(route[0], route[1], ""), http.StatusNotFound, "not_found")
	}
}

// TestConsoleConfig checks what anyone learns about the gateway.
func TestConsoleConfig(t *testing.T) {
	c := newConsoleClient(t, newConsole(t, nil).handler)
	w := c.ask(http.MethodGet, "/console/config", "", "X-Rueda-Console", "-")
	if want := `{"success":true,"data":{"dev":true,"hint":{"username":"demo","password":"demo"}}}` + "\n"; w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestThreat49CrossSiteSession sends requests for the session as pages of other sites can, with the
// cookie, as an old browser would attach it. None has an effect.
func TestThreat49CrossSiteSession(t *testing.T) {
	g := newConsole(t, func(c *rest.Config) { c.Hosts = []string{"api.broker.example"} })
	c := newConsoleClient(t, g.handler)
	session := c.begin()
	cookies := maps.Clone(c.cookies)
	forms := map[string][]string{
		"form without the header":   {"X-Rueda-Console", "-"},
		"another value":             {"X-Rueda-Console", "2"},
		"no Origin":                 {"Origin", "-"},
		"another origin":            {"Origin", "https://evil.example"},
		"opaque origin":             {"Origin", "null"},
		"sibling domain":            {"Origin", "http://evil.127.0.0.1:8080"},
		"another port":              {"Origin", "http://127.0.0.1:8081"},
		"longer host":               {"Origin", "http://127.0.0.1:80801"},
		"path in the origin":        {"Origin", "http://127.0.0.1:8080/"},
		"cross-site":                {"Sec-Fetch-Site", "cross-site"},
		"same site, other origin":   {"Sec-Fetch-Site", "same-site"},
		"typed by the user":         {"Sec-Fetch-Site", "none"},
		"an origin that is allowed": {"Origin", "https://app.example.com"},
	}
	for name, header := range forms {
		for _, route := range [][3]string{
			{"POST", "/console/session", loginBody},
			{"POST", "/console/session/refresh", fmt.Sprintf(`{"session":%q}`, session.Session)},
			{"DELETE", "/console/session", ""},
		} {
			w := c.ask(route[0], route[1], route[2], header...)
			wantError(t, name+" to "+route[1], w, http.StatusForbidden, "forbidden")
			if len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "access_token") {
				t.Errorf("%s: %v %s", name, w.Header(), w.Body)
			}
		}
	}
	// A page whose name was made to resolve to the gateway.
	c.host = "evil.example:8080"
	wantError(t, "rebinding", c.tryRefresh(session.Session), http.StatusForbidden, "forbidden")
	c.host = "127.0.0.1:8080"
	// Bodies that forms can send.
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		w := c.ask("POST", "/console/session", loginBody, "Content-Type", media)
		wantError(t, media, w, http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	// A preflight of another origin, also of one whose pages may use the rest of the API.
	open := newConsoleClient(t, newConsole(t, func(c *rest.Config) { c.Origins = []string{"https://app.example.com", "http://127.0.0.1:8080"} }).handler)
	w := open.ask("OPTIONS", "/console/session", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "x-rueda-console", "X-Rueda-Console", "-")
	if allowed := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers")); strings.Contains(allowed, "x-rueda-console") || w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("a preflight is answered with %v", w.Header())
	}
	wantError(t, "a page of an allowed origin", open.ask("POST", "/console/session", loginBody, "Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site"),
		http.StatusForbidden, "forbidden")
	// The login is what it was.
	c.cookies = cookies
	if !c.valid(session.Access) || !c.valid(c.refresh().Access) {
		t.Error("a request of another page has ended the login")
	}
}

// TestThreat50PlantedCookie has a page of a sibling domain set the cookie of an attacker's login in
// the browser of a victim. The console does not continue that login, and the victim's own stays.
func TestThreat50PlantedCookie(t *testing.T) {
	g := newConsole(t, nil)
	attacker := newConsoleClient(t, g.handler)
	attacker.granted(attacker.ask(http.MethodPost, "/console/session", `{"username":"basic","password":"basic"}`))
	planted := "rueda_console=" + attacker.cookies["rueda_console"]

	// A visitor without a login: the page knows no session, and names none.
	visitor := newConsoleClient(t, g.handler)
	visitor.planted = []string{planted}
	for _, body := range []string{`{"session":""}`, `{}`, `{"session":null}`, `{"session":"other"}`, `{"session":["` + attacker.session + `"]}`} {
		if w := visitor.ask(http.MethodPost, "/console/session/refresh", body); w.Code == http.StatusOK || strings.Contains(w.Body.String(), "access_token") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	// A login begins with a new session, whatever the cookie is.
	if s := visitor.begin(); s.Session == attacker.session || !strings.Contains(visitor.cookies["rueda_console"], s.Session) {
		t.Errorf("the login continues %s", attacker.session)
	}
	// The victim's login goes on next to the planted cookie, whichever comes first.
	own := visitor.session
	for range 3 {
		if s := visitor.refresh(); s.Session != own {
			t.Fatalf("the session became %s", s.Session)
		}
	}
	// A cookie that claims the victim's session with the attacker's token.
	_, token, _ := strings.Cut(attacker.cookies["rueda_console"], ".")
	forged := newConsoleClient(t, g.handler)
	forged.cookies["rueda_console"] = own + "." + token
	wantError(t, "a forged cookie", forged.tryRefresh(own), http.StatusUnauthorized, "invalid_refresh_token")
	wantError(t, "the attacker's session", forged.tryRefresh(attacker.session), http.StatusUnauthorized, "invalid_refresh_token")
	// That was no use of the attacker's token.
	attacker.refresh()
	// Cookies that are no tokens.
	for _, value := range []string{"", ".", own, own + ".", own + ".rt1_x", strings.Repeat("x", 4000), own + "." + strings.Repeat("a", 3000)} {
		forged.cookies["rueda_console"] = value
		if w := forged.tryRefresh(own); w.Code == http.StatusOK || w.Code >= 500 {
			t.Errorf("cookie %.40q: %d %s", value, w.Code, w.Body)
		}
	}
	// A flood of cookies of a sibling domain keeps nobody from logging out.
	for range 20 {
		visitor.planted = append(visitor.planted, "rueda_console=x.y")
	}
	if w := visitor.end(own); w.Code != http.StatusOK {
		t.Errorf("logout: %d %s", w.Code, w.Body)
	}
	wantError(t, "refresh after the logout", visitor.tryRefresh(own), http.StatusUnauthorized, "invalid_refresh_token")
}

// TestConsoleLimits checks that the routes of the console count with those of other logins.
func TestConsoleLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConsole(t, nil)
		c := newConsoleClient(t, g.handler)
		limited := 0
		for i := range 60 {
			w := c.ask(http.MethodPost, "/console/session", fmt.Sprintf(`{"username":"user%d","password":"wrong"}`, i))
			if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "" {
				limited++
			}
		}
		if limited < 30 {
			t.Errorf("%d of 60 wrong passwords were refused", limited)
		}
		if w := c.ask(http.MethodPost, "/auth/token", `{"grant_type":"password","username":"zoe","password":"wrong"}`); w.Code != http.StatusTooManyRequests {
			t.Errorf("another route: %d %s", w.Code, w.Body)
		}
	})
}

// TestConsoleLogoutOfNeighbours checks that invented sessions that clients of an address end do not
// keep a user there from logging out, and that a token has a limit too.
func TestConsoleLogoutOfNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConsole(t, nil)
		neighbour, user := newConsoleClient(t, g.handler), newConsoleClient(t, g.handler)
		count := func(c *consoleClient, session string) (codes map[int]int) {
			codes = map[int]int{}
			for range 125 {
				codes[c.end(session).Code]++
			}
			return codes
		}
		neighbour.planted = []string{"rueda_console=x.rt1_invented"}
		if codes := count(neighbour, "x"); codes[http.StatusTooManyRequests] == 0 {
			t.Errorf("invented: %v", codes)
		}
		for _, header := range [][]string{nil, {"Cookie", "-"}} {
			s := user.begin()
			if header != nil {
				header = append(header, "Authorization", "Bearer "+s.Access)
			}
			if w := user.end(s.Session, header...); w.Code != http.StatusOK {
				t.Errorf("%v: %d %s", header, w.Code, w.Body)
			}
		}
		user.begin()
		if codes := count(user, "x"); codes[http.StatusTooManyRequests] == 0 {
			t.Errorf("a token: %v", codes)
		}
	})
}
