package ndjson

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

const testToken = "token-of-the-producers-of-the-tests"

// withToken is a Hello with the right token.
const withToken = `{"type":"Hello","token":"` + testToken + `"}`

// untouched checks that nothing was published or defined, that n connections were refused, and that
// the source still serves an honest producer.
func untouched(t *testing.T, run *running, r *feedtest.Recorder, n int) {
	t.Helper()
	honest := run.connect().send(withToken, defineGGAL, tradeGGAL)
	same(t, wait(t, r, 1), []string{"GGAL|BYMA|24hs trade 120 at 7050"})
	honest.send("x")
	if got := honest.answer(); got.Line != 4 {
		t.Errorf("answered %+v", got)
	}
	for _, d := range r.Definitions() {
		if d.ID != ggal && d.ID.String() != "*|BYMA|*" {
			t.Errorf("defined %v", d.ID)
		}
	}
	s := run.source.Stats()
	for range 2_000 { // the last connections may be about to be counted
		if s.Refused == n {
			break
		}
		honest.send(tradeGGAL, "x") // a valid line in between, because faults in a row end the connection
		honest.answer()
		s = run.source.Stats()
	}
	if s.Refused != n || s.Producers != 1 {
		t.Errorf("%+v, want %d refused", s, n)
	}
}

// TestFeedInjection checks that a program without the token publishes nothing: web pages that send
// requests whose bodies are lines of the feed, and connections without a valid Hello. Each gets one
// error and is closed, and all of them leave one line in the log.
func TestFeedInjection(t *testing.T) {
	lines := strings.Join([]string{withToken, defineAL30, tradeGGAL, `{"type":"H","I":"*|BYMA|*","E":"halt"}`}, "\n") + "\n"
	request := func(head string) string {
		return head + "\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(lines), lines)
	}
	cases := []struct{ name, send, reason string }{
		{"POST of a web page", request("POST / HTTP/1.1"), "bad_message"},
		{"GET with a body", request("GET / HTTP/1.1"), "bad_message"},
		{"preflight", "OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n" + lines, "bad_message"},
		{"many requests in one connection", strings.Repeat(request("POST / HTTP/1.1"), 20), "bad_message"},
		{"method that looks like JSON", `"{"` + lines, "bad_message"},
		{"blank line first", "\n" + lines, "bad_message"},
		{"space first", " " + lines, "bad_message"},
		{"byte order mark", "\ufeff" + lines, "bad_message"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + lines, "bad_message"},
		{"TLS on a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + lines, "bad_message"},
		{"no hello", defineAL30 + "\n" + tradeGGAL + "\n", "not_authenticated"},
		{"no token", `{"type":"Hello"}` + "\n" + lines, "not_authenticated"},
		{"empty token", `{"type":"Hello","token":""}` + "\n" + lines, "not_authenticated"},
		{"wrong token", `{"type":"Hello","token":"` + testToken + `x"}` + "\n" + lines, "invalid_token"},
		{"beginning of the token", `{"type":"Hello","token":"` + testToken[:30] + `"}` + "\n" + lines, "invalid_token"},
		{"token of another type", `{"type":"Hello","token":["` + testToken + `"]}` + "\n" + lines, "bad_field"},
		{"two tokens", `{"type":"Hello","token":"x","token":"` + testToken + `"}` + "\n" + lines, "bad_json"},
		{"token in another case", `{"type":"Hello","Token":"` + testToken + `"}` + "\n" + lines, "not_authenticated"},
		{"type in another case", `{"type":"hello","token":"` + testToken + `"}` + "\n" + lines, "not_authenticated"},
		{"not JSON", `{"type":"Hello"` + "\n" + lines, "bad_json"},
		{"nested", strings.Repeat(`{"type":`, 500) + "\n" + lines, "bad_json"},
		{"bad name", `{"type":"Hello","token":"` + testToken + `","name":"a b"}` + "\n" + lines, "bad_field"},
		{"huge hello", `{"type":"Hello","token":"` + strings.Repeat("x", 1<<20) + `"}` + "\n" + lines, "message_too_big"},
		{"hello without an end", `{"type":"Hello","token":"` + testToken + `"}`, "bad_message"},
	}
	var r feedtest.Recorder
	var log lockedLog
	run := start(t, Config{Token: testToken, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &r)
	for _, c := range cases {
		conn := run.connect()
		_, _ = io.WriteString(conn.conn, c.send) // the source may have closed the connection
		_ = conn.conn.(*net.TCPConn).CloseWrite()
		if got := conn.answer(); got.Type != "Error" || got.Reason != c.reason {
			t.Errorf("%s: answered %+v, want %s", c.name, got, c.reason)
		}
		conn.closed()
	}
	untouched(t, run, &r, len(cases))
	if text := log.String(); strings.Count(text, "connections refused") != 1 || strings.Contains(text, testToken) {
		t.Errorf("logged %s", text)
	}
}

// TestWebPageIsRefused checks with a client of HTTP that a request gets no HTTP answer.
func TestWebPageIsRefused(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{Token: testToken}, &r)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		body := strings.NewReader(strings.Join([]string{withToken, defineAL30, tradeGGAL, ""}, "\n"))
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+run.addr.String()+"/", body)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(q); err == nil {
			answer.Body.Close()
			t.Errorf("%s: answered %s", method, answer.Status)
		}
	}
	untouched(t, run, &r, 2)
}

