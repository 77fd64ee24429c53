package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// TestThreat27Smuggling sends requests whose end servers and proxies determine differently, each
// followed by a second request. An ambiguous request is refused and its connection closed, so the
// second one is never executed.
func TestThreat27Smuggling(t *testing.T) {
	t.Parallel()
	_, b := run(t, gateway.Config{Listen: "127.0.0.1:0"})
	const behind = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	post := func(fields, body string) string {
		return "POST /auth/revoke HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + fields + "\r\n" + body
	}
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
		{"chunks and length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400},
		{"chunks in capitals and length", post("TRANSFER-ENCODING: Chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400},
		{"two lengths", post("Content-Length: 2\r\nContent-Length: 30\r\n", "{}"), 400},
		{"the same length twice", post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), 400},
		{"a list of lengths", post("Content-Length: 2, 2\r\n", "{}"), 400},
		{"a length with a sign", post("Content-Length: +2\r\n", "{}"), 400},
		{"a length in hexadecimal", post("Content-Length: 0x2\r\n", "{}"), 400},
		{"a length below zero", post("Content-Length: -1\r\n", "{}"), 400},
		{"a length that is too long", post("Content-Length: 99999999999999999999\r\n", "{}"), 400},
		{"a space before the colon", post("Content-Length : 2\r\n", "{}"), 400},
		{"a folded coding", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400},
		{"a folded length", post("X: y\r\n Content-Length: 2\r\n", "{}"), 400},
		{"a coding that is not known", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
		{"two codings", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), 501},
		{"codings in two fields", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), 501},
		{"a bad chunk", post("Transfer-Encoding: chunked\r\n", "x\r\n"), 400},
		{"HTTP/1.0 with chunks", strings.Replace(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "HTTP/1.1", "HTTP/1.0", 1), 400},
		{"two hosts", "GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		{"no host", "GET /livez HTTP/1.1\r\n\r\n", 400},
		{"a carriage return alone", "GET /livez HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400},
		{"a NUL in a field", "GET /livez HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", 400},
		{"an upgrade with a body", "GET /stream HTTP/1.1\r\nHost: x\r\n" + upgradeFields + "Content-Length: 36\r\n\r\n", 400},
		{"an upgrade with chunks", "GET /stream HTTP/1.1\r\nHost: x\r\n" + upgradeFields + "Transfer-Encoding: chunked\r\n\r\n", 400},
		{"an upgrade with both", "GET /stream HTTP/1.1\r\nHost: x\r\n" + upgradeFields + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", b.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			// The server may refuse it and close the connection before everything was sent.
			_, _ = io.WriteString(c, tt.request+behind+behind)
			reader := bufio.NewReader(c)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != tt.status {
				t.Errorf("status %d, want %d", answer.StatusCode, tt.status)
			}
			for {
				next, err := http.ReadResponse(reader, nil)
				switch {
				case errors.Is(err, os.ErrDeadlineExceeded):
					t.Fatal("the connection stays open")
				case err != nil:
					return
				case next.StatusCode < 400:
					t.Fatalf("what was behind it was answered: %d", next.StatusCode)
				}
				_, _ = io.Copy(io.Discard, next.Body)
			}
		})
	}
}
