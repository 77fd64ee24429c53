//go:build unix

package hostile

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// adminToken is the token of an operator who may change users.
const adminToken = "a token of an operator for the tests of hostile inputs"

// operators returns the lines of the file of the operators' tokens.
func operators() string {
	return "ops " + hashOf(adminToken) + " identity\nreader " + hashOf(adminToken+"r") + " read\n"
}

// admin sends a request to the administrator's listener.
func (a *attacker) admin(method, target, body, token string, headers ...string) *reply {
	a.Helper()
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from())}}
	nc, err := d.Dial("tcp", strings.TrimSpace(a.ask(a, "admin")))
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	if token != "" {
		headers = append(headers, "Authorization", "Bearer "+token)
	}
	if body != "" {
		headers = append(headers, "Content-Type", asJSON)
	}
	r, err := roundTrip(nc, method, target, body, headers...)
	if err != nil {
		a.Fatalf("%s %.60s: %v", method, target, err)
	}
	if r.status >= 500 && r.status != http.StatusNotImplemented {
		a.Errorf("%s %.60s: status %d: %s", method, target, r.status, r.body)
	}
	return r
}

// bodies sends bodies to a path and checks the answers.
func (a *attacker) bodies(path string, status int, reason string, bodies ...string) {
	a.Helper()
	for _, b := range bodies {
		a.want(fmt.Sprintf("%s %.60q", path, b), a.request(http.MethodPost, path, b, "Content-Type", asJSON), status, reason)
	}
}

// malformed returns bodies that no route accepts.
func malformed() []string {
	return []string{
		"", "null", "[]", `"x"`, "{", "{}", `{"action":1}`, `{"username":"ana","username":"ana"}`, "\ufeff{}", `{"x":"\ud800"}`,
		`{"x":` + strings.Repeat("[", 3_900) + strings.Repeat("]", 3_900) + "}", "{}{}",
	}
}

