package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/wire"
)

// TestParser runs the cases on the parser alone: in one piece, divided in two, and byte by byte, or
// if they are long in pieces of 509 bytes.
func TestParser(t *testing.T) { runParser(t, false) }

// TestParserE2E divides long cases at more positions and runs all cases byte by byte. The parser
// has no goroutines, so the race detector cannot find anything in it.
func TestParserE2E(t *testing.T) { runParser(t, true) }

func runParser(t *testing.T, dense bool) {
	var shared deflate.Decompressor
	for _, group := range caseGroups(t) {
		inflater := &shared
		if !group.deflated {
			inflater = nil
		}
		for _, c := range group.cases {
			t.Run(group.name+"/"+c.name, func(t *testing.T) {
				in := []byte(c.in)
				if got := script(t, testLimit, inflater, in); got != c.want {
					t.Fatalf("in one piece: %q, want %q", got, c.want)
				}
				for _, i := range cuts(len(in), dense) {
					if got := script(t, testLimit, inflater, in[:i], in[i:]); got != c.want {
						t.Fatalf("cut at %d: %q, want %q", i, got, c.want)
					}
				}
				piece := 1
				if !dense && len(in) > 4096 {
					piece = 509
				}
				if got := script(t, testLimit, inflater, inPieces(in, piece)...); got != c.want {
					t.Fatalf("in pieces: %q, want %q", got, c.want)
				}
			})
		}
	}
}

// onEachPath runs a test on a server that is reached by a pipe, and by each transport.
func onEachPath(t *testing.T, change func(*Config), f func(t *testing.T, dial func() (net.Conn, error))) {
	t.Helper()
	onPaths(t, change, func(transport) bool { return true }, f)
}

// onPaths runs a test on a server that is reached by a pipe, and by some transports.
func onPaths(t *testing.T, change func(*Config), on func(transport) bool, f func(t *testing.T, dial func() (net.Conn, error))) {
	t.Helper()
	t.Run("pipe", func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		serveHTTP(t, start(t, change), l)
		f(t, l.dial)
	})
	forEachTransport(t, func(t *testing.T, w transport) {
		if on(w) {
			f(t, openServer(t, w, change).tryDial)
		}
	})
}

func serveHTTP(t testing.TB, s *Server, l net.Listener) {
	h := &http.Server{Handler: s}
	done := make(chan error)
	go func() { done <- h.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("HTTP server: %v", err)
		}
	})
}

// TestServerCases runs the cases on a server, by a pipe and on the event loop. Its answers follow
// from the events of the parser.
func TestServerCases(t *testing.T) {
	runServerCases(t, func(w transport) bool { return w.name == "loop" || w.name == "netconn" && runtime.GOOS != "linux" })
}

// TestServerCasesE2E runs the cases by every transport. The transports differ below the parser, and
// other tests run all of them with the race detector.
func TestServerCasesE2E(t *testing.T) {
	runServerCases(t, func(transport) bool { return true })
}

func runServerCases(t *testing.T, on func(transport) bool) {
	change := func(c *Config) {
		raiseLimits(c)
		c.MaxMessage = testLimit
	}
	groups := caseGroups(t)
	onPaths(t, change, on, func(t *testing.T, dial func() (net.Conn, error)) {
		n := 0
		for _, group := range groups {
			for _, c := range group.cases {
				n++
				piece := 1 << 20
				if n%2 == 0 && len(c.in) < 1000 {
					piece = 7
				}
				t.Run(group.name+"/"+c.name, func(t *testing.T) { c.run(t, dial, group.deflated, piece) })
			}
		}
	})
}

