package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// from sends a request as a client of an address.
func from(t *testing.T, h http.Handler, peer, method, path, media, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = peer
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantLimit checks that both forms of the limit's header fields agree.
func wantLimit(t *testing.T, h http.Header, policy string, quota, window, remaining, reset int) {
	t.Helper()
	for name, want := range map[string]string{
		"RateLimit-Policy": fmt.Sprintf(`"%s";q=%d;w=%d`, policy, quota, window), "RateLimit": fmt.Sprintf(`"%s";r=%d;t=%d`, policy, remaining, reset),
		"X-RateLimit-Limit": fmt.Sprint(quota), "X-RateLimit-Remaining": fmt.Sprint(remaining), "X-RateLimit-Reset": fmt.Sprint(reset),
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestLimitsWithoutToken checks that routes without a token are limited by address, and IPv6
// clients by /64.
func TestLimitsWithoutToken(t *testing.T) {
	for _, tt := range []struct {
		method, path, media, body string
		limit                     int
	}{
		{"GET", "/.well-known/jwks.json", "", "", 600},
		{"GET", "/.well-known/oauth-authorization-server", "", "", 600},
		{"POST", "/auth/revoke", "application/json", `{"token":"x"}`, 120},
		{"POST", "/oauth/revoke", "application/x-www-form-urlencoded", "token=x", 120},
	} {
		t.Run(tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t, func(c *rest.Config, _ *auth.Config) {
					c.PublicURL = func() string { return "https://api.broker.example" }
				})
				ask := func(peer string) *httptest.ResponseRecorder {
					return from(t, g.handler, peer, tt.method, tt.path, tt.media, tt.body)
				}
				for i := range tt.limit {
					w := ask(fmt.Sprintf("[2001:db8::%x]:4711", i))
					if w.Code != http.StatusOK {
						t.Fatalf("request %d: %d", i, w.Code)
					}
					if i == 0 {
						wantLimit(t, w.Header(), "address", tt.limit, 60, tt.limit-1, 1)
					}
				}
				w := ask("[2001:db8::ffff]:4711")
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
					t.Errorf("over the limit: %d, Retry-After %s", w.Code, w.Header().Get("Retry-After"))
				}
				wantLimit(t, w.Header(), "address", tt.limit, 60, 0, 60)
				if tt.path == "/oauth/revoke" && !strings.Contains(w.Body.String(), `"error":"slow_down"`) {
					t.Errorf("over the limit: %s", w.Body)
				}
				if w := ask("[2001:db8:0:1::1]:4711"); w.Code != http.StatusOK {
					t.Errorf("the neighbour: %d", w.Code)
				}
			})
		})
	}
}

// TestRevocationsOfNeighbours checks that revocations of invented tokens keep nobody at the address
// from ending a login.
func TestRevocationsOfNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		access, _ := g.login(t, "demo")
		_, refresh := g.login(t, "demo")
		revoke := func(token string) int {
			return from(t, g.handler, "192.0.2.7:4711", "POST", "/auth/revoke", "application/json", fmt.Sprintf(`{"token":%q}`, token)).Code
		}
		for range 120 {
			revoke("invented")
		}
		if got := revoke("invented"); got != http.StatusTooManyRequests {
			t.Errorf("over the limit: %d", got)
		}
		for i := range 121 {
			want := http.StatusOK
			if i == 120 {
				want = http.StatusTooManyRequests
			}
			if got := revoke(refresh); got != want {
				t.Errorf("the same refresh token, %d times: %d", i+1, got)
			}
		}
		if got := revoke(access); got != http.StatusOK {
			t.Errorf("an access token: %d", got)
		}
	})
}

// TestLimitsOfGrants checks that the token endpoints send the failures that an address has left.
// Successful logins do not count.
func TestLimitsOfGrants(t *testing.T) {
	for path, encode := range map[string]func(user, password string) (media, body string){
		"/auth/token": func(user, password string) (string, string) {
			return "application/json", fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, user, password)
		},
		"/oauth/token": func(user, password string) (string, string) {
			return "application/x-www-form-urlencoded", "grant_type=password&username=" + user + "&password=" + password
		},
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t, nil)
				login := func(user, password string) *httptest.ResponseRecorder {
					media, body := encode(user, password)
					return from(t, g.handler, "192.0.2.7:4711", "POST", path, media, body)
				}
				wantLimit(t, login("demo", "demo").Header(), "address", 20, 120, 20, 0)
				for i := range 20 {
					w := login(fmt.Sprintf("nobody%d", i), "x")
					if w.Code == http.StatusTooManyRequests {
						t.Fatalf("failure %d: %s", i, w.Body)
					}
					wantLimit(t, w.Header(), "address", 20, 120, 19-i, 6*(i+1))
				}
				w := login("nobody", "x")
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "6" {
					t.Errorf("over the limit: %d, Retry-After %s", w.Code, w.Header().Get("Retry-After"))
				}
				wantLimit(t, w.Header(), "address", 20, 120, 0, 120)
			})
		})
	}
}