// routeInputs returns the inputs of the routes with which users change what they log in with, and
// of the documents.
func routeInputs() []input {
	change := func(name, password, next string) string {
		b, _ := json.Marshal(map[string]string{"username": name, "password": password, "new_password": next})
		return string(b)
	}
	const bad = "invalid_credentials"
	return []input{
		{121, "malformed changes of a password", func(a *attacker) { a.bodies("/auth/password", 400, "", malformed()...) }},
		{122, "malformed actions on a second factor", func(a *attacker) { a.bodies("/auth/otp", 400, "", malformed()...) }},
		{123, "body of 9 KiB for a change", func(a *attacker) {
			for _, path := range []string{"/auth/password", "/auth/otp"} {
				a.bodies(path, 413, "body_too_big", change("user1", passwordOf("user1"), "next one")+strings.Repeat(" ", 9<<10))
			}
		}},
		{124, "a change as a form, as a page of another site sends it", func(a *attacker) {
			for _, path := range []string{"/auth/password", "/auth/otp"} {
				form := "username=user1&password=x&new_password=y&action=disable"
				a.want("form", a.request(http.MethodPost, path, form, "Content-Type", "application/x-www-form-urlencoded"), 415, "")
				body := change("user1", passwordOf("user1"), "chosen by a page")
				a.want("page", a.request(http.MethodPost, path, body, "Content-Type", asJSON, "Origin", "https://evil.test"), 403, "")
			}
			a.login("user1")
		}},
		{125, "a token instead of the password", func(a *attacker) {
			token := a.token("ana")
			for _, b := range []string{`{"new_password":"chosen with a token"}`, change("ana", "", "chosen with a token"), change("ana", token, "chosen with a token")} {
				r := a.request(http.MethodPost, "/auth/password", b, "Content-Type", asJSON, "Authorization", "Bearer "+token)
				if r.status != 400 && r.status != 401 {
					a.Errorf("%.60q with a token: %d %s", b, r.status, r.body)
				}
			}
			a.login("ana")
		}},
		{126, "50 wrong changes at the same time", func(a *attacker) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					r := a.request(http.MethodPost, "/auth/password", change("user2", "wrong", "a new password, long"), "Content-Type", asJSON)
					if r.status != 401 && r.status != 429 && r.status != 503 {
						a.Errorf("wrong: %d %s", r.status, r.body)
					}
				})
			}
			all.Wait()
		}},
		{127, "users that do not exist, and forged enrolments", func(a *attacker) {
			a.bodies("/auth/password", 401, bad, change("nobody at all", "wrong", "a new password, long"))
			a.bodies("/auth/otp", 401, "", `{"action":"enrol","username":"nobody at all","password":"wrong"}`)
			for _, e := range []string{"x", "''; DROP TABLE users", strings.Repeat("A", 4000), a.token("ana"), "\u0000"} {
				b, _ := json.Marshal(map[string]string{"action": "confirm", "enrolment": e, "otp": "123456"})
				r := a.request(http.MethodPost, "/auth/otp", string(b), "Content-Type", asJSON)
				if r.status != 400 && r.status != 401 {
					a.Errorf("enrolment %.30q: %d %s", e, r.status, r.body)
				}
			}
		}},
		{128, "bad new passwords", func(a *attacker) {
			for _, next := range []string{"short", strings.Repeat("p", 1025), "password", ""} {
				r := a.request(http.MethodPost, "/auth/password", change("user3", passwordOf("user3"), next), "Content-Type", asJSON)
				if r.status != 400 && r.status != 422 {
					a.Errorf("new password %.20q: %d %s", next, r.status, r.body)
				}
			}
			a.login("user3")
		}},
		{129, "paths of pages of reasons", func(a *attacker) {
			for _, p := range []string{"..", "%2e%2e%2fetc%2fpasswd", "<script>alert(1)<%2fscript>", strings.Repeat("x", 5000), "%00", "FORBIDDEN", "forbidden%20"} {
				r := a.request(http.MethodGet, "/docs/reasons/"+p, "")
				if r.status != 404 && r.status != 400 || strings.Contains(string(r.body), "<script>") {
					a.Errorf("reason %.40q: %d %.200s", p, r.status, r.body)
				}
			}
			for _, p := range []string{"/docs/reasons/forbidden/", "/docs//evil.example/", "/docs/%2f%2fevil.example/", "/docs/..//evil.example/"} {
				r := a.request(http.MethodGet, p, "")
				if to := r.header.Get("Location"); to != "" && (to[0] != '/' || strings.HasPrefix(to, "//") || strings.Contains(to, `\`)) || r.status >= 500 {
					a.Errorf("%s: %d, to %q", p, r.status, to)
				}
			}
		}},
		{130, "documents with ranges, tags and bodies", func(a *attacker) {
			for _, p := range []string{"/openapi.json", "/asyncapi.json", "/docs/reasons"} {
				tags := strings.Repeat(`"x", `, 1500) + `"y"`
				a.want(p, a.request(http.MethodGet, p, "", "If-None-Match", tags, "Range", "bytes=0-0,1-1,2-2", "Accept-Encoding", "gzip;q=9, *;q=x"), 200, "")
				a.want(p, a.request(http.MethodPost, p, "{}", "Content-Type", asJSON), 405, "")
				a.want(p, a.request(http.MethodGet, p, "", "Accept", "image/png"), 406, "")
			}
		}},
	}
}

// adminInputs returns the inputs of the administrator's listener.
func adminInputs() []input {
	const user = "/admin/users/us_of_nobody"
	return []input{
		{131, "no operator", func(a *attacker) {
			for _, token := range []string{"", "x", a.token("ana"), adminToken + "x", hashOf(adminToken), strings.Repeat("x", 7000)} {
				for _, p := range []string{"/admin/users", user, user + "/sessions", "/metrics"} {
					if r := a.admin(http.MethodGet, p, "", token); r.status != 401 && r.status != 400 && r.status != 404 && r.status != 429 {
						a.Errorf("%s with token %.20q: %d", p, token, r.status)
					}
				}
			}
		}},
		{132, "a role that does not suffice", func(a *attacker) {
			a.want("list", a.admin(http.MethodGet, "/admin/users", "", adminToken+"r"), 403, "forbidden")
			a.want("change", a.admin(http.MethodPost, user, `{"action":"disable"}`, adminToken+"r"), 403, "forbidden")
			a.want("end", a.admin(http.MethodDelete, user+"/sessions", "", adminToken+"r"), 403, "forbidden")
		}},
		{133, "malformed changes of a user", func(a *attacker) {
			id := a.idOf("user4")
			for _, b := range append(malformed()[1:], `{"action":"grant_everything"}`, `{"action":"set_expiry"}`, `{"action":"set_expiry","expires_at":"soon"}`,
				`{"action":"set_expiry","expires_at":"9999999-01-01T00:00:00Z"}`, `{"action":"set_networks","networks":"all"}`,
				`{"action":"set_networks","networks":["10.0.0.1/8","x"]}`, `{"action":"join_group","group":"a\u0000b"}`, `{"action":"join_group","group":{}}`) {
				if r := a.admin(http.MethodPost, "/admin/users/"+id, b, adminToken); r.status != 400 && r.status != 422 {
					a.Errorf("%.60q: %d %.200s", b, r.status, r.body)
				}
			}
			a.want("too big", a.admin(http.MethodPost, "/admin/users/"+id, `{"action":"disable"}`+strings.Repeat(" ", 9<<10), adminToken), 413, "body_too_big")
			a.login("user4")
		}},
		{134, "names of users and cursors", func(a *attacker) {
			for _, q := range []string{"name=%27%20OR%201%3D1--", "name=%00", "name=" + strings.Repeat("x", 4000), "cursor=dQA", "cursor=!!", "cursor=" + strings.Repeat("A", 2000),
				"limit=-1", "limit=1000000", "limit=1e3", "role=identity", "name=%ff"} {
				r := a.admin(http.MethodGet, "/admin/users?"+q, "", adminToken)
				if r.status != 400 && r.status != 200 || strings.Contains(string(r.body), `"ana"`) {
					a.Errorf("%.60s: %d %.200s", q, r.status, r.body)
				}
			}
			for _, p := range []string{"..%2f..", "%00", "us_of_nobody'--", strings.Repeat("u", 4000), "%ff"} {
				if r := a.admin(http.MethodGet, "/admin/users/"+p, "", adminToken); r.status != 404 && r.status != 400 {
					a.Errorf("user %.40s: %d", p, r.status)
				}
			}
		}},
		{135, "a page that reaches the listener", func(a *attacker) {
			r := a.admin(http.MethodPost, user, `{"action":"disable"}`, adminToken, "Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "cross-site")
			a.want("page", r, 403, "")
			if r := a.admin(http.MethodOptions, "/admin/users", "", "", "Origin", "https://evil.test", "Access-Control-Request-Method", "GET"); r.header.Get("Access-Control-Allow-Origin") != "" {
				a.Errorf("preflight: %v", r.header)
			}
		}},
		{136, "the administrator's routes on the clients' port", func(a *attacker) {
			for _, p := range []string{"/admin/users", user, "/admin/openapi.json", "/oauth/introspect", "/metrics"} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					a.want(p, a.request(method, p, "", "Authorization", "Bearer "+adminToken), 404, "")
				}
			}
		}},
	}
}

// idOf returns the id of a user.
func (a *attacker) idOf(name string) string {
	a.Helper()
	r := a.admin(http.MethodGet, "/admin/users?name="+name, "", adminToken)
	list, _ := r.data["users"].([]any)
	if len(list) != 1 {
		a.Fatalf("user %s: %d %s", name, r.status, r.body)
	}
	row, _ := list[0].(map[string]any)
	id, _ := row["id"].(string)
	return id
}