// TestHelloAtEveryByte checks that a Hello may arrive in two pieces, whatever they are, and may
// have members that this version does not know.
func TestHelloAtEveryByte(t *testing.T) {
	hello := `{"type":"Hello","token":"` + testToken + `","name":"a","future":{"x":[1]}}` + "\r\n"
	var r feedtest.Recorder
	run := start(t, Config{Token: testToken}, &r)
	for cut := range len(hello) {
		c := run.connect()
		if _, err := io.WriteString(c.conn, hello[:cut]); err != nil {
			t.Fatal(err)
		}
		c.send(hello[cut:]+defineGGAL, tradeGGAL, "x")
		if got := c.answer(); got.Reason != "bad_json" || got.Line != 4 {
			t.Fatalf("cut at %d: answered %+v", cut, got)
		}
		c.conn.Close()
	}
	if s := run.source.Stats(); s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSlowHello checks that a connection must send its Hello in time, even if it sends a byte now
// and then, and that silent connections do not keep a producer out.
func TestSlowHello(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{Token: testToken, HelloTimeout: 300 * time.Millisecond, MaxProducers: 4}, &r)
	silent, slow := run.connect(), run.connect()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for _, b := range []byte(withToken) {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := slow.conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}()
	for _, c := range []*client{silent, slow} {
		if got := c.answer(); got.Reason != "auth_timeout" || got.Code != 408 {
			t.Errorf("answered %+v", got)
		}
		c.closed()
	}
	untouched(t, run, &r, 2)
}

// TestHoardedConnections checks that connections without a Hello do not keep a producer out: the
// oldest of them are closed.
func TestHoardedConnections(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{Token: testToken, HelloTimeout: time.Minute, MaxProducers: 4}, &r)
	const hoarded = 50
	var idle []*client
	for range hoarded {
		idle = append(idle, run.connect())
	}
	for _, c := range idle[:hoarded-4] {
		c.in.Scan() // they are closed without an answer
		if text := c.in.Text(); text != "" {
			t.Errorf("answered %q", text)
		}
	}
	run.source.mu.Lock()
	pending := len(run.source.pending)
	run.source.mu.Unlock()
	if pending > 4 {
		t.Errorf("%d pending", pending)
	}
	untouched(t, run, &r, hoarded-4+1)
}

// TestSecretIsRequired checks that New refuses an address without a secret.
func TestSecretIsRequired(t *testing.T) {
	certificates := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	for _, tt := range []struct {
		config Config
		text   string // of the error; "": none
	}{
		{Config{Listen: "127.0.0.1:0"}, "a token is missing"},
		{Config{Listen: "127.0.0.1:0", TLS: &tls.Config{}}, "a token is missing"},
		{Config{Listen: "127.0.0.1:0", TLS: &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven}}, "a token is missing"},
		{Config{Listen: "127.0.0.1:0", Token: "short"}, "fewer than 32 characters"},
		{Config{Listen: "unix:feed.sock", Token: "short"}, "fewer than 32 characters"},
		{Config{Listen: "0.0.0.0:0", Token: testToken}, "not a loopback address"},
		{Config{Listen: "127.0.0.1:0", Token: testToken}, ""},
		{Config{Listen: "127.0.0.1:0", Anonymous: true}, ""},
		{Config{Listen: "0.0.0.0:0", Token: testToken, Insecure: true}, ""},
		{Config{Listen: "0.0.0.0:0", Token: testToken, TLS: &tls.Config{}}, ""},
		{Config{Listen: "0.0.0.0:0", TLS: certificates}, ""},
		{Config{Listen: "unix:feed.sock"}, ""},
	} {
		_, err := New(tt.config)
		if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%+v: %v, want %q", tt.config, err, tt.text)
		}
	}
}

