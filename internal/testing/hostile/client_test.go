//go:build unix

package hostile

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// attacker is the client of one input. It has its own addresses.
type attacker struct {
	*testing.T
	*server
	n       int // the input's number
	network int
	next    *atomic.Int32 // address
	source  string        // address of all requests; "": another one each
}

// from returns the address of the attacker, or one that no other input uses.
func (a *attacker) from() string {
	if a.source != "" {
		return a.source
	}
	k := int(a.next.Add(1))
	return fmt.Sprintf("127.%d.%d.%d", 10+a.network, k/200+1, k%200+1)
}

// user returns the name of the user that only this input uses. The message rate is limited by user.
func (a *attacker) user() string { return fmt.Sprintf("input%d", a.n) }

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   []byte
	reason string
	data   map[string]any
}

// raw sends text and returns what the server sends until it closes, or until patience has passed.
func (a *attacker) raw(text string, patience time.Duration) []byte {
	a.Helper()
	nc, err := a.dial(a.from())
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, text); err != nil && !isDisconnect(err) {
		a.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(nc)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !isDisconnect(err) {
		a.Fatal(err)
	}
	return got
}

// first sends text and returns the header of the answer.
func (a *attacker) first(text string) []byte {
	a.Helper()
	nc, err := a.dial(a.from())
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, text); err != nil && !isDisconnect(err) {
		a.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	var got []byte
	for r := bufio.NewReader(nc); !bytes.Contains(got, []byte("\r\n\r\n")); {
		line, err := r.ReadBytes('\n')
		got = append(got, line...)
		if err != nil {
			break
		}
	}
	return got
}

