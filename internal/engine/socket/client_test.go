package socket

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// verify is the token check of the tests. The token is the user's name, except for some special
// ones.
func verify(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
	switch {
	case token == "expired":
		return nil, &wire.Fault{Reason: wire.TokenExpired}
	case token == "down":
		return nil, &wire.Fault{Reason: wire.Overloaded, RetryAfter: 3}
	case token == "panic":
		panic("secret of the token")
	case token == "slow":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return nil, &wire.Fault{Reason: wire.Overloaded}
		}
	case token == "stuck":
		<-ctx.Done()
		return nil, &wire.Fault{Reason: wire.Overloaded}
	case strings.HasPrefix(token, "bad"):
		return nil, &wire.Fault{Reason: wire.InvalidToken}
	}
	limits := broker.Limits{Connections: 1 << 20, MessagesPerSecond: 1 << 20}
	if token == "plain" { // has the default limits
		limits = broker.Limits{}
	}
	return &session.Identity{
		User: "u-" + token, Username: token, Family: "f-" + token,
		Expires: time.Now().Add(24 * time.Hour),
		Grants: session.Grants{
			Scopes: []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard},
			Rights: entitlement.Set{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
			Limits: limits,
		},
	}, nil
}

// newServer returns a server with settings for tests.
func newServer(change func(*Config)) *Server {
	cfg := Config{
		Env:    &session.Env{Verify: verify, Registry: new(session.Registry), Version: "test"},
		Hub:    hub.New(hub.Config{}),
		Shards: 2,
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// start runs a server until the test ends.
func start(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	s := newServer(change)
	run(t, s)
	return s
}

// run runs a server until the test ends, and checks that nothing of it is left.
func run(t testing.TB, s *Server) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if open, waiting, _ := s.slots.count(); open != 0 || waiting != 0 || len(s.slots.byAddress) != 0 {
			t.Errorf("%d open, %d unauthenticated, %d addresses after Run", open, waiting, len(s.slots.byAddress))
		}
		for _, sh := range s.shards {
			if sh.noOptional != (optional{}) {
				t.Errorf("what all share was written to: %+v", sh.noOptional)
			}
			n := slices.IndexFunc(sh.conns.byID, func(c *conn) bool { return c != nil })
			if load := sh.load.Load(); load != 0 || n >= 0 || sh.wheel.size != 0 {
				t.Errorf("shard keeps %d, %d, %d after Run", load, n, sh.wheel.size)
			}
			if sh.loop != nil && sh.loop.heads.Len() != 0 {
				t.Errorf("shard keeps %d requests after Run", sh.loop.heads.Len())
			}
		}
	})
}

// slotStats returns the figures of Stats that do not depend on timing.
func slotStats(s *Server) Stats {
	st := s.Stats()
	return Stats{Open: st.Open, Unauthenticated: st.Unauthenticated, Draining: st.Draining}
}

// client is the test's end of a connection.
type client struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader

	inflate bool // compression was agreed on

	reason string // of the last Error that expect has read
	code   uint16 // of the last close frame that expect has read

	checks asyncapitest.Conversation
}

// newClient returns the client of a connection. At the end of the test its messages must have been
// as the AsyncAPI document describes them, in both directions.
func newClient(t testing.TB, nc net.Conn) *client {
	c := &client{t: t, nc: nc, r: newReader(nc)}
	t.Cleanup(func() {
		if err := c.checks.Err(); err != nil {
			t.Error(err)
		}
	})
	return c
}

var testAddress = netip.MustParseAddr("127.0.0.9")

// dial connects over a pipe, past the handshake.
func dial(t testing.TB, s *Server) *client {
	t.Helper()
	c, err := tryDial(t, s, Peer{Address: testAddress})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(t testing.TB, s *Server, peer Peer) (*client, error) {
	near, far := net.Pipe()
	if err := s.Serve(far, peer); err != nil {
		return nil, err
	}
	t.Cleanup(func() { near.Close() })
	return newClient(t, near), nil
}

func newReader(nc net.Conn) *bufio.Reader { return bufio.NewReader(nc) }

const goodHandshake = "GET /stream HTTP/1.1\r\nHost: gw\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

func upgradeOn(t testing.TB, nc net.Conn, more string) *client {
	t.Helper()
	if err := nc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // report where a test hangs
		t.Fatal(err)
	}
	c := newClient(t, nc)
	c.write(goodHandshake + "\r\n" + more)
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake answered %s", r.Status)
	}
	return c
}