// TestUnixSocket checks that only the owner may use the socket, that the socket of a process that
// was killed is replaced, and that one in use is not.
func TestUnixSocket(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "feed.sock")
	dead, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	var r feedtest.Recorder
	run := start(t, Config{Listen: "unix:" + path}, &r)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	c := run.dial().send(defineGGAL, tradeGGAL)
	wait(t, &r, 1)
	second, err := New(Config{Listen: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(context.Background()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("listened twice: %v", err)
	}
	run.stop()
	c.closed()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(context.Background()); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("listened on a file: %v", err)
	}
}

// TestClientCertificates checks that only a producer with a certificate of the configured authority
// gets in. The certificate replaces the token.
func TestClientCertificates(t *testing.T) {
	server, pool := issue(t, "server")
	client, clients := issue(t, "producer")
	other, _ := issue(t, "other")
	var r feedtest.Recorder
	var log lockedLog
	run := start(t, Config{
		TLS:    &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, &r)
	dial := func(own ...tls.Certificate) net.Conn {
		t.Helper()
		raw, err := net.Dial("tcp", run.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		// The server names its authorities; a hostile client sends its certificate anyway.
		conn := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(own) == 0 {
				return new(tls.Certificate), nil
			}
			return &own[0], nil
		}})
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	hostile := 0
	for name, c := range map[string]net.Conn{"none": dial(), "another": dial(other)} {
		hostile++
		_, _ = io.WriteString(c, strings.Join([]string{helloLine, defineAL30, ""}, "\n")) // TLS 1.3 reports a refusal at the next read
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			t.Errorf("%s: answered %q", name, line)
		}
	}
	plain := run.connect().send(helloLine, defineAL30) // not TLS
	hostile++
	plain.in.Scan()
	honest := run.client(dial(client)).send(helloLine, defineGGAL, tradeGGAL, "x")
	same(t, wait(t, &r, 2), []string{"GGAL|BYMA|24hs trade 120 at 7050", "GGAL|BYMA|24hs status gap unreadable_line"})
	if got := honest.answer(); got.Line != 4 {
		t.Errorf("answered %+v", got)
	}
	if s := run.source.Stats(); s.Refused != hostile || s.Producers != 1 {
		t.Errorf("%+v", s)
	}
}

// TestNameOfAnotherCertificate checks that a producer does not replace one with another client
// certificate by taking its name, and replaces one with its own.
func TestNameOfAnotherCertificate(t *testing.T) {
	server, dial := withCertificates(t)
	var r feedtest.Recorder
	run := start(t, Config{TLS: server}, &r)
	connect := func(subject string) *client {
		return run.client(dial(run.addr, subject)).send(`{"type":"Hello","name":"feed"}`, defineGGAL, tradeGGAL)
	}
	honest := connect("a")
	wait(t, &r, 1)
	if got := connect("b").answer(); got.Reason != "forbidden" {
		t.Errorf("another certificate: answered %+v", got)
	}
	connect("a")
	if got := honest.answer(); got.Reason != "replaced" {
		t.Errorf("the first connection: answered %+v", got)
	}
	wait(t, &r, 2)
}

// TestInstrumentsOfACertificate checks that a producer that has defined as many instruments as it
// may keeps no producer with another certificate from defining its own, and gets no more by a new
// connection.
func TestInstrumentsOfACertificate(t *testing.T) {
	server, dial := withCertificates(t)
	run := start(t, Config{MaxInstruments: 1, TLS: server}, new(feedtest.Recorder))
	define := func(subject, definition string) string {
		return run.client(dial(run.addr, subject)).send(`{"type":"Hello"}`, definition, "x").answer().Msg
	}
	const full = "line 2: definition refused: 1 instruments are defined, which is the limit"
	for _, c := range []struct{ subject, definition string }{{"a", defineGGAL}, {"b", defineAL30}} {
		if got := define(c.subject, c.definition); got == full {
			t.Errorf("%s: %s", c.subject, got)
		}
	}
	for _, subject := range []string{"a", "b"} {
		other := strings.Replace(defineGGAL, "GGAL|", "YPFD|", 1)
		if got := define(subject, other); got != full {
			t.Errorf("%s defines a second instrument: %s", subject, got)
		}
	}
}

// withCertificates returns the configuration of a server that needs client certificates, and a
// function that connects to it with a certificate for a subject.
func withCertificates(t *testing.T) (*tls.Config, func(to net.Addr, subject string) net.Conn) {
	t.Helper()
	server, pool := issue(t, "server")
	authority := certtest.NewAuthority(t, "producers")
	text, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(text)
	end := time.Now().Add(time.Hour)
	dial := func(to net.Addr, subject string) net.Conn {
		t.Helper()
		raw, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{authority.Issue(subject, end)}})
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	return &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}, dial
}

// issue returns a self-signed certificate and a pool that has it.
func issue(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	files := certtest.Write(t, t.TempDir(), name)
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return pair, pool
}
