package rest_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// checkers has a checker for each document, by the path that serves it. The documents of all
// gateways are the same.
var checkers = struct {
	sync.Mutex
	byPath map[string]*openapitest.Checker
}{byPath: map[string]*openapitest.Checker{}}

// described returns a handler that validates the requests and answers of h with the document that h
// serves at a path.
func described(t testing.TB, path string, h http.Handler) http.Handler {
	t.Helper()
	checkers.Lock()
	defer checkers.Unlock()
	c := checkers.byPath[path]
	if c == nil {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		var err error
		if c, err = openapitest.New(w.Body.Bytes()); err != nil {
			t.Fatalf("GET %s: %d, %v", path, w.Code, err)
		}
		checkers.byPath[path] = c
	}
	checked := openapitest.Handler(t, c, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == openapi.StreamPath { // which gateways of these tests do not have
			h.ServeHTTP(w, r)
			return
		}
		checked.ServeHTTP(w, r)
	})
}
