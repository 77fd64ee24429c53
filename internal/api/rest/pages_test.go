package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/api/webassets"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// withPages returns a gateway with pages.
func withPages(t *testing.T) *gateway {
	files, err := webassets.New(fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}, "app/main.js": {Data: []byte("1")}}, webassets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strange := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/docs/") {
		case "panic":
			panic("canary")
		case "large":
			for range 40 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		case "broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "moved":
			http.Redirect(w, r, "/docs/other", http.StatusFound)
		case "own404":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<p>no such page")
		case "reasons", "reasons/not_found":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "from the documentation")
		}
	})
	return newGateway(t, func(c *rest.Config, _ *auth.Config) {
		c.Pages = map[string]http.Handler{"/": files, "/console/": http.StripPrefix("/console/", files), "/docs/": strange}
	})
}

func askPage(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestPages checks which paths are pages, and that programs which accept only JSON get an error.
func TestPages(t *testing.T) {
	g := withPages(t)
	const html, script, text = "text/html; charset=utf-8", "text/javascript; charset=utf-8", "application/json"
	for request, want := range map[string]struct {
		status int
		media  string
	}{
		"GET /":                                  {200, html},
		"GET / text/html":                        {200, html},
		"GET / */*":                              {200, html},
		"GET / application/json":                 {404, text},
		"HEAD /":                                 {200, html},
		"POST /":                                 {405, text},
		"DELETE /console/":                       {405, text},
		"GET /console/":                          {200, html},
		"GET /console/ application/json":         {200, html},
		"GET /console/app/main.js":               {200, script},
		"GET /console/app/main.js image/png":     {200, script},
		"GET /console/none.js":                   {404, text},
		"GET /console/config":                    {404, text}, // a route
		"GET /other":                             {404, text},
		"GET /consoles/":                         {404, text},
		"GET /console/../x":                      {404, text},
		"GET /console//app/main.js":              {404, text},
		"GET /console/a/b/c/d/e/f/g/h/i/j/k/l/m": {404, text},
		"GET /docs/large":                        {500, text},
		"GET /docs/broken":                       {500, text},
		"GET /docs/own404":                       {404, "text/html"},
		"GET /docs/reasons":                      {200, html},
		"GET /docs/reasons/not_found":            {200, html},
		"GET /livez":                             {200, text},
	} {
		parts := strings.Fields(request)
		var header []string
		if len(parts) > 2 {
			header = []string{"Accept", parts[2]}
		}
		handler := g.handler
		if strings.Contains(request, "own404") {
			handler = g.plain // an error in HTML, which no operation describes
		}
		w := askPage(handler, parts[0], parts[1], header...)
		if w.Code != want.status || w.Header().Get("Content-Type") != want.media {
			t.Errorf("%s: %d %s, %.200s", request, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if w.Header().Get("X-Request-Id") == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", request, w.Header())
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: policy %q", request, policy)
		}
	}
	if w := askPage(g.plain, "GET", "/docs/moved"); w.Code != http.StatusFound || w.Header().Get("Location") != "/docs/other" {
		t.Errorf("a redirect: %d %v", w.Code, w.Header())
	}
	if w := askPage(g.plain, "GET", "/docs/panic"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String()+g.log.String(), "canary") {
		t.Errorf("a panic: %d %s", w.Code, w.Body)
	}
	first := askPage(g.handler, "GET", "/console/app/main.js")
	if w := askPage(g.handler, "GET", "/console/app/main.js", "If-None-Match", first.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("a second request: %d %s", w.Code, w.Body)
	}
}

// TestThreat51Framing checks that no answer can be framed or sniffed, and that pages run no inline
// script.
func TestThreat51Framing(t *testing.T) {
	g := withPages(t)
	for _, path := range []string{"/", "/console/", "/console/app/main.js", "/docs/reasons", "/livez", "/none", "/console/session"} {
		h := askPage(g.plain, "GET", path).Header()
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestPagesAreLimited checks that an address that requests pages all the time is refused, and that
// this does not count for the API.
func TestPagesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withPages(t)
		refused := 0
		for range 3200 {
			if askPage(g.plain, "GET", "/console/app/main.js").Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 100 || askPage(g.plain, "GET", "/livez").Code != http.StatusOK || askPage(g.plain, "GET", "/docs/reasons").Code != http.StatusOK {
			t.Errorf("%d requests of 3200 were refused", refused)
		}
	})
}

// TestThreat53PagesOfOthers sends requests to the listener for administrators as pages can: its own
// page may use the routes, and other pages get nothing, with the token or without it.
func TestThreat53PagesOfOthers(t *testing.T) {
	g := newOperatedGateway(t, newGateway(t, nil), func(c *rest.AdminConfig) { c.Hosts = []string{"ops.internal"} })
	ask := func(host, origin, site, method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(""))
		r.Host = host
		r.Header.Set("Authorization", "Bearer the token of operate")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		g.admin.ServeHTTP(w, r)
		return w
	}
	for name, c := range map[string]struct {
		host, origin, site string
		allowed            bool
	}{
		"own page":              {"127.0.0.1:8081", "http://127.0.0.1:8081", "same-origin", true},
		"own page by name":      {"ops.internal:8081", "https://ops.internal:8081", "same-origin", true},
		"a program":             {"127.0.0.1:8081", "", "", true},
		"another site":          {"127.0.0.1:8081", "https://evil.example", "cross-site", false},
		"the console":           {"127.0.0.1:8081", "http://127.0.0.1:8080", "same-site", false},
		"an opaque origin":      {"127.0.0.1:8081", "null", "cross-site", false},
		"without an origin":     {"127.0.0.1:8081", "", "cross-site", false},
		"rebinding":             {"evil.example:8081", "http://evil.example:8081", "same-origin", false},
		"rebinding, like ours":  {"ops.internal.evil.example", "http://ops.internal.evil.example", "same-origin", false},
		"the name of a page":    {"127.0.0.1:8081", "http://ops.internal", "cross-site", false},
		"two names in one host": {"ops.internal", "http://127.0.0.1", "cross-site", false},
	} {
		w := ask(c.host, c.origin, c.site, http.MethodDelete, "/admin/users/u9/sessions")
		if got := w.Code != http.StatusForbidden; got != c.allowed {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		w = ask(c.host, c.origin, c.site, http.MethodGet, "/admin/keys")
		if read := w.Header().Get("Access-Control-Allow-Origin"); read != "" && !c.allowed {
			t.Errorf("%s may read answers: %v", name, w.Header())
		}
		preflight := httptest.NewRequest(http.MethodOptions, "/admin/users/u9/sessions", nil)
		preflight.Host = c.host
		preflight.Header.Set("Origin", c.origin)
		preflight.Header.Set("Access-Control-Request-Method", "DELETE")
		w = httptest.NewRecorder()
		if g.admin.ServeHTTP(w, preflight); !c.allowed && w.Header().Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s: a preflight is answered with %v", name, w.Header())
		}
	}
}