func (c *client) write(raw string) {
	c.t.Helper()
	if _, err := io.WriteString(c.nc, raw); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) send(text string) {
	c.t.Helper()
	c.checks.Sent([]byte(text))
	c.write(frame(opText, text))
}

// next reads one unfragmented frame and decompresses it.
func (c *client) next() (opcode byte, payload string, err error) {
	first, payload, err := c.frame()
	if err == nil && c.inflate && first&0x40 != 0 {
		var b []byte
		b, err = new(deflate.Decompressor).Inflate([]byte(payload), 1<<20)
		first, payload = first&^0x40, string(b)
	}
	if err == nil && first&0xf0 != 0x80 {
		err = fmt.Errorf("a frame that begins with %02x", first)
	}
	if err == nil {
		c.check(first&0x0f, payload)
	}
	return first & 0x0f, payload, err
}

// check compares a message of the server or its close frame with the AsyncAPI document.
func (c *client) check(opcode byte, payload string) {
	switch opcode {
	case opText, opBinary:
		asyncapitest.EachMessage([]byte(payload), opcode == opBinary, c.checks.Received)
	case opClose:
		if len(payload) >= 2 {
			c.checks.Closed(binary.BigEndian.Uint16([]byte(payload)), payload[2:])
		}
	}
}

// frame reads one frame of any kind.
func (c *client) frame() (first byte, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, "", err
	}
	length := uint64(head[1])
	switch length {
	case 126:
		var n [2]byte
		_, err = io.ReadFull(c.r, n[:])
		length = uint64(binary.BigEndian.Uint16(n[:]))
	case 127:
		var n [8]byte
		_, err = io.ReadFull(c.r, n[:])
		length = binary.BigEndian.Uint64(n[:])
	}
	if err != nil || length > 1<<24 {
		return 0, "", fmt.Errorf("frame header %x: %w", head, err)
	}
	b := make([]byte, length)
	_, err = io.ReadFull(c.r, b)
	return head[0], string(b), err
}

// want reads one frame, which must be a text that contains all of parts.
func (c *client) want(parts ...string) string {
	c.t.Helper()
	opcode, payload, err := c.next()
	if err != nil {
		c.t.Fatalf("read: %v, want %q", err, parts)
	}
	for _, part := range parts {
		if opcode != opText || !strings.Contains(payload, part) {
			c.t.Fatalf("got opcode %d %q, want %q", opcode, payload, parts)
		}
	}
	return payload
}

// wantClose reads one frame, which must be a close frame.
func (c *client) wantClose(code uint16, reason string) {
	c.t.Helper()
	opcode, payload, err := c.next()
	if err != nil {
		c.t.Fatalf("read: %v, want close %d", err, code)
	}
	want := string([]byte{byte(code >> 8), byte(code)}) + reason
	if code == codeNoStatus {
		want = ""
	}
	if opcode != opClose || payload != want {
		c.t.Fatalf("got opcode %d %q, want close %d %q", opcode, payload, code, reason)
	}
}

// wantEnd checks that the connection ends without more frames.
func (c *client) wantEnd() {
	c.t.Helper()
	if opcode, payload, err := c.next(); err == nil {
		c.t.Fatalf("got opcode %d %q, want the end", opcode, payload)
	}
}

// skipTo reads frames up to a close frame, and returns its code and the text before it.
func (c *client) skipTo() (code uint16, last string) {
	c.t.Helper()
	for {
		opcode, payload, err := c.next()
		switch {
		case err != nil:
			c.t.Fatalf("read: %v, want a close frame", err)
		case opcode == opClose:
			return binary.BigEndian.Uint16([]byte(payload)), last
		}
		last = payload
	}
}

func (c *client) auth(token string) {
	c.t.Helper()
	c.send(`{"action":"auth_token","token":"` + token + `"}`)
	c.want(`{"type":"Success","code":200,"msg":"Connected"`)
}

// echo checks that the connection works: the answer to its ping comes next, except for pings of the
// server.
func (c *client) echo(id string) {
	c.t.Helper()
	c.send(`{"action":"ping","id":"` + id + `"}`)
	for {
		opcode, payload, err := c.next()
		switch {
		case err == nil && opcode == opText && payload == wire.Ping:
			c.send(`{"action":"pong"}`)
		case err != nil || opcode != opText || !strings.Contains(payload, `"action":"pong"`):
			c.t.Fatalf("got opcode %d %q, %v, want the pong", opcode, payload, err)
		default:
			return
		}
	}
}
