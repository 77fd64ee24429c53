package tlslimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPlainRequest sends a request without TLS: the answer names https://. Other input gets none.
func TestPlainRequest(t *testing.T) {
	s := newEchoServer(t, 100)
	ask := func(text string) *bufio.Reader {
		nc, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, text); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(nc)
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		resp, err := http.ReadResponse(ask(method+" /time HTTP/1.1\r\nHost: x\r\n\r\n"), nil)
		if err != nil {
			t.Fatal(method, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "use https:// or wss://") {
			t.Errorf("%s: %d %s, %v", method, resp.StatusCode, body, err)
		}
	}
	if text, _ := io.ReadAll(ask("hello there\r\n")); strings.Contains(string(text), "HTTP") { // an alert at most
		t.Errorf("%q", text)
	}
}