// isDisconnect reports whether an error means that the peer has closed the connection.
func isDisconnect(err error) bool {
	text := err.Error()
	return strings.Contains(text, "reset by peer") || strings.Contains(text, "broken pipe") || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// status returns the status of a raw answer; 0 if there is none.
func status(answer []byte) int {
	var major, minor, code int
	if _, err := fmt.Fscanf(bytes.NewReader(answer), "HTTP/%d.%d %d", &major, &minor, &code); err != nil {
		return 0
	}
	return code
}

// request sends a request with headers in pairs. It adds the length of the body.
func (a *attacker) request(method, target, body string, headers ...string) *reply {
	a.Helper()
	return a.requestFrom(a.from(), method, target, body, headers...)
}

func (a *attacker) requestFrom(address, method, target, body string, headers ...string) *reply {
	a.Helper()
	nc, err := a.dial(address)
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	r, err := roundTrip(nc, method, target, body, headers...)
	if err != nil {
		a.Fatalf("%s %.60s: %v", method, target, err)
	}
	if r.status >= 500 && r.status != http.StatusServiceUnavailable && r.status != http.StatusNotImplemented {
		a.Errorf("%s %.60s: status %d: %s", method, target, r.status, r.body)
	}
	return r
}

func roundTrip(nc net.Conn, method, target, body string, headers ...string) (*reply, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n", method, target)
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if body != "" && !slices.Contains(headers, "Transfer-Encoding") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(nc, b.String()); err != nil && !isDisconnect(err) {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{status: res.StatusCode, header: res.Header}
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return nil, err
	}
	x := &openapitest.Exchange{Method: method, RequestHeader: http.Header{}, RequestBody: []byte(body), Status: r.status, Header: r.header, Body: r.body}
	x.Path, x.Query, _ = strings.Cut(target, "?")
	for i := 0; i+1 < len(headers); i += 2 {
		x.RequestHeader.Add(headers[i], headers[i+1])
	}
	openapitest.Record(x)
	var e struct {
		Data  map[string]any
		Error struct{ Reason string }
	}
	if json.Unmarshal(r.body, &e) == nil {
		r.reason, r.data = e.Error.Reason, e.Data
	}
	return r, nil
}

const asJSON = "application/json"

// post sends a body to the token endpoint.
func (a *attacker) post(body string, headers ...string) *reply {
	a.Helper()
	if !slices.Contains(headers, "Content-Type") {
		headers = append(headers, "Content-Type", asJSON)
	}
	return a.request(http.MethodPost, "/auth/token", body, headers...)
}

// get requests the accounts with a token.
func (a *attacker) get(token string) *reply {
	a.Helper()
	return a.request(http.MethodGet, "/broker/accounts", "", "Authorization", "Bearer "+token)
}

// want checks a status and, unless it is "", a reason.
func (a *attacker) want(what string, r *reply, status int, reason string) {
	a.Helper()
	if r.status != status || reason != "" && r.reason != reason {
		a.Errorf("%s: %d %s, want %d %s: %.200s", what, r.status, r.reason, status, reason, r.body)
	}
}

// tokens is an answer of the token endpoint.
type tokens struct{ access, refresh string }

func tokensOf(r *reply) tokens {
	text := func(name string) string { s, _ := r.data[name].(string); return s }
	return tokens{text("access_token"), text("refresh_token")}
}

// login logs in.
func (a *attacker) login(name string) tokens {
	a.Helper()
	body, err := json.Marshal(map[string]string{"grant_type": "password", "username": name, "password": passwordOf(name)})
	if err != nil {
		a.Fatal(err)
	}
	r := a.post(string(body))
	for end := time.Now().Add(time.Minute); r.status == 503 && time.Now().Before(end); {
		<-time.After(100 * time.Millisecond) // the queue of password checks may be full
		r = a.post(string(body))
	}
	if r.status != 200 {
		a.Fatalf("log in as %s: %d %s", name, r.status, r.body)
	}
	return tokensOf(r)
}

// token returns an access token of a user. All inputs share it.
func (a *attacker) token(name string) string {
	a.Helper()
	a.mu.Lock()
	had, ok := a.logins[name]
	a.mu.Unlock()
	if !ok {
		had = a.login(name)
		a.mu.Lock()
		a.logins[name] = had
		a.mu.Unlock()
	}
	return had.access
}

func (a *attacker) refresh(token string) *reply {
	a.Helper()
	return a.post(`{"grant_type":"refresh_token","refresh_token":"` + token + `"}`)
}

// socket is the client side of a stream connection.
type socket struct {
	*attacker
	nc     net.Conn
	r      *bufio.Reader
	checks asyncapitest.Conversation
}

// open opens a stream connection, with headers in pairs.
func (a *attacker) open(headers ...string) *socket {
	a.Helper()
	s, err := a.tryOpen(a.from(), headers...)
	if err != nil {
		a.Fatal(err)
	}
	return s
}

const upgrade = "GET /stream HTTP/1.1\r\nHost: gateway.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

func (a *attacker) tryOpen(address string, headers ...string) (*socket, error) {
	nc, err := a.dial(address)
	if err != nil {
		return nil, err
	}
	head := upgrade
	for i := 0; i+1 < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(nc, head+"\r\n"); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	r := bufio.NewReader(nc)
	res, err := http.ReadResponse(r, nil)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("handshake refused with %d", res.StatusCode)
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	s := &socket{attacker: a, nc: nc, r: r}
	a.Cleanup(func() {
		nc.Close()
		if err := s.checks.Err(); err != nil {
			a.Error(err)
		}
	})
	return s, nil
}

// authenticated returns a socket with a login of a user.
func (a *attacker) authenticated(name string) *socket {
	a.Helper()
	token := a.token(name) // first: a login may take longer than a socket has to authenticate
	s := a.open()
	s.send(`{"action":"auth_token","token":"` + token + `"}`)
	s.expect("Success", 200, "")
	return s
}

const (
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	fin        = 0x80
	compressed = 0x40
)

// frame sends a masked frame; head is FIN, RSV and opcode.
func (s *socket) frame(head byte, payload []byte) {
	s.Helper()
	if err := s.tryFrame(head, payload); err != nil && !isDisconnect(err) && !errors.Is(err, net.ErrClosed) {
		s.Fatal(err)
	}
}

func (s *socket) tryFrame(head byte, payload []byte) error {
	_, err := s.nc.Write(appendFrame(nil, head, payload))
	return err
}

func appendFrame(b []byte, head byte, payload []byte) []byte {
	b = append(b, head)
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	b = append(b, 0, 0, 0, 0) // a mask of zeros leaves the payload as it is
	return append(b, payload...)
}

// send sends a message. If the contract does not allow it, the server must refuse it.
func (s *socket) send(text string) {
	s.Helper()
	s.checks.Sent([]byte(text))
	s.frame(fin|opText, []byte(text))
}

// message is a control message, or the end of the connection.
type message struct {
	Type, Reason string
	Code         int
	Action       string
	Removed      []map[string]any
	Rejected     []map[string]any
	Trades       []string
	ID           any
	closed       int // close code; -1: the connection ended without one
	text         string
}

// next returns the next message or the end of the connection.
func (s *socket) next() message {
	for {
		op, payload, err := s.read()
		if err != nil {
			s.checks.End()
			return message{closed: -1, text: err.Error()}
		}
		switch op {
		case opClose:
			if len(payload) < 2 {
				return message{closed: 1005}
			}
			m := message{closed: int(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
			if m.closed >= 4000 {
				s.checks.Closed(uint16(m.closed), m.Reason)
			}
			s.checks.End()
			return m
		case opText:
			s.checks.Received(payload)
			m := message{text: string(payload)}
			_ = json.Unmarshal(payload, &m)
			return m
		}
	}
}

func (s *socket) read() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	var long [8]byte
	switch n {
	case 126:
		_, err = io.ReadFull(s.r, long[6:])
		n = binary.BigEndian.Uint64(long[:])
	case 127:
		_, err = io.ReadFull(s.r, long[:])
		n = binary.BigEndian.Uint64(long[:])
	}
	if err != nil || n > 16<<20 {
		return 0, nil, errors.Join(err, fmt.Errorf("a frame of %d bytes", n))
	}
	payload = make([]byte, n)
	if _, err = io.ReadFull(s.r, payload); err == nil && head[0]&compressed != 0 {
		payload, err = inflate(payload)
	}
	return head[0] & 0xf, payload, err
}

// inflate decompresses a message of the server (RFC 7692).
func inflate(payload []byte) ([]byte, error) {
	// What the sender omitted, and an empty last block.
	tail := strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")
	return io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(payload), tail)))
}

