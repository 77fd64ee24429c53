package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// TestRebinding checks that a page whose name was made to resolve to the gateway can use no route,
// even if its Origin is the Host of its request.
func TestRebinding(t *testing.T) {
	g := newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Hosts, c.Origins = []string{"api.broker.example"}, nil })
	ask := func(host, method, path string) *httptest.ResponseRecorder {
		body := ""
		if method == http.MethodPost {
			body = `{"grant_type":"password","username":"demo","password":"demo"}`
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "http://"+host)
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, r)
		return w
	}
	for host, allowed := range map[string]bool{
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "api.broker.example.evil.example": false,
		"127.0.0.1.evil.example": false, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true, "localhost": true, "LOCALHOST:8080": true,
		"api.broker.example": true, "API.broker.example.:443": true,
	} {
		for _, route := range []struct{ method, path string }{{"POST", "/auth/token"}, {"GET", "/.well-known/jwks.json"}, {"OPTIONS", "/auth/token"}} {
			w := ask(host, route.method, route.path)
			if refused := w.Code == http.StatusForbidden; refused == allowed {
				t.Errorf("%s %s of %s: %d %s", route.method, route.path, host, w.Code, w.Body)
			}
			if !allowed && (w.Header().Get("Access-Control-Allow-Origin") != "" || strings.Contains(w.Body.String(), "token\"")) {
				t.Errorf("%s %s of %s: %v %s", route.method, route.path, host, w.Header(), w.Body)
			}
		}
		r := httptest.NewRequest("GET", "/livez", nil) // as a probe asks, without an Origin
		r.Host = host
		w := httptest.NewRecorder()
		if g.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("a probe of %s: %d", host, w.Code)
		}
	}
}
