package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAddressOfGateway(t *testing.T) {
	for address, stream := range map[string]string{
		"http://127.0.0.1:8080":            "ws://127.0.0.1:8080/stream",
		"http://localhost:8080/":           "ws://localhost:8080/stream",
		"http://[::1]:8080":                "ws://[::1]:8080/stream",
		"https://api.broker.example/v1":    "wss://api.broker.example/v1/stream",
		"ws://127.0.0.1:8080":              "ws://127.0.0.1:8080/stream",
		"ws://127.0.0.1:8080/stream":       "ws://127.0.0.1:8080/stream",
		"wss://api.broker.example/stream/": "wss://api.broker.example/stream",
		"ws://api.broker.example":          "",
		"http://api.broker.example":        "",
		"http://127.evil.example":          "",
		"https://ana:x@broker.example":     "",
		"127.0.0.1:8080":                   "",
		"ftp://127.0.0.1":                  "",
	} {
		a, err := New(address, "test")
		if (err == nil) != (stream != "") || err == nil && a.Stream() != stream {
			t.Errorf("%s: %v, want %q", address, err, stream)
		}
	}
}

func TestAddressWithoutScheme(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080":           "http://127.0.0.1:8080",
		"localhost:8080":           "http://localhost:8080",
		"api.broker.example":       "https://api.broker.example",
		"ftp://api.broker.example": "Use an address like",
	} {
		_, err := New(address, "test")
		var bad *AddressError
		if !errors.As(err, &bad) || !strings.Contains(bad.Advice, want) {
			t.Errorf("%s: %v, want advice of %s", address, err, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	for i, most := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		if wait := b.Next(nil); wait < 0 || wait >= most {
			t.Errorf("pause %d is %v, not under %v", i, wait, most)
		}
	}
	if wait := b.Next(&ResponseError{Wait: time.Hour}); wait < time.Hour {
		t.Errorf("paused %v where the server asked for an hour", wait)
	}
}

// TestRedirects checks that a redirect sends no password, token or handshake to another address.
func TestRedirects(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer proxy.Close()
	a, err := New(proxy.URL, "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, login := a.Login(ctx, "ana", "a password", "")
	_, refresh := a.Refresh(ctx, "a token")
	_, get := a.Get("a token")(ctx, "/market/markets")
	_, dial := a.Dial(ctx)
	for what, err := range map[string]error{"login": login, "refresh": refresh, "get": get, "dial": dial} {
		var refused *ResponseError
		if !errors.As(err, &refused) || refused.Status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
