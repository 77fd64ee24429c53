package rest_test

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/socket"
)

// connect opens a connection of the stream with a token; "": it sends none.
func (s *streaming) connect(address, token, name string) *socket.LocalConn {
	s.t.Helper()
	c, err := s.sockets.Open(netip.MustParseAddr(address))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		c.Send([]byte(`{"action":"auth_token","token":"` + token + `","session":"` + name + `"}`))
	}
	return c
}

// ended reads a connection to its end, and returns what was sent.
func ended(t *testing.T, c *socket.LocalConn) string {
	t.Helper()
	var all strings.Builder
	for {
		b, err := c.Next(t.Context(), time.Now().Add(time.Second))
		all.Write(b)
		if errors.Is(err, io.EOF) || strings.HasSuffix(all.String(), "overloaded") {
			c.Close()
			return all.String()
		}
		if err != nil {
			t.Fatalf("%v after %q", err, all.String())
		}
	}
}

// withConnections runs f with connections of ana, two of demo, and one without authentication.
func withConnections(t *testing.T, f func(g *identityGateway, ana, first, second, silent *socket.LocalConn)) {
	t.Helper()
	withStream(t, nil, func(s *streaming) {
		g := newOperatedGateway(s.t, s.gateway, func(c *rest.AdminConfig) { c.Stream = s.sockets })
		anas, _ := s.login(s.t, "basic")
		demos, _ := s.login(s.t, "demo")
		silent := s.connect("192.0.2.9", "", "")
		defer silent.Close()
		ana := s.connect("192.0.2.1", anas, "bot")
		first, second := s.connect("2001:db8::1", demos, "one"), s.connect("192.0.2.3", demos, "two")
		for _, c := range []*socket.LocalConn{ana, first, second} {
			defer c.Close()
		}
		ana.Send([]byte(`{"action":"subscribe","quotes":["GGAL|BYMA|24hs"],"snapshot":false}`))
		synctest.Wait()
		f(g, ana, first, second, silent)
		synctest.Wait()
	})
}

// listed returns the connections of a list.
func listed(t *testing.T, answer map[string]any) (list []map[string]any) {
	t.Helper()
	for _, row := range answer["connections"].([]any) {
		list = append(list, row.(map[string]any))
	}
	return list
}

// TestListConnections lists connections with each parameter.
func TestListConnections(t *testing.T) {
	withConnections(t, func(g *identityGateway, _, _, _, _ *socket.LocalConn) {
		for query, want := range map[string]string{
			"":                               "4 4 ",
			"?sort=user":                     "4 4 basic demo demo -",
			"?sort=age":                      "4 4 ",
			"?sort=bytes":                    "4 4 ",
			"?sort=backlog&limit=1":          "4 4 basic",
			"?user=demo":                     "4 2 demo demo",
			"?user=nobody":                   "4 0 ",
			"?sort=user&limit=2&user=basic":  "4 1 basic",
			"?user=" + idOf(g, "basic"):      "4 1 basic",
			"?user=ana%27%20or%201%3D1--%20": "4 0 ",
		} {
			status, answer := g.as("read", "GET", "/admin/connections"+query, "")
			if status != http.StatusOK || len(answer["stale_shards"].([]any)) != 0 {
				t.Fatalf("%q: %d %v", query, status, answer)
			}
			var got strings.Builder
			for _, n := range []string{"open", "matching"} {
				got.WriteString(string('0'+rune(answer[n].(float64))) + " ")
			}
			for _, row := range listed(g.T, answer) {
				name, _ := row["username"].(string)
				if name == "" {
					name = "-"
				}
				got.WriteString(name + " ")
			}
			if !strings.HasPrefix(got.String(), want) {
				t.Errorf("%q: %q, want %q", query, got.String(), want)
			}
		}
		_, answer := g.as("read", "GET", "/admin/connections?sort=user", "")
		list := listed(g.T, answer)
		ana, silent := list[0], list[3]
		if ana["session"] != "bot" || ana["address"] != "192.0.2.1" || ana["transport"] != "http" || ana["state"] != "live" || ana["subscriptions"] != 1.0 ||
			ana["user"] != idOf(g, "basic") || ana["login"] == "" || ana["slow"] != false || ana["backlog_bytes"].(float64) < 100 {
			t.Errorf("a live connection: %v", ana)
		}
		if silent["state"] != "awaiting_token" || silent["user"] != nil || silent["sent_bytes"] != 0.0 || silent["address"] != "192.0.2.9" {
			t.Errorf("one without authentication: %v", silent)
		}
		if since, err := time.Parse(time.RFC3339, silent["since"].(string)); err != nil || time.Since(since) < 0 || time.Since(since) > 2*time.Second {
			t.Errorf("since %v, now %v: %v", since, time.Now(), err)
		}
		for _, query := range []string{"?sort=name", "?sort=", "?limit=0", "?limit=1001", "?user=", "?user=a&user=b", "?cursor=x"} {
			if status, answer := g.as("read", "GET", "/admin/connections"+query, ""); status != http.StatusBadRequest || answer["reason"] != "bad_field" {
				t.Errorf("%q: %d %v", query, status, answer)
			}
		}
	})
}

