package gateway_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/gateway"
)

// TestClientDownloads downloads the packages that the page of a gateway without a console lists:
// they have the SHA-256 of the page, are also answered in parts, and need no token.
func TestClientDownloads(t *testing.T) {
	t.Parallel()
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0", ClientDownloads: true})
	ask := func(method, path string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(header) == 2 {
			r.Header.Set(header[0], header[1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	answer, page := ask("GET", "/client/", "Accept", "text/html")
	links := regexp.MustCompile(`href="(/client/rueda-[^"]+\.(?:whl|tgz))"`).FindAllStringSubmatch(page, -1)
	if answer.StatusCode != http.StatusOK || len(links) != 2 {
		t.Fatalf("%d, %q", answer.StatusCode, links)
	}
	for _, link := range links {
		at := link[1]
		answer, data := ask("GET", at)
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(data))); answer.StatusCode != http.StatusOK || !strings.Contains(page, sum) {
			t.Errorf("%s: %d, the page does not have %s", at, answer.StatusCode, sum)
		}
		if h := answer.Header; h.Get("Content-Security-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", at, h)
		}
		head, none := ask("HEAD", at)
		if head.ContentLength != int64(len(data)) || none != "" || head.Header.Get("ETag") != answer.Header.Get("ETag") {
			t.Errorf("HEAD %s: %d of %d bytes, %v", at, head.ContentLength, len(data), head.Header)
		}
		if again, _ := ask("GET", at, "If-None-Match", answer.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", at, again.StatusCode)
		}
		if part, text := ask("GET", at, "Range", "bytes=100-"); part.StatusCode != http.StatusPartialContent || text != data[100:] {
			t.Errorf("%s from byte 100: %d, %d bytes", at, part.StatusCode, len(text))
		}
		if post, text := ask("POST", at); post.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d %s", at, post.StatusCode, text)
		}
	}
	if !strings.Contains(page, ">http://"+b.Address+"<") {
		t.Errorf("the commands are not for http://%s: %s", b.Address, page)
	}
	foreign, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+b.Address+"/client/", nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Host = "evil.example"
	answer, err = http.DefaultClient.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || strings.Contains(string(text), "evil.example") || !strings.Contains(string(text), "pip install") {
		t.Errorf("at another name: %v %s", err, text)
	}
	if answer, text := ask("GET", "/client/rueda-0.0.1-py3-none-any.whl"); answer.StatusCode != http.StatusNotFound || !strings.Contains(text, `"not_found"`) {
		t.Errorf("another version: %d %s", answer.StatusCode, text)
	}
}
