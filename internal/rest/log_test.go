package rest_test

import (
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
			codes[ask(t, g.plain, "GET", "/nowhere", "").Code]++
			codes[ask(t, g.plain, "GET", "/market/markets", "", "Authorization", "Bearer x").Code]++
		}
		if lines := strings.Count(g.log.String(), "\n") - before; lines > 100 {
			t.Errorf("%d lines in the log after 10,000 refused requests", lines)
		}
		if codes[http.StatusNotFound] > 700 || codes[http.StatusTooManyRequests] < 8000 {
			t.Errorf("answers %v", codes)
		}
		if !strings.Contains(g.log.String(), "refused requests not logged") {
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
