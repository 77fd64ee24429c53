package gateway_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/gateway"
)

// TestConsole requests the pages of a gateway with and without the console, and its session from
// pages of several origins.
func TestConsole(t *testing.T) {
	t.Parallel()
	const app, public = "https://app.example.com", "https://api.broker.example"
	served, loopback := gateway.Console{Serve: true}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, c := range map[string]struct {
		config       gateway.Config
		origin, host string // of the page that logs in; "": those of the address
		pages, login int
	}{
		"with it":             {gateway.Config{Console: served}, "", "", 200, 200},
		"without it":          {gateway.Config{}, "", "", 404, 404},
		"by HTTPS without it": {gateway.Config{Console: served}, "https://", "", 200, 403},
		"by HTTPS of a proxy": {gateway.Config{Console: served, Proxies: loopback}, "https://", "", 200, 200},
		"with origins":        {gateway.Config{Console: served, Origins: []string{app}}, "", "", 200, 403},
		"of other origins":    {gateway.Config{Console: served, Origins: []string{app}}, app, "", 200, 403},
		"at its URL":          {gateway.Config{Console: served, Origins: []string{app}, PublicURL: public, HSTSSubdomains: true}, public, "api.broker.example", 200, 200},
	} {
		data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { data.Close() })
		addOwner(t, data.Users, "ana")
		c.config.Listen, c.config.Data, c.config.Accounts = "127.0.0.1:0", data, data.Users
		_, b := run(t, c.config)
		ask := func(method, path, body string, header ...string) (int, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.Address+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i+1 < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			if body != "" {
				r.Host = c.host
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if https := answer.Header.Get("Strict-Transport-Security"); (https != "") != (c.config.PublicURL != "") || strings.Contains(https, "includeSubDomains") != c.config.HSTSSubdomains {
				t.Errorf("%s: %s: Strict-Transport-Security: %v", name, path, https)
			}
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, string(text)
		}
		for _, path := range []string{"/", "/console", "/console/", "/client/index.js"} {
			if status, text := ask("GET", path, "", "Accept", "text/html, */*"); status != c.pages {
				t.Errorf("%s: %s: %d %.100s", name, path, status, text)
			}
		}
		if status, _ := ask("GET", "/docs", "", "Accept", "text/html"); status != http.StatusOK {
			t.Errorf("%s: /docs: %d", name, status)
		}
		if status, text := ask("GET", "/", "", "Accept", "application/json"); status != http.StatusNotFound || !strings.Contains(text, `"not_found"`) {
			t.Errorf("%s: a program gets %d %s", name, status, text)
		}
		switch c.origin {
		case "":
			c.origin = "http://" + b.Address
		case "https://":
			c.origin += b.Address
		}
		status, text := ask("POST", "/console/session", `{"username":"ana","password":"ana's own password"}`,
			"Origin", c.origin, "X-Rueda-Console", "1", "Content-Type", "application/json")
		if status != c.login {
			t.Errorf("%s: a login is %d %s, want %d", name, status, text, c.login)
		}
	}
}
