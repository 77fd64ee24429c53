package rest_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestThreat17LogFlood sends many requests without a login: they neither fill the log nor are they
// all answered. Requests of users are logged all the same.
func TestThreat17LogFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, so that no allowance grows
		g := newGateway(t, nil)
		access, _ := g.login(t, "demo")
		ask(t, g.handler, "GET", "/market/markets", "", "Authorization", "Bearer "+access) // the token is known now
		before := strings.Count(g.log.String(), "\n")
		codes := map[int]int{}
		for range 5000 {
			ask(t, g.plain, "OPTIONS", "/auth/token", "")
			ask(t, g.plain, "GET", "/.well-known/jwks.json", "")
			codes[ask(t, g.plain, "GET", "/nowhere", "").Code]++
			codes[ask(t, g.plain, "GET", "/market/markets", "", "Authorization", "Bearer x").Code]++
		}
		if lines := strings.Count(g.log.String(), "\n") - before; lines > 100 {
			t.Errorf("%d lines in the log after 20,000 requests without a login", lines)
		}
		if codes[http.StatusNotFound] > 700 || codes[http.StatusTooManyRequests] < 8000 {
			t.Errorf("answers %v", codes)
		}
		if !strings.Contains(g.log.String(), "requests without a user not logged") {
			t.Error("the log does not say that requests were left out")
		}
		before = strings.Count(g.log.String(), "\n")
		for range 50 {
			ask(t, g.handler, "GET", "/market/markets", "", "Authorization", "Bearer "+access)
		}
		if lines := strings.Count(g.log.String(), "\n") - before; lines != 50 {
			t.Errorf("%d lines for 50 requests of a user", lines)
		}
	})
}

// TestThreat17LogFloodOfBadRequests checks that requests that net/http refuses do not fill the log.
func TestThreat17LogFloodOfBadRequests(t *testing.T) {
	g := newGateway(t, nil)
	address := g.serve(t)
	const sent = 300
	for range sent {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost : x\r\n\r\n")
		if _, err := io.Copy(io.Discard, nc); err != nil {
			t.Error(err)
		}
		_ = nc.Close()
	}
	// A slow machine may take some minutes, each of which has sixty lines.
	lines := strings.Count(g.log.String(), "request not understood")
	if lines == 0 || lines > sent*3/4 {
		t.Errorf("%d lines in the log about %d requests", lines, sent)
	}
}
