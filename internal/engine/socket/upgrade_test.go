package socket

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

func goodUpgrade() *upgradeRequest {
	return &upgradeRequest{
		method: "GET", major: 1, minor: 1, host: "gw.example.com:8080",
		header: http.Header{
			"Upgrade":               {"websocket"},
			"Connection":            {"Upgrade"},
			"Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key":     {"dGhlIHNhbXBsZSBub25jZQ=="},
		},
	}
}

// set returns a change of one header field; no values remove it.
func set(name string, values ...string) func(*upgradeRequest) {
	return func(r *upgradeRequest) {
		delete(r.header, name)
		if len(values) > 0 {
			r.header[name] = values
		}
	}
}

func TestCheckUpgradeAccepts(t *testing.T) {
	query := func(q string) func(*upgradeRequest) { return func(r *upgradeRequest) { r.query = q } }
	host := func(h string) func(*upgradeRequest) { return func(r *upgradeRequest) { r.host = h } }
	cases := []struct {
		name    string
		change  func(*upgradeRequest)
		origins []string
		want    upgrade
	}{
		{name: "plain", change: func(*upgradeRequest) {}},
		{name: "token lists in any case", change: func(r *upgradeRequest) {
			set("Upgrade", "h2c, WebSocket")(r)
			set("Connection", "keep-alive", "close , uPGRADE")(r)
		}},
		{name: "other query", change: query("v=1&tokens=no")},
		{name: "same host", change: set("Origin", "http://gw.example.com:8080")},
		{name: "same host, other case", change: set("Origin", "http://GW.example.com:8080")},
		{name: "same host, default port", change: func(r *upgradeRequest) {
			host("gw.example.com:443")(r)
			set("Origin", "https://gw.example.com")(r)
		}},
		{name: "same host, IPv6", change: func(r *upgradeRequest) {
			host("[::1]:80")(r)
			set("Origin", "http://[::1]")(r)
		}},
		{name: "listed origin", change: set("Origin", "https://app.example.com"), origins: []string{"https://a.b", "https://app.example.com:443"}},
		{name: "every origin", change: set("Origin", "null"), origins: []string{"*"}},
		{name: "no origin with a list", change: func(*upgradeRequest) {}, origins: []string{"https://a.b"}},
		{name: "subprotocol", change: set("Sec-Websocket-Protocol", "rueda.v1.json"), want: upgrade{protocol: "rueda.v1.json"}},
		{name: "first known subprotocol", change: set("Sec-Websocket-Protocol", "rueda.v9.xml", "graphql-ws, rueda.v1.json"), want: upgrade{protocol: "rueda.v1.json"}},
		{name: "batches", change: set("Sec-Websocket-Protocol", "rueda.v1.json.batch"), want: upgrade{protocol: "rueda.v1.json.batch", format: wire.Batch}},
		{name: "MessagePack", change: set("Sec-Websocket-Protocol", "rueda.v1.msgpack", "rueda.v1.json"), want: upgrade{protocol: "rueda.v1.msgpack", format: wire.Msgpack}},
		{name: "no known subprotocol", change: set("Sec-Websocket-Protocol", "rueda.v2.msgpack, RUEDA.V1.JSON")},
		{name: "compressed", change: set("Sec-Websocket-Extensions", "permessage-deflate; client_max_window_bits"), want: upgrade{format: wire.Deflate, compression: deflate.On}},
		{name: "compressed batches", change: func(r *upgradeRequest) {
			set("Sec-Websocket-Protocol", "rueda.v1.json.batch")(r)
			set("Sec-Websocket-Extensions", "permessage-deflate")(r)
		}, want: upgrade{protocol: "rueda.v1.json.batch", format: wire.Batch | wire.Deflate, compression: deflate.On}},
		{name: "extension declined", change: set("Sec-Websocket-Extensions", "permessage-bzip2, permessage-deflate; server_max_window_bits=10")},
		{name: "bearer", change: set("Authorization", "Bearer abc.def-_~+/="), want: upgrade{token: "abc.def-_~+/="}},
		{name: "bearer in lower case", change: set("Authorization", "bearer  abc"), want: upgrade{token: "abc"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := goodUpgrade()
			c.change(r)
			c.want.key = "dGhlIHNhbXBsZSBub25jZQ=="
			got, f := checkUpgrade(r, nil, c.origins, "")
			if f != nil {
				t.Fatalf("refused: %d %s", f.Status, f.Msg)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCheckUpgradeRefuses(t *testing.T) {
	version := func(major, minor int) func(*upgradeRequest) {
		return func(r *upgradeRequest) { r.major, r.minor = major, minor }
	}
	query := func(q string) func(*upgradeRequest) { return func(r *upgradeRequest) { r.query = q } }
	cases := []struct {
		name    string
		change  func(*upgradeRequest)
		origins []string
		status  int
		reason  wire.Reason
		header  [2]string
		proxied bool // the hint names the settings of a proxy
	}{
		{name: "POST", change: func(r *upgradeRequest) { r.method = "POST" }, status: 405, reason: wire.MethodNotAllowed, header: [2]string{"Allow", "GET"}},
		{name: "HEAD", change: func(r *upgradeRequest) { r.method = "HEAD" }, status: 405, reason: wire.MethodNotAllowed},
		{name: "HTTP/1.0", change: version(1, 0), status: 400, reason: wire.InvalidRequest, proxied: true},
		{name: "HTTP/0.9", change: version(0, 9), status: 400, reason: wire.InvalidRequest, proxied: true},
		{name: "HTTP/2", change: version(2, 0), status: 426, reason: upgradeRequired, header: [2]string{"Upgrade", "websocket"}, proxied: true},
		{name: "body", change: func(r *upgradeRequest) { r.body = true }, status: 400, reason: wire.InvalidRequest},
		{name: "no Upgrade", change: set("Upgrade"), status: 426, reason: upgradeRequired, header: [2]string{"Upgrade", "websocket"}, proxied: true},
		{name: "other Upgrade", change: set("Upgrade", "websockets"), status: 426, reason: upgradeRequired, proxied: true},
		{name: "no Connection", change: set("Connection"), status: 426, reason: upgradeRequired, proxied: true},
		{name: "other Connection", change: set("Connection", "keep-alive"), status: 426, reason: upgradeRequired, proxied: true},
		{name: "no version", change: set("Sec-Websocket-Version"), status: 426, reason: upgradeRequired, header: [2]string{"Sec-WebSocket-Version", "13"}},
		{name: "version 8", change: set("Sec-Websocket-Version", "8"), status: 426, reason: upgradeRequired, header: [2]string{"Sec-WebSocket-Version", "13"}},
		{name: "two versions", change: set("Sec-Websocket-Version", "13", "13"), status: 426, reason: upgradeRequired},
		{name: "no key", change: set("Sec-Websocket-Key"), status: 400, reason: wire.InvalidRequest},
		{name: "two keys", change: set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="), status: 400, reason: wire.InvalidRequest},
		{name: "short key", change: set("Sec-Websocket-Key", "c2hvcnQ="), status: 400, reason: wire.InvalidRequest},
		{name: "long key", change: set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZSBsb25n"), status: 400, reason: wire.InvalidRequest},
		{name: "key not base64", change: set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZ!=="), status: 400, reason: wire.InvalidRequest},
		{name: "key with loose bits", change: set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZR=="), status: 400, reason: wire.InvalidRequest},
		{name: "token in query", change: query("token=x"), status: 400, reason: wire.InvalidRequest},
		{name: "access_token in query", change: query("a=1&access_token="), status: 400, reason: wire.InvalidRequest},
		{name: "JWT in query", change: query("JWT"), status: 400, reason: wire.InvalidRequest},
		{name: "escaped token in query", change: query("%74oken=x"), status: 400, reason: wire.InvalidRequest},
		{name: "broken query", change: query("%zz"), status: 400, reason: wire.InvalidRequest},
		{name: "token as subprotocol", change: set("Sec-Websocket-Protocol", "rueda.v1.json, eyJhbGciOiJFUzI1NiJ9.e30.x"), status: 400, reason: wire.InvalidRequest},
		{name: "token after subprotocol", change: set("Sec-Websocket-Protocol", "access_token, abc"), status: 400, reason: wire.InvalidRequest},
		{name: "bearer subprotocol", change: set("Sec-Websocket-Protocol", "base64url.bearer.abc"), status: 400, reason: wire.InvalidRequest},
		{name: "foreign origin", change: set("Origin", "http://evil.com"), status: 403, reason: wire.Forbidden},
		{name: "null origin", change: set("Origin", "null"), status: 403, reason: wire.Forbidden},
		{name: "empty origin", change: set("Origin", ""), status: 403, reason: wire.Forbidden},
		{name: "origin with our host in front", change: set("Origin", "http://gw.example.com:8080.evil.com"), status: 403, reason: wire.Forbidden},
		{name: "origin with our host before a dot", change: set("Origin", "http://gw.example.com.evil.com:8080"), status: 403, reason: wire.Forbidden},
		{name: "origin with our host as user", change: set("Origin", "http://gw.example.com:8080@evil.com"), status: 403, reason: wire.Forbidden},
		{name: "origin on another port", change: set("Origin", "http://gw.example.com"), status: 403, reason: wire.Forbidden},
		{name: "origin with a path", change: set("Origin", "http://gw.example.com:8080/"), status: 403, reason: wire.Forbidden},
		{name: "two origins", change: set("Origin", "http://gw.example.com:8080", "http://evil.com"), status: 403, reason: wire.Forbidden},
		{name: "origin not listed", change: set("Origin", "http://gw.example.com:8080"), origins: []string{"https://app.example.com"}, status: 403, reason: wire.Forbidden},
		{name: "listed origin, other scheme", change: set("Origin", "http://app.example.com"), origins: []string{"https://app.example.com"}, status: 403, reason: wire.Forbidden},
		{name: "listed origin as suffix", change: set("Origin", "https://evilapp.example.com"), origins: []string{"https://app.example.com"}, status: 403, reason: wire.Forbidden},
		{name: "two authorizations", change: set("Authorization", "Bearer a", "Bearer a"), status: 400, reason: wire.InvalidRequest},
		{name: "basic", change: set("Authorization", "Basic ZGVtbzpkZW1v"), status: 401, reason: wire.InvalidToken, header: [2]string{"WWW-Authenticate", "Bearer"}},
		{name: "empty bearer", change: set("Authorization", "Bearer "), status: 401, reason: wire.InvalidToken},
		{name: "empty authorization", change: set("Authorization", ""), status: 401, reason: wire.InvalidToken},
		{name: "bearer of two words", change: set("Authorization", "Bearer a b"), status: 401, reason: wire.InvalidToken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := goodUpgrade()
			c.change(r)
			_, f := checkUpgrade(r, nil, c.origins, "")
			if f == nil {
				t.Fatal("accepted")
			}
			if f.Status != c.status || f.Reason != c.reason {
				t.Errorf("refused with %d %s, want %d %s", f.Status, f.Reason, c.status, c.reason)
			}
			if strings.Contains(f.Hint, "proxy_http_version 1.1") != c.proxied {
				t.Errorf("hint %q", f.Hint)
			}
			if c.header[0] != "" && f.Header.Get(c.header[0]) != c.header[1] {
				t.Errorf("header %v, want %q", f.Header, c.header)
			}
		})
	}
}

// TestInvalidExtensions checks the refusal of a header of extensions with invalid syntax.
func TestInvalidExtensions(t *testing.T) {
	r := goodUpgrade()
	r.header["Sec-Websocket-Extensions"] = []string{"permessage-deflate;"}
	if _, f := checkUpgrade(r, nil, nil, ""); f == nil || f.Status != 400 || f.Reason != wire.InvalidRequest {
		t.Errorf("refused with %+v", f)
	}
}

func TestSwitchingAnswer(t *testing.T) {
	h := upgrade{key: "dGhlIHNhbXBsZSBub25jZQ==", protocol: "rueda.v1.json"}
	// Key and response are the example of RFC 6455, section 1.3.
	want := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: rueda.v1.json\r\n\r\n"
	if got := string(h.appendSwitching(nil)); got != want {
		t.Errorf("got %q", got)
	}
	for c, extension := range map[deflate.Agreement]string{
		deflate.On:       "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
		deflate.OnWindow: "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15",
	} {
		h.compression = c
		answer := string(h.appendSwitching(nil))
		if answer != strings.TrimSuffix(want, "\r\n")+"Sec-WebSocket-Extensions: "+extension+"\r\n\r\n" {
			t.Errorf("compression %d: got %q", c, answer)
		}
	}
}

// TestRefusalFields checks that both ways of writing a refusal have the same fields, with the
// remaining limit for rate limits.
func TestRefusalFields(t *testing.T) {
	f := newHandshakeLimiter(20, 200).refusal(30 * time.Millisecond)
	for https, want := range map[web.HTTPS]string{web.NoHTTPS: "", web.HostHTTPS: "max-age=31536000"} {
		w := httptest.NewRecorder()
		f.Write(w, "req-1", https)
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(f.Append(nil, "req-1", https))), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Del("Connection")
		r.Header.Del("Content-Length")
		if !reflect.DeepEqual(r.Header, w.Header()) {
			t.Errorf("by hand %v\nby net/http %v", r.Header, w.Header())
		}
		for name, want := range map[string]string{
			"Ratelimit-Policy": `"handshakes";q=200;w=10`, "Ratelimit": `"handshakes";r=0;t=10`, "Retry-After": "1",
			"X-Ratelimit-Limit": "200", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "10",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("Strict-Transport-Security %q, want %q", got, want)
		}
	}
}

func TestRefusalEnvelope(t *testing.T) {
	f := unauthorized(wire.TokenExpired, `Say "again"`)
	f.Header.Set("Retry-After", "7")
	w := httptest.NewRecorder()
	f.Write(w, "req-1", web.NoHTTPS)
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || w.Header().Get("Retry-After") != "7" ||
		w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Request-Id") != "req-1" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	var body struct {
		Success *bool `json:"success"`
		Error   struct {
			Code      int    `json:"code"`
			Reason    string `json:"reason"`
			Msg       string `json:"msg"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if body.Success == nil || *body.Success || body.Error.Code != 401 || body.Error.Reason != "token_expired" ||
		body.Error.Msg != `Say "again"` || body.Error.RequestID != "req-1" {
		t.Errorf("got %s", w.Body)
	}
}

// FuzzUpgrade checks that no request panics, and that an accepted one is valid.
func FuzzUpgrade(f *testing.F) {
	f.Add(goodHandshake + "\r\n")
	f.Add(goodHandshake + "Origin: http://gw\r\nAuthorization: Bearer a.b.c\r\nSec-WebSocket-Protocol: x, rueda.v1.json\r\n\r\n")
	f.Add(goodHandshake + "Sec-WebSocket-Extensions: x, permessage-deflate; client_max_window_bits=\"10\"; server_max_window_bits=15\r\n\r\n")
	f.Add("POST /stream?token=x HTTP/1.0\r\nHost: gw\r\nConnection: ,,upgrade,\r\nUpgrade:websocket\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		request := upgradeRequest{r.Method, r.ProtoMajor, r.ProtoMinor, r.Host, r.URL.RawQuery, r.ContentLength != 0, r.Header}
		h, refused := checkUpgrade(&request, nil, nil, "")
		if refused != nil {
			if refused.Status < 400 || refused.Status > 426 || refused.Reason == "" || refused.Msg == "" {
				t.Errorf("refused with %+v", refused)
			}
			return
		}
		if len(h.key) != 24 || h.protocol != "" && h.protocol != h.format.Subprotocol() ||
			(h.format&wire.Deflate != 0) != (h.compression != deflate.Off) || strings.ContainsAny(h.token, " \r\n") {
			t.Errorf("accepted with %+v", h)
		}
	})
}
