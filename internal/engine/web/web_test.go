package web

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// TestErrorBothWays checks that an error has the same header and body over net/http and without it.
func TestErrorBothWays(t *testing.T) {
	e := NewError(http.StatusTooManyRequests, wire.RateLimited, "Too many", "Retry-After", "3")
	q := Quota{Limit: 5, Window: time.Minute, Reset: 1500 * time.Millisecond}
	q.SetHeader(e.Header, "user")
	for https, want := range map[HTTPS]string{NoHTTPS: "", HostHTTPS: "max-age=31536000", SubdomainsHTTPS: "max-age=31536000; includeSubDomains"} {
		w := httptest.NewRecorder()
		e.Write(w, "req-1", https)
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(e.Append(nil, "req-1", https))), nil)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil || !r.Close || r.StatusCode != w.Code {
			t.Errorf("%v: %d %v", err, r.StatusCode, r.Header)
		}
		r.Header.Del("Content-Length")
		if !reflect.DeepEqual(r.Header, w.Header()) || body.String() != w.Body.String() {
			t.Errorf("by hand %v %s\nby net/http %v %s", r.Header, body.String(), w.Header(), w.Body)
		}
		if w.Header().Get("RateLimit") != `"user";r=0;t=2` || w.Header().Get("Strict-Transport-Security") != want {
			t.Errorf("%q: %v", want, w.Header())
		}
	}
}

func TestRequestID(t *testing.T) {
	for _, good := range []string{"a", "abc.DEF_1-2", strings.Repeat("a", maxRequestID)} {
		if got := RequestID(good); got != good {
			t.Errorf("%q became %q", good, got)
		}
	}
	for _, bad := range [][]string{nil, {""}, {"two words"}, {"é"}, {"a\n"}, {strings.Repeat("a", maxRequestID+1)}, {"a", "b"}} {
		if got := RequestID(bad...); len(got) != 26 {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

func TestOriginAllowed(t *testing.T) {
	listed := []string{"https://app.example.com", "http://Local:80"}
	for _, c := range []struct {
		origin, host string
		allowed      []string
		scheme       string
		want         bool
	}{
		{"https://app.example.com", "gw", listed, "http", true},
		{"HTTPS://APP.example.com:443", "gw", listed, "http", true},
		{"http://local", "gw", listed, "http", true},
		{"http://app.example.com", "gw", listed, "http", false},
		{"https://gw", "gw", listed, "http", false},
		{"https://gw", "gw:443", nil, "https", true},
		{"https://gw", "gw:443", nil, "", true},
		{"https://gw:8080", "gw:8080", nil, "http", false},
		{"http://gw:8080", "gw:8080", nil, "http", true},
		{"http://gw:8080", "gw:8080", nil, "https", false},
		{"http://gw:8080", "gw:8080", nil, "", true},
		{"http://gw:443", "gw", nil, "", false},
		{"null", "gw", nil, "", false},
		{"https://gw/x", "gw", nil, "", false},
		{"https://a@gw", "gw", nil, "", false},
		{"null", "gw", []string{"*"}, "", true},
	} {
		if got := OriginAllowed([]string{c.origin}, c.allowed, c.host, c.scheme); got != c.want {
			t.Errorf("%s at %s, allowed %q: %v", c.origin, c.host, c.allowed, got)
		}
	}
	if OriginAllowed([]string{"https://gw", "https://gw"}, nil, "gw", "") {
		t.Error("two origins are allowed")
	}
}

func TestParsePublicURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.broker.example": "https://api.broker.example", "https://API.broker.example/": "https://api.broker.example",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "": "",
		"api.broker.example": "-", "ftp://x": "-", "https://": "-", "https://x/path": "-", "https://x?y": "-", "https://u:p@x": "-", "https://x#y": "-",
	} {
		if got, err := ParsePublicURL(in); (err != nil) != (want == "-") || err == nil && got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
