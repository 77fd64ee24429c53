package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// raiseLimits allows many connections from one address.
func raiseLimits(c *Config) {
	c.HandshakeBurst, c.MaxUnauthenticatedPerAddress = 1<<30, 1<<30
}

// waitFor waits until another goroutine has done something.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	giveUp := time.After(time.Minute)
	for !done() {
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatalf("never came: %s", what)
		}
	}
}

// ask sends a request and reads the response.
func (p *testServer) ask(t *testing.T, request string) (*http.Response, []byte) {
	t.Helper()
	nc, err := p.tryDial()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &client{t: t, nc: nc}
	c.write(request)
	r, err := http.ReadResponse(newReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		checkHandshake(t, request, r, nil)
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkHandshake(t, request, r, body)
	return r, body
}

// described returns the checker of the OpenAPI document, compiled once.
var described = sync.OnceValues(func() (*openapitest.Checker, error) {
	document, err := openapi.PublicDocument()
	if err != nil {
		return nil, err
	}
	return openapitest.New(document)
})

// checkHandshake compares the answer to a handshake with the OpenAPI document. Package net/http
// answers what is not HTTP, without an X-Request-Id.
func checkHandshake(t *testing.T, request string, r *http.Response, body []byte) {
	t.Helper()
	if r.StatusCode == http.StatusBadRequest && r.Header.Get("X-Request-Id") == "" {
		return
	}
	c, err := described()
	if err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	x := &openapitest.Exchange{Method: method, Path: openapi.StreamPath, RequestHeader: http.Header{}, Status: r.StatusCode, Header: r.Header, Body: body}
	if err := c.Check(x); err != nil {
		t.Errorf("%q: %v", request, err)
	}
}

func TestEndpoint(t *testing.T) { forEachTransport(t, testEndpoint) }

func testEndpoint(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	good := goodHandshake
	cases := []struct {
		name, request string
		status        int
		reason        string
		header        [2]string
	}{
		{"good", good + "\r\n", 101, "", [2]string{"Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}},
		{"extension offered", good + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 101, "", [2]string{"Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover; client_no_context_takeover"}},
		{"subprotocol", good + "Sec-WebSocket-Protocol: a, rueda.v1.json\r\n\r\n", 101, "", [2]string{"Sec-WebSocket-Protocol", "rueda.v1.json"}},
		{"plain GET", "GET /stream HTTP/1.1\r\nHost: gw\r\n\r\n", 426, "upgrade_required", [2]string{"Upgrade", "websocket"}},
		{"version 8", strings.Replace(good, "13", "8", 1) + "\r\n", 426, "upgrade_required", [2]string{"Sec-WebSocket-Version", "13"}},
		{"POST", strings.Replace(good, "GET", "POST", 1) + "\r\n", 405, "method_not_allowed", [2]string{"Allow", "GET"}},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1) + "\r\n", 400, "invalid_request", [2]string{}},
		{"body", good + "Content-Length: 2\r\n\r\n{}", 400, "invalid_request", [2]string{}},
		{"chunked body", good + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "invalid_request", [2]string{}},
		{"no key", strings.Replace(good, "-Key", "-Kay", 1) + "\r\n", 400, "invalid_request", [2]string{}},
		{"two keys", good + "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 400, "invalid_request", [2]string{}},
		{"token in the URL", strings.Replace(good, "/stream", "/stream?token=secret", 1) + "\r\n", 400, "invalid_request", [2]string{}},
		{"foreign origin", good + "Origin: https://evil.com\r\n\r\n", 403, "forbidden", [2]string{}},
		{"null origin", good + "Origin: null\r\n\r\n", 403, "forbidden", [2]string{}},
		{"own origin", good + "Origin: https://gw\r\n\r\n", 101, "", [2]string{}},
		{"bearer", good + "Authorization: Bearer ana\r\n\r\n", 101, "", [2]string{}},
		{"bad bearer", good + "Authorization: Bearer bad\r\n\r\n", 401, "invalid_token", [2]string{"WWW-Authenticate", "Bearer"}},
		{"expired bearer", good + "Authorization: Bearer expired\r\n\r\n", 401, "token_expired", [2]string{"WWW-Authenticate", "Bearer"}},
		{"bearer not checked", good + "Authorization: Bearer down\r\n\r\n", 503, "unavailable", [2]string{"Retry-After", "3"}},
		{"bearer check fails", good + "Authorization: Bearer panic\r\n\r\n", 500, "internal", [2]string{}},
		{"two bearers", good + "Authorization: Bearer ana\r\nAuthorization: Bearer bob\r\n\r\n", 400, "invalid_request", [2]string{}},
		{"own request id", "GET /stream HTTP/1.1\r\nHost: gw\r\nX-Request-Id: mine-1\r\n\r\n", 426, "upgrade_required", [2]string{"X-Request-Id", "mine-1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, body := s.ask(t, c.request)
			if r.StatusCode != c.status {
				t.Fatalf("answered %s %s", r.Status, body)
			}
			if c.header[0] != "" && r.Header.Get(c.header[0]) != c.header[1] {
				t.Errorf("%s is %q, want %q", c.header[0], r.Header.Get(c.header[0]), c.header[1])
			}
			if c.status == 101 {
				return
			}
			var envelope struct {
				Success bool
				Error   struct {
					Code      int
					Reason    string
					Msg       string
					RequestID string `json:"request_id"`
				}
			}
			if err := json.Unmarshal(body, &envelope); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			e := envelope.Error
			if envelope.Success || e.Code != c.status || e.Reason != c.reason || e.Msg == "" ||
				e.RequestID == "" || e.RequestID != r.Header.Get("X-Request-Id") {
				t.Errorf("body %s", body)
			}
			if bytes.Contains(body, []byte("secret")) {
				t.Errorf("the answer repeats the token: %s", body)
			}
		})
	}
	waitFor(t, "every connection gone", func() bool { return s.Stats().Open == 0 })
}

// TestPipelined checks that input in the same segment as the handshake is handled once, and in
// order.
func TestPipelined(t *testing.T) { forEachTransport(t, testPipelined) }

func testPipelined(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	c := s.connect(frame(opText, `{"action":"auth_token","token":"ana"}`) + frame(opText, `{"action":"ping","id":1}`) +
		frame(opPing, "p") + frame(opText, `{"action":"ping","id":2}`)[:9])
	c.want(`"type":"Success"`)
	c.want(`"id":1`)
	if opcode, payload, err := c.next(); opcode != opPong || payload != "p" || err != nil {
		t.Fatalf("got opcode %d %q, %v, want the pong", opcode, payload, err)
	}
	c.write(frame(opText, `{"action":"ping","id":2}`)[9:])
	c.want(`"id":2`)
	c.echo("3")
}

// TestBearerAtHandshake checks that Success comes immediately.
func TestBearerAtHandshake(t *testing.T) { forEachTransport(t, testBearerAtHandshake) }

func testBearerAtHandshake(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	nc := s.dial()
	b := newClient(t, nc)
	b.write(goodHandshake + "Authorization: Bearer bob\r\n\r\n")
	if r, err := http.ReadResponse(b.r, nil); err != nil || r.StatusCode != 101 {
		t.Fatal(r, err)
	}
	b.want(`{"type":"Success","code":200,"msg":"Connected"`)
	b.echo("1")
	if got := s.Stats(); got.Unauthenticated != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestHandshakeLimit checks the response to an address with too many handshakes.
func TestHandshakeLimit(t *testing.T) { forEachTransport(t, testHandshakeLimit) }

func testHandshakeLimit(t *testing.T, tr transport) {
	s := openServer(t, tr, func(c *Config) { c.HandshakeBurst, c.HandshakeRate = 2, 0.01 })
	for range 2 {
		if r, _ := s.ask(t, goodHandshake+"\r\n"); r.StatusCode != 101 {
			t.Fatalf("within the burst: %s", r.Status)
		}
	}
	r, body := s.ask(t, goodHandshake+"\r\n")
	if r.StatusCode != 429 || !bytes.Contains(body, []byte(`"rate_limited"`)) || r.Header.Get("Retry-After") == "" {
		t.Errorf("past the burst: %s %s, Retry-After %q", r.Status, body, r.Header.Get("Retry-After"))
	}
}

// TestSlowHandshake checks that an incomplete handshake ends at the HTTP server's
// ReadHeaderTimeout.
func TestSlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		h := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
		served := make(chan error)
		go func() { served <- h.Serve(l) }()
		near, far := net.Pipe()
		l.conns <- far
		begin := time.Now()
		c := &client{t: t, nc: near}
		c.write(goodHandshake) // without its last line
		if answer, err := io.ReadAll(near); err != nil || bytes.Contains(answer, []byte(" 101 ")) {
			t.Errorf("got %q, %v", answer, err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("cut off after %v", took)
		}
		h.Close()
		<-served
	})
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestVanishing checks that connections which break off in any way are cleaned up without an effect
// on others.
func TestVanishing(t *testing.T) { forAllTransports(t, testVanishing) }

func testVanishing(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	other := s.connect("")
	other.auth("other")
	manners := []struct {
		name string
		do   func(c *client, nc *net.TCPConn) error
	}{
		{"closed", func(c *client, nc *net.TCPConn) error { return nc.Close() }},
		{"half closed", func(c *client, nc *net.TCPConn) error { return nc.CloseWrite() }},
		{"reset", func(c *client, nc *net.TCPConn) error {
			nc.SetLinger(0)
			return nc.Close()
		}},
		{"reset in a frame", func(c *client, nc *net.TCPConn) error {
			c.write(frame(opText, "cut off")[:7])
			nc.SetLinger(0)
			return nc.Close()
		}},
		{"closed in a fragmented message", func(c *client, nc *net.TCPConn) error {
			c.write(part(opText, "cut off"))
			return nc.Close()
		}},
		{"reset right after a request", func(c *client, nc *net.TCPConn) error {
			c.send(`{"action":"ping","id":1}`)
			nc.SetLinger(0)
			return nc.Close()
		}},
		{"closed with a check out", func(c *client, nc *net.TCPConn) error {
			c.send(`{"action":"auth_token","token":"slow"}`)
			c.send(`{"action":"ping","id":1}`) // stays in the socket, with the end behind it
			return nc.Close()
		}},
		{"half closed behind a check and a lot", func(c *client, nc *net.TCPConn) error {
			c.send(`{"action":"auth_token","token":"slow"}`)
			c.write(strings.Repeat(frame(opText, `{"action":"pong"}`), 3*readBufferSize/25))
			return nc.CloseWrite()
		}},
	}
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			c := s.connect("")
			c.t = t
			if err := m.do(c, tcpConn(c.nc)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the connection gone", func() bool { return s.Stats().Open == 1 })
			other.echo(m.name)
		})
	}
}