// run sends the case in pieces and compares the answers, in order, with the events of a parser:
//
//	text       one message: Error bad_json, since no case is JSON
//	binary     likewise: Error bad_message
//	ping       a pong
//	close N    a close frame with that code, and nothing after it
//	error N    likewise, and no Error
//	too big    Error message_too_big and close 4413, and nothing after it
func (c *parserCase) run(t *testing.T, dial func() (net.Conn, error), deflated bool, piece int) {
	client := new(caseClient)
	client.open(t, dial, deflated)
	defer client.nc.Close()
	want, ends := c.answers()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		in := []byte(c.in)
		if !ends && !c.partial() {
			in = append(in, frame(opText, probe)...)
		}
		for len(in) > 0 {
			n := min(piece, len(in))
			if _, err := client.nc.Write(in[:n]); err != nil {
				return // the server has closed
			}
			in = in[n:]
		}
	}()
	if !ends && c.partial() {
		<-sent
		return // nothing is visible outside
	}
	client.readAll()
	client.nc.Close()
	<-sent
	if !slices.Equal(client.said, want) {
		t.Errorf("got %q, want %q", client.said, want)
	}
}

// partial reports whether the case ends inside a frame or message.
func (c *parserCase) partial() bool {
	return strings.Contains(c.name, "not whole") || c.want == "" && c.in != ""
}

// answers returns the expected answers, and whether the last ends the connection.
func (c *parserCase) answers() (want []string, ends bool) {
	if c.want == "" {
		return nil, false
	}
	for _, event := range strings.Split(c.want, ", ") {
		kind, rest, _ := strings.Cut(event, " ")
		switch kind {
		case "text":
			want = append(want, string(wire.BadJSON))
		case "binary":
			want = append(want, string(wire.BadMessage))
		case "ping":
			want = append(want, "pong "+rest)
		case "too":
			return append(want, string(wire.MessageTooBig), "close 4413"), true
		case "close", "error":
			code, _, _ := strings.Cut(rest, " ")
			return append(want, "close "+code), true
		}
	}
	return want, false
}

// probe is answered after all earlier input.
const probe = `{"action":"ping","id":"probe"}`

// caseClient records the answers of a server.
type caseClient struct {
	client
	said []string // reasons of Errors, ids of other answers, pongs, the close frame
}

// open connects and authenticates.
func (c *caseClient) open(t *testing.T, dial func() (net.Conn, error), deflated bool) {
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	c.client = client{t: t, nc: nc, r: newReader(nc), inflate: deflated}
	head := goodHandshake
	if deflated {
		head += "Sec-WebSocket-Extensions: permessage-deflate\r\n"
	}
	c.write(head + "\r\n")
	r, err := http.ReadResponse(c.r, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(r, err)
	}
	if got := r.Header.Get("Sec-Websocket-Extensions") != ""; got != deflated {
		t.Fatalf("extensions %q", r.Header)
	}
	c.write(frame(opText, `{"action":"auth_token","token":"ana"}`))
	if opcode, payload, err := c.next(); err != nil || opcode != opText || !strings.HasPrefix(payload, `{"type":"Success"`) {
		t.Fatalf("got opcode %d %s, %v", opcode, payload, err)
	}
}

// readAll reads until the answer to the probe, a close frame, or the end.
func (c *caseClient) readAll() {
	for {
		opcode, payload, err := c.next()
		switch {
		case err != nil:
			c.said = append(c.said, "end")
			return
		case opcode == opClose && payload == "":
			c.said = append(c.said, fmt.Sprintf("close %d", codeNoStatus))
			return
		case opcode == opClose:
			c.said = append(c.said, fmt.Sprintf("close %d", binary.BigEndian.Uint16([]byte(payload))))
			return
		case opcode == opPong:
			if len(payload) > 40 {
				payload = fmt.Sprintf("%.8s...%d", payload, len(payload))
			}
			c.said = append(c.said, "pong "+payload)
			continue
		case opcode == opText && strings.HasPrefix(payload, `{"action":"pong","id":"probe"`):
			return
		}
		member := `"reason":"`
		if !strings.Contains(payload, member) {
			member = `"id":"`
		}
		_, rest, _ := strings.Cut(payload, member)
		word, _, found := strings.Cut(rest, `"`)
		if opcode != opText || !found {
			c.t.Errorf("got opcode %d %q", opcode, payload)
		}
		c.said = append(c.said, word)
	}
}
