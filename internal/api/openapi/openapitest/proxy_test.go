package openapitest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// failures keeps the errors of a test, and its clean-up.
type failures struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (f *failures) Error(args ...any) { f.errors = append(f.errors, fmt.Sprint(args...)) }
func (f *failures) Cleanup(do func()) { f.cleanups = append(f.cleanups, do) }
func (f *failures) end() {
	for _, do := range f.cleanups {
		do()
	}
}

// TestProxy checks that a proxy passes answers on, and reports those that the document does not
// describe, and that nothing was validated.
func TestProxy(t *testing.T) {
	for body, want := range map[string]string{
		`{"success":true,"data":{"status":"live"}}`:         "",
		`{"success":true,"data":{"status":"live","new":1}}`: "new",
		``: "no exchange",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Request-Id", "r")
			_, _ = io.WriteString(w, body)
		}))
		f := &failures{TB: t}
		proxy := openapitest.NewProxy(f).Pass(server.URL)
		if body != "" {
			res, err := http.Get(proxy + "/livez")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil || string(got) != body {
				t.Errorf("got %q, %v", got, err)
			}
			res.Body.Close()
		}
		f.end()
		server.Close()
		if got := strings.Join(f.errors, " "); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", body, got)
		}
	}
}
