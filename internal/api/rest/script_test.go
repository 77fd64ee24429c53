package rest_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/wire"
)

// TestScripts plays testdata/*.http over loopback TCP. A script is text:
//
//	== name                    a case, on a new connection; the gateway is the file's
//	! store down               something happens to the gateway
//	> GET /livez HTTP/1.1      a request: line and fields, an empty line, the body;
//	>                          Host and Content-Length are added where they are missing
//	>> GET /livez HTTP/1.1     the same, with nothing added
//	< 200                      the answer's status,
//	< Cache-Control: no-store  a field of it ("*": any value),
//	< !Retry-After             a field that must not be there,
//	< {"success":true}         members that its body must have,
//	< lacks "next_cursor"      a text that it must not have,
//	< empty                    no body,
//	< closed                   the server closes the connection after it,
//	< none                     no answer, the connection is closed
//
// In an expected body "$name" takes the value at first and compares it later, "$_"
// takes anything. In what is sent ${name} is such a value, ${repeat:x:n} is x n times,
// ${hex:..} is bytes; for ${otp:secret} see TestCredentialScripts. Lines starting with # are
// comments. Whatever a script says, each JSON answer must be an envelope in agreement with the
// status and X-Request-Id.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			past := newArchive(t, journal.Config{}, func(c *rest.Config, a *auth.Config) {
				c.Stream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
				c.PublicURL = func() string { return "https://api.broker.example" }
				a.Throttle = throttle.Config{AddressBurst: 10_000, AccountFree: 10_000}
			})
			past.trades(ggal, 30)
			s := &script{t: t, gateway: past.gateway, file: file, vars: map[string]string{"epoch": past.journal.Epoch()}, address: past.serve(t)}
			s.play(string(text))
		})
	}
}

// script is a file that is being run.
type script struct {
	t       *testing.T
	gateway *gateway
	local   *local.Base // of TestCredentialScripts
	file    string
	address string
	name    string
	line    int
	vars    map[string]string
	conn    net.Conn
	reader  *bufio.Reader

	sent     []string // the lines of the request
	raw      bool
	response *http.Response
	body     []byte
	err      error
}

func (s *script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s:%d: %s: %s", s.file, s.line, s.name, fmt.Sprintf(format, args...))
}

func (s *script) play(text string) {
	defer s.hangUp()
	for i, line := range strings.Split(text, "\n") {
		s.line = i + 1
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
		case "==":
			s.hangUp()
			s.name = rest
		case "!":
			s.happen(rest)
		case ">", ">>":
			if s.response != nil || s.err != nil {
				s.response, s.err = nil, nil
			}
			s.raw = kind == ">>"
			s.sent = append(s.sent, rest)
		case "<":
			if s.sent != nil {
				s.exchange()
			}
			s.expect(rest)
		default:
			s.fatalf("line not understood: %q", line)
		}
	}
}

func (s *script) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

func (s *script) happen(what string) {
	g := s.gateway
	switch what {
	case "users down":
		g.users.set(func() { g.users.down = true })
	case "users up":
		g.users.set(func() { g.users.down = false })
	case "store down":
		g.store.set(true)
	case "store up":
		g.store.set(false)
	case "not ready":
		g.sick.Store(true)
	case "ready":
		g.sick.Store(false)
	case "disable basic":
		g.users.set(func() { g.users.disabled["u2"] = true })
	default:
		s.happenToUsers(what)
	}
}

var expansion = regexp.MustCompile(`\$\{([a-z_0-9]+)(?::([^:}]*))?(?::([0-9]+))?\}`)

func (s *script) expand(text string) string {
	return expansion.ReplaceAllStringFunc(text, func(m string) string {
		part := expansion.FindStringSubmatch(m)
		switch part[1] {
		case "repeat":
			n, _ := strconv.Atoi(part[3])
			return strings.Repeat(part[2], n)
		case "hex":
			b, err := hex.DecodeString(part[2])
			if err != nil {
				s.fatalf("%v", err)
			}
			return string(b)
		case "otp":
			ahead, _ := strconv.ParseInt(part[3], 10, 64)
			return oneTimePassword(s.t, s.vars[part[2]], ahead)
		}
		v, ok := s.vars[part[1]]
		if !ok {
			s.fatalf("no value %q", part[1])
		}
		return v
	})
}