// TestCyclesOverTCP connects and disconnects many times concurrently, and checks that nothing is
// left and that a permanent connection is served all the time.
func TestCyclesOverTCP(t *testing.T) { forEachTransport(t, testCyclesOverTCP) }

func testCyclesOverTCP(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	stays := s.connect("")
	stays.auth("stays")
	const workers = 4
	cycles := soak(10_000)
	switch {
	case tr.secure && tr.loop:
		cycles /= 4 // a TLS handshake is as much work as everything else
	case tr.secure:
		cycles /= 40 // a violation leads to two seconds of silence here
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range cycles / workers {
				cycle(t, s, i*workers+w)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
			stays.echo("1")
		}
	}
	waitFor(t, "every connection gone", func() bool { return s.Stats().Open == 1 })
	own := 0
	if !tr.loop {
		own = 2
	}
	waitFor(t, "every goroutine gone", func() bool { return goroutines(t) == own })
}

// goroutines returns the number of goroutines of connections.
func goroutines(t *testing.T) int {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return strings.Count(stacks.String(), "socket.(*netConn).read(") + strings.Count(stacks.String(), "socket.(*netConn).write(")
}

// cycle makes a connection that ends in the i-th way. It reports with t.Error, because it runs on
// its own goroutine.
func cycle(t *testing.T, s *testServer, i int) {
	nc, err := s.tryDial()
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	in := goodHandshake + "\r\n"
	switch i % 6 {
	case 0:
		in += frame(opText, `{"action":"auth_token","token":"ana"}`) + closing(1000, "")
	case 1:
		in += frame(opText, `{"action":"auth_token","token":"bad"}`)
	case 2:
		in += "\x81\x00 not masked"
	case 3:
		in += frame(opText, "cut")[:4]
	case 4:
		in = in[:20+i%100]
	}
	if _, err := io.WriteString(nc, in); err != nil {
		t.Error(err)
		return
	}
	switch i % 6 {
	case 0, 2: // the server ends it
		// On a busy machine two seconds may not be enough to close in order.
		if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("manner %d: %v", i%6, err)
		}
	case 3:
		tcpConn(nc).SetLinger(0)
	}
}
