//go:build unix

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// httpInputs returns the inputs of HTTP itself, below all routes. After most of them the connection
// must end, because requests can be smuggled if two readers of the same bytes disagree about them.
func httpInputs() []input {
	raw := func(a *attacker, what, text string, want ...int) {
		a.Helper()
		got := status(a.first(text))
		for _, w := range want {
			if got == w {
				return
			}
		}
		a.Errorf("%s: status %d, want one of %v", what, got, want)
	}
	const head = "GET /livez HTTP/1.1\r\nHost: x\r\n"
	return []input{
		{68, "two lengths", func(a *attacker) {
			raw(a, "different", "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400)
			raw(a, "a list", "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\nhello!", 400)
		}},
		{69, "length and chunks", func(a *attacker) {
			got := a.raw("POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 20*time.Second)
			if status(got) != 400 || strings.Count(string(got), "HTTP/1.1 ") != 1 {
				a.Errorf("answered %.200q, want one 400", got)
			}
		}},
		{70, "unknown transfer coding", func(a *attacker) {
			raw(a, "xchunked", "POST /auth/token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, 400)
		}},
		{71, "header of 20 KiB", func(a *attacker) { raw(a, "big", head+"X-Big: "+strings.Repeat("x", 20<<10)+"\r\n\r\n", 431) }},
		{72, "one byte of a header at a time", func(a *attacker) {
			nc, err := a.dial(a.from())
			if err != nil {
				a.Fatal(err)
			}
			defer nc.Close()
			begin := time.Now()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, nc)
			}()
			_, _ = io.WriteString(nc, head)
			for i := 0; ; i++ {
				select {
				case <-ended:
					if took := time.Since(begin); took > bound(15*time.Second) {
						a.Errorf("ended after %v", took)
					}
					return
				case <-time.After(100 * time.Millisecond): // the pace of a slow client
				}
				if _, err := io.WriteString(nc, "x"); err != nil {
					<-ended
				}
				if i > 600 {
					a.Fatal("the server waits for a header that never ends")
				}
			}
		}},
		{73, "body that stalls", func(a *attacker) {
			got := a.raw("POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", time.Minute)
			if s := status(got); s != 408 && s != 0 {
				a.Errorf("status %d, want 408 or the end", s)
			}
		}},
		{74, "Host", func(a *attacker) {
			raw(a, "none", "GET /livez HTTP/1.1\r\n\r\n", 400)
			raw(a, "two", "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400)
		}},
		{75, "space before a colon", func(a *attacker) { raw(a, "space", head+"X-A : b\r\n\r\n", 400) }},
		{76, "chunk extension of 9 KB", func(a *attacker) {
			raw(a, "extension", "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;"+strings.Repeat("x", 9<<10)+"\r\n{}\r\n0\r\n\r\n", 400, 413)
		}},
		{77, "TLS to a plain port", func(a *attacker) {
			hello := "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("r", 64)
			if a.TLS { // the reverse: plain HTTP to a TLS port
				nc, err := a.plain()
				if err != nil {
					a.Fatal(err)
				}
				defer nc.Close()
				fmt.Fprint(nc, head+"\r\n")
				_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
				got, _ := io.ReadAll(nc)
				if s := status(got); s != 400 && s != 0 {
					a.Errorf("plain HTTP to TLS: %d", s)
				}
				return
			}
			if s := status(a.raw(hello, 10*time.Second)); s != 400 && s != 0 {
				a.Errorf("a TLS hello: %d", s)
			}
		}},
		{78, "HTTP/2 preface", func(a *attacker) {
			raw(a, "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505)
			raw(a, "star", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, 404, 405)
		}},
		{79, "ambiguous paths", func(a *attacker) {
			for _, p := range []string{"/broker/../livez", "//livez", "/./livez", "/livez%00", "/broker%2faccounts", "/livez/", "/%2e%2e/livez", `/livez\..`, "/broker/%2e%2e/livez"} {
				raw(a, p, "GET "+p+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, 400)
			}
		}},
		{80, "forwarded address of an untrusted peer", func(a *attacker) {
			// One address is throttled after a while, even if it claims to be others.
			from := a.from()
			throttled := false
			for i := 0; i < 1000 && !throttled; i++ {
				r := a.requestFrom(from, http.MethodPost, "/auth/token",
					`{"grant_type":"refresh_token","refresh_token":"`+inventedRefresh()+`"}`,
					"Content-Type", asJSON, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%250), "Forwarded", fmt.Sprintf("for=203.0.113.%d", i%250))
				throttled = r.status == 429
			}
			if !throttled {
				a.Error("1,000 unknown tokens of one peer that claims 250 addresses were not throttled")
			}
		}},
		{81, "foreign Host", func(a *attacker) {
			f := a.forge("ana")
			if iss := f.claims["iss"]; iss != "rueda" {
				a.Errorf("issuer %v", iss)
			}
			got := a.raw("GET /.well-known/jwks.json HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", 10*time.Second)
			if status(got) != 200 || strings.Contains(string(got), "evil.test") {
				a.Errorf("the Host header reached the answer: %.200s", got)
			}
			got = a.raw("GET /.well-known/oauth-authorization-server HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", 10*time.Second)
			if strings.Contains(string(got), "evil.test") {
				a.Errorf("the Host header reached the metadata: %.300s", got)
			}
		}},
	}
}