// expect checks the next control message, after data, pings and pongs.
func (s *socket) expect(kind string, code int, reason string) message {
	s.Helper()
	m := s.control()
	if m.closed != 0 || m.Type != kind || m.Code != code || reason != "" && m.Reason != reason {
		s.Fatalf("got %s%d %s %s, want %s %d %s", m.text, m.closed, m.Type, m.Reason, kind, code, reason)
	}
	return m
}

func (s *socket) control() message {
	for {
		m := s.next()
		if m.closed != 0 || len(m.Type) > 1 {
			return m
		}
	}
}

// ends reads until the connection ends and checks its close code. -1 stands for an end without one.
func (s *socket) ends(codes ...int) message {
	s.Helper()
	for {
		m := s.next()
		if m.closed == 0 {
			continue
		}
		if !slices.Contains(codes, m.closed) {
			s.Errorf("closed %d %s (%s), want %v", m.closed, m.Reason, m.text, codes)
		}
		return m
	}
}

// refuses expects an Error and then a close.
func (s *socket) refuses(code int, reason string, closed int) {
	s.Helper()
	for {
		m := s.control()
		if m.closed != 0 {
			s.Fatalf("closed %d %s before the Error %s", m.closed, m.text, reason)
		}
		if m.Type == "Error" && m.Reason == reason && m.Code == code {
			break
		}
	}
	s.ends(closed)
}

// alive checks that the connection still answers.
func (s *socket) alive() {
	s.Helper()
	s.send(`{"action":"subscriptions","id":"alive"}`)
	for {
		m := s.control()
		if m.closed != 0 {
			s.Fatalf("closed %d %s %s, want it open", m.closed, m.Reason, m.text)
		}
		if m.ID == "alive" {
			return
		}
	}
}
