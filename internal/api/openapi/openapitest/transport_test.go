package openapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// TestTransport checks that a transport notices what the documents do not describe in requests and
// answers of each listener, and ignores other servers.
func TestTransport(t *testing.T) {
	const live = `{"success":true,"data":{"status":"live"}}`
	lostBody := string(lost().Body)
	for _, c := range []struct{ name, method, path, request, id, body, want string }{
		{"an answer", "GET", "/livez", "", "r", live, ""},
		{"a member of an answer", "GET", "/livez", "", "r", strings.Replace(live, `"status"`, `"new":1,"status"`, 1), "new"},
		{"another server", "GET", "/livez", "", "", `{"new":1}`, ""},
		{"a route", "GET", "/new", "", "r", live, "no operation"},
		{"a route of administrators", "GET", "/admin/users", "", "r", `{"success":true,"data":{"new":1}}`, "new"},
		{"a member of a request", "POST", "/auth/revoke", `{"token":"x","new":1}`, "r", `{"success":true,"data":{"revoked":true}}`, "new"},
		{"a path that does not exist", "GET", "/nowhere", "", "r", lostBody, ""},
		{"another word for it", "GET", "/nowhere", "", "r", strings.Replace(lostBody, "not_found", "gone", 1), "gone"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			if c.id != "" {
				w.Header().Set("X-Request-Id", c.id)
			}
			if strings.Contains(c.body, `"error"`) {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, c.body)
		}))
		tr, err := openapitest.NewTransport(server.Client().Transport)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.request))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != c.body {
			t.Errorf("%s: the client got %q, %v", c.name, body, err)
		}
		res.Body.Close()
		tr.CloseIdleConnections()
		server.Close()
		if err := tr.Err(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if want := min(len(c.id), 1); tr.Checked() != want {
			t.Errorf("%s: %d exchanges checked, want %d", c.name, tr.Checked(), want)
		}
	}
}
