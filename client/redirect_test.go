package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRedirects checks that a redirect sends no password, token or handshake to another address.
func TestRedirects(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer proxy.Close()
	c, err := New([]string{proxy.URL}, Options{Username: "ana", Password: "a password"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Login(t.Context()); err == nil || !strings.Contains(err.Error(), "the server answered 307") {
		t.Errorf("a login: %v", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.socket.Do(r)
	if err != nil || answer.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("a handshake: %v, %v", answer, err)
	}
	if err == nil {
		_ = answer.Body.Close()
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