// exchange sends the request and reads the answer.
func (s *script) exchange() {
	s.t.Helper()
	end := len(s.sent)
	for i, line := range s.sent {
		if line == "" {
			end = i
			break
		}
	}
	head, body := s.sent[:end], strings.Join(s.sent[min(end+1, len(s.sent)):], "\n")
	for i := range head {
		head[i] = s.expand(head[i])
	}
	body = s.expand(body)
	s.sent = nil
	if !s.raw {
		if !hasField(head, "Host") {
			head = append(head, "Host: rueda.test")
		}
		if body != "" && !hasField(head, "Content-Length") && !hasField(head, "Transfer-Encoding") {
			head = append(head, "Content-Length: "+strconv.Itoa(len(body)))
		}
	} else {
		body = strings.ReplaceAll(body, "\n", "\r\n")
	}
	if s.conn == nil {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			s.fatalf("%v", err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		s.conn, s.reader = c, bufio.NewReader(c)
	}
	// The answer may arrive and the connection end before everything was sent.
	_, _ = io.WriteString(s.conn, strings.Join(head, "\r\n")+"\r\n\r\n"+body)
	method, _, _ := strings.Cut(head[0], " ")
	s.response, s.err = http.ReadResponse(s.reader, &http.Request{Method: method})
	if s.err != nil {
		return
	}
	s.body, s.err = io.ReadAll(s.response.Body)
	if s.err != nil {
		s.fatalf("read the answer: %v", s.err)
	}
	s.checkEnvelope()
}

func hasField(head []string, name string) bool {
	for _, line := range head[1:] {
		if n, _, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// checkEnvelope checks the rules for all answers.
func (s *script) checkEnvelope() {
	s.t.Helper()
	if len(s.body) == 0 || s.response.StatusCode == http.StatusTeapot || strings.HasPrefix(s.response.Header.Get("Content-Type"), "text/html;") {
		return
	}
	if got := s.response.Header.Get("Content-Type"); got != "application/json" {
		s.fatalf("Content-Type is %q: %s", got, s.body)
	}
	if s.response.Header.Get("X-Content-Type-Options") != "nosniff" {
		s.fatalf("sniffing is not refused")
	}
	v, err := wire.ParseJSON(bytes.TrimSuffix(s.body, []byte("\n")))
	if err != nil {
		s.fatalf("body is bad: %v: %s", err, s.body)
	}
	if flat(&v) {
		return
	}
	success, failure := v.Get("success"), v.Get("error")
	if success.Kind != wire.Bool || success.True != (s.response.StatusCode < 400) || success.True != (failure.Kind == wire.Absent) {
		s.fatalf("status %d with %s", s.response.StatusCode, s.body)
	}
	if success.True {
		if data := v.Get("data"); data.Kind != wire.Object {
			s.fatalf("data is no object: %s", s.body)
		}
		return
	}
	if code := failure.Get("code"); code.Text != strconv.Itoa(s.response.StatusCode) {
		s.fatalf("status %d with %s", s.response.StatusCode, s.body)
	}
	if id := failure.Get("request_id"); id.Text == "" || id.Text != s.response.Header.Get("X-Request-Id") {
		s.fatalf("X-Request-Id %q with %s", s.response.Header.Get("X-Request-Id"), s.body)
	}
	if msg := failure.Get("msg"); msg.Text == "" {
		s.fatalf("an error without text: %s", s.body)
	}
}

// flat reports whether a body has a form of another standard, without the envelope.
func flat(v *wire.Value) bool {
	failure, id := v.Get("error"), v.Get("request_id")
	return len(v.Fields) == 0 || v.Get("keys").Kind == wire.Array || v.Get("issuer").Kind == wire.String || v.Get("access_token").Kind == wire.String || v.Get("openapi").Kind == wire.String || v.Get("asyncapi").Kind == wire.String ||
		failure.Kind == wire.String && id.Text != ""
}

func (s *script) expect(what string) {
	s.t.Helper()
	if what == "none" {
		if s.err == nil {
			s.fatalf("got an answer: %d %s", s.response.StatusCode, s.body)
		}
		return
	}
	if s.err != nil {
		s.fatalf("no answer: %v", s.err)
	}
	name, value, isField := strings.Cut(what, ": ")
	switch {
	case strings.HasPrefix(what, "{"):
		s.expectBody(what)
	case strings.HasPrefix(what, "lacks "):
		if text := s.expand(strings.TrimPrefix(what, "lacks ")); bytes.Contains(s.body, []byte(text)) {
			s.fatalf("body has %s: %s", text, s.body)
		}
	case what == "empty":
		if len(s.body) > 0 {
			s.fatalf("got a body: %s", s.body)
		}
	case what == "closed":
		if _, err := s.reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			s.fatalf("the connection is open: %v", err)
		}
		s.hangUp()
	case strings.HasPrefix(what, "!"):
		if got, ok := s.response.Header[http.CanonicalHeaderKey(what[1:])]; ok {
			s.fatalf("got %s: %q", what[1:], got)
		}
	case isField:
		got := s.response.Header.Values(name)
		if len(got) != 1 || value != "*" && got[0] != s.expand(value) && !s.bind(value, got[0]) {
			s.fatalf("%s is %q, want %q", name, got, value)
		}
	default:
		if got := strconv.Itoa(s.response.StatusCode); got != what {
			s.fatalf("status is %s, want %s: %s", got, what, s.body)
		}
	}
}

// bind stores or compares a value whose pattern is "$name".
func (s *script) bind(pattern, got string) bool {
	name, ok := strings.CutPrefix(pattern, "$")
	if !ok || strings.HasPrefix(name, "{") {
		return false
	}
	if name == "_" {
		return true
	}
	known, ok := s.vars[name]
	if !ok {
		s.vars[name] = got
		return true
	}
	return known == got
}

func (s *script) expectBody(want string) {
	s.t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(s.expand(want)), &w); err != nil {
		s.fatalf("expected body: %v", err)
	}
	if err := json.Unmarshal(s.body, &g); err != nil {
		s.fatalf("body: %v: %s", err, s.body)
	}
	if place := s.differ("", w, g); place != "" {
		s.fatalf("body differs at %s:\n got %s\nwant %s", place, s.body, want)
	}
}

// differ returns where got lacks something of want, or "". Arrays must have the same length.
func (s *script) differ(place string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return place + "."
		}
		for name, v := range w {
			member, ok := g[name]
			if !ok {
				return place + "." + name
			}
			if p := s.differ(place+"."+name, v, member); p != "" {
				return p
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return place + "[]"
		}
		for i := range w {
			if p := s.differ(fmt.Sprintf("%s[%d]", place, i), w[i], g[i]); p != "" {
				return p
			}
		}
		return ""
	case string:
		if g, ok := got.(string); ok && s.bind(w, g) || w == "$_" {
			return ""
		}
	}
	if !reflect.DeepEqual(want, got) {
		return place + "."
	}
	return ""
}