// idOf returns the id of a user with a connection.
func idOf(g *identityGateway, name string) string {
	g.Helper()
	_, answer := g.as("read", "GET", "/admin/connections?user="+name, "")
	return listed(g.T, answer)[0]["user"].(string)
}

// TestCloseConnections closes connections by id and by user. Their clients are message to return.
func TestCloseConnections(t *testing.T) {
	withConnections(t, func(g *identityGateway, ana, first, second, _ *socket.LocalConn) {
		_, answer := g.as("read", "GET", "/admin/connections?user=basic", "")
		id := listed(g.T, answer)[0]["id"].(string)
		user := idOf(g, "basic")
		if status, answer := g.as("operate", "DELETE", "/admin/connections/"+id, ""); status != http.StatusOK || answer["closed"] != 1.0 {
			t.Errorf("close: %d %v", status, answer)
		}
		const message = `"code":503,"reason":"overloaded","msg":"An operator has closed this connection"`
		if got := ended(g.T, ana); !strings.Contains(got, message) || !strings.HasSuffix(got, "\x11\x97overloaded") { // 4503
			t.Errorf("ana got %q", got)
		}
		for _, gone := range []string{id, "0-999-1", "999-0-1", "x", "1", "-1-2-3"} {
			if status, answer := g.as("operate", "DELETE", "/admin/connections/"+gone, ""); status != http.StatusNotFound || answer["reason"] != "not_found" {
				t.Errorf("close %s: %d %v", gone, status, answer)
			}
		}
		demo := idOf(g, "demo")
		if status, answer := g.as("operate", "DELETE", "/admin/connections?user=demo", ""); status != http.StatusOK || answer["closed"] != 2.0 {
			t.Errorf("close those of demo: %d %v", status, answer)
		}
		for _, c := range []*socket.LocalConn{first, second} {
			if got := ended(g.T, c); !strings.Contains(got, message) {
				t.Errorf("demo got %q", got)
			}
		}
		if status, answer := g.as("operate", "DELETE", "/admin/connections?user=demo", ""); status != http.StatusOK || answer["closed"] != 0.0 {
			t.Errorf("close them again: %d %v", status, answer)
		}
		for query, reason := range map[string]string{"": "invalid_request", "?user=": "bad_field", "?name=demo": "bad_field"} {
			if status, answer := g.as("operate", "DELETE", "/admin/connections"+query, ""); status != http.StatusBadRequest || answer["reason"] != reason {
				t.Errorf("close %q: %d %v", query, status, answer)
			}
		}
		if status, answer := g.as("read", "GET", "/admin/connections", ""); status != http.StatusOK || answer["open"] != 1.0 {
			t.Errorf("afterwards: %d %v", status, answer)
		}
		const by = "connection_closed administrator (operate) 192.0.2.1 console "
		want := []string{by + "connection " + id + " of 192.0.2.1", by + "all connections of the user"}
		if got := g.changes(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the audit log has %q", got)
		} else if g.events[0].User != user || g.events[0].Family == "" || g.events[1].User != demo {
			t.Errorf("the audit log has %+v", g.events)
		}
	})
}

// TestThreat35CloseNeedsItsAuditRow checks that an operator without the role closes nothing, and
// that nobody does without a row in the audit log.
func TestThreat35CloseNeedsItsAuditRow(t *testing.T) {
	withConnections(t, func(g *identityGateway, _, _, _, _ *socket.LocalConn) {
		_, answer := g.as("read", "GET", "/admin/connections?user=basic", "")
		id := listed(g.T, answer)[0]["id"].(string)
		for _, path := range []string{"/" + id, "?user=basic"} {
			if status, answer := g.as("read", "DELETE", "/admin/connections"+path, ""); status != http.StatusForbidden {
				t.Errorf("with the role read: %d %v", status, answer)
			}
			g.broken = errDown
			if status, answer := g.as("operate", "DELETE", "/admin/connections"+path, ""); status != http.StatusServiceUnavailable || answer["reason"] != "unavailable" {
				t.Errorf("without the audit log: %d %v", status, answer)
			}
			g.broken = nil
		}
		if _, answer := g.as("read", "GET", "/admin/connections", ""); answer["open"] != 4.0 || len(g.events) != 0 {
			t.Errorf("%v open, %d rows", answer["open"], len(g.events))
		}
	})
}

// TestNoStream checks the answers of a program without a stream, and that Record is required.
func TestNoStream(t *testing.T) {
	g := newOperatedGateway(t, newGateway(t, nil), func(*rest.AdminConfig) {})
	for _, r := range []struct{ method, path string }{
		{"GET", "/admin/connections"}, {"DELETE", "/admin/connections?user=basic"}, {"DELETE", "/admin/connections/0-0-1"},
	} {
		if status, answer := g.as("operate", r.method, r.path, ""); status != http.StatusUnprocessableEntity || answer["reason"] != "unsupported_option" {
			t.Errorf("%s: %d %v", r.method, status, answer)
		}
	}
	if _, err := rest.NewAdmin(rest.AdminConfig{Auth: g.service, Operators: func() []rest.Operator { return nil }, Stream: new(socket.Server)}); err == nil {
		t.Error("Stream without Record is accepted")
	}
}
