package webassets

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func folder() fstest.MapFS {
	script := strings.Repeat("export const x = 1;\n", 200)
	return fstest.MapFS{
		"index.html":               {Data: []byte("<!doctype html><title>t</title>")},
		"app/main.js":              {Data: []byte(script)},
		"vendor/preact-11.2.0.js":  {Data: []byte(script)},
		"style/base.3f9c2a1b.css":  {Data: []byte("a{}")},
		"img/icon.svg":             {Data: []byte("<svg/>")},
		"sub/index.html":           {Data: []byte("sub")},
		"vendor/LICENSE":           {Data: []byte("text")},
		".hidden/secret.js":        {Data: []byte("x")},
		"app/.main.js.swp.unknown": {Data: []byte("x")},
	}
}

func get(h http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestFiles(t *testing.T) {
	f, err := New(folder(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	const ask, kept = "no-cache", "public, max-age=31536000, immutable"
	for path, want := range map[string]struct {
		status         int
		media, caching string
	}{
		"/":                        {200, "text/html; charset=utf-8", ask},
		"/index.html":              {200, "text/html; charset=utf-8", ask},
		"/sub/":                    {200, "text/html; charset=utf-8", ask},
		"/app/main.js":             {200, "text/javascript; charset=utf-8", ask},
		"/vendor/preact-11.2.0.js": {200, "text/javascript; charset=utf-8", kept},
		"/style/base.3f9c2a1b.css": {200, "text/css; charset=utf-8", kept},
		"/img/icon.svg":            {200, "image/svg+xml", ask},
		"/vendor/LICENSE":          {200, "text/plain; charset=utf-8", ask},
		"/app":                     {404, "", ""},
		"/sub":                     {404, "", ""},
		"/none.js":                 {404, "", ""},
		"/.hidden/secret.js":       {404, "", ""},
		"/app/../index.html":       {404, "", ""},
		"//index.html":             {404, "", ""},
	} {
		r := get(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			q.URL.Path = path // as it came, without the cleaning of a ServeMux
			f.ServeHTTP(w, q)
		}), "/")
		h := r.Header
		if r.StatusCode != want.status || h.Get("Content-Type") != want.media || h.Get("Cache-Control") != want.caching {
			t.Errorf("%s: %d, %q, %q", path, r.StatusCode, h.Get("Content-Type"), h.Get("Cache-Control"))
		}
		if want.status != 200 {
			continue
		}
		for name, value := range map[string]string{
			"Content-Security-Policy": Policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
		} {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
	}
}

// TestPolicyIsStrict checks that the default policy allows nothing inline and no other origin.
func TestPolicyIsStrict(t *testing.T) {
	for _, loose := range []string{"unsafe", "*", "http:", "https:", "blob:", "nonce", "strict-dynamic"} {
		if strings.Contains(Policy, loose) {
			t.Errorf("the policy has %s", loose)
		}
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "script-src 'self';", "style-src 'self';"} {
		if !strings.Contains(Policy, part) {
			t.Errorf("the policy has no %s", part)
		}
	}
}

func TestCompression(t *testing.T) {
	f, err := New(folder(), Options{Policy: "default-src 'none'"})
	if err != nil {
		t.Fatal(err)
	}
	plain := get(f, "/app/main.js")
	want, _ := io.ReadAll(plain.Body)
	for accept, packed := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip;q=0.000": false, "gzip;q=x": false, "br": false, "": false,
	} {
		r := get(f, "/app/main.js", "Accept-Encoding", accept)
		body := r.Body
		if got := r.Header.Get("Content-Encoding") == "gzip"; got != packed || r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v, Vary %q", accept, got, r.Header.Get("Vary"))
		}
		if packed {
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Fatal(err)
			}
			if r.ContentLength >= int64(len(want))/2 {
				t.Errorf("%d bytes of %d", r.ContentLength, len(want))
			}
			if r.Header.Get("ETag") == plain.Header.Get("ETag") {
				t.Error("other bytes have the same tag")
			}
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != string(want) {
			t.Errorf("%q: %d bytes, want %d (%v)", accept, len(got), len(want), err)
		}
		if got := r.Header.Get("Content-Security-Policy"); got != "default-src 'none'" {
			t.Errorf("policy %q", got)
		}
	}
	if r := get(f, "/img/icon.svg", "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "" || r.Header.Get("Vary") != "" {
		t.Errorf("a tiny file is compressed: %v", r.Header)
	}
}

func TestNotModified(t *testing.T) {
	f, err := New(folder(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := get(f, "/app/main.js").Header.Get("ETag"), get(f, "/app/main.js", "Accept-Encoding", "gzip").Header.Get("ETag")
	for match, want := range map[string]int{
		plain: 304, packed: 304, "W/" + plain: 304, `"x", ` + packed: 304, "*": 304, `"x"`: 200, "": 200, strings.Trim(plain, `"`): 200,
	} {
		r := get(f, "/app/main.js", "If-None-Match", match, "Accept-Encoding", "gzip")
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != want || (want == 304) != (len(body) == 0) || r.Header.Get("ETag") == "" {
			t.Errorf("%s: %d with %d bytes, ETag %q", match, r.StatusCode, len(body), r.Header.Get("ETag"))
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/app/main.js", nil)
	w := httptest.NewRecorder()
	if f.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, %v", w.Code, w.Header())
	}
	r.Method = http.MethodHead
	w = httptest.NewRecorder()
	if f.ServeHTTP(w, r); w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d with %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestNewRefuses(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxFiles + 1 {
		many[fmt.Sprintf("f%d.js", i)] = &fstest.MapFile{}
	}
	for name, root := range map[string]fstest.MapFS{
		"page.php has no known type": {"page.php": {}},
		"no files":                   {},
		"more than 1000 files":       many,
		"or than 32 MiB":             {"a.js": {Data: make([]byte, maxBytes/2)}, "b.js": {Data: make([]byte, maxBytes/2+1)}},
	} {
		if _, err := New(root, Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// BenchmarkServe measures an answer with a compressed file.
func BenchmarkServe(b *testing.B) {
	f, err := New(folder(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/app/main.js", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	b.ReportAllocs()
	for b.Loop() {
		f.ServeHTTP(httptest.NewRecorder(), r)
	}
}
