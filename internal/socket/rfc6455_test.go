package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/deflate"
	"github.com/ruedahq/rueda/wire"
)

// TestParser runs the table of cases on the parser alone, each in one piece, cut in
// two at each byte, and byte by byte.
func TestParser(t *testing.T) {
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
				for _, i := range cuts(len(in)) {
					if got := script(t, testLimit, inflater, in[:i], in[i:]); got != c.want {
						t.Fatalf("cut at %d: %q, want %q", i, got, c.want)
					}
				}
				if got := script(t, testLimit, inflater, bytewise(in)...); got != c.want {
					t.Fatalf("byte by byte: %q, want %q", got, c.want)
				}
			})
		}
	}
}

// onEachPath runs a test on a server that is reached by a pipe, and on each way.
func onEachPath(t *testing.T, change func(*Config), f func(t *testing.T, dial func() (net.Conn, error))) {
	t.Helper()
	t.Run("pipe", func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		serveHTTP(t, start(t, change), l)
		f(t, l.dial)
	})
	onEachWay(t, func(t *testing.T, w way) { f(t, open(t, w, change).tryDial) })
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

// TestServerCases runs the table on a whole server, on each path: what the parser finds is
// what the client is answered by.
func TestServerCases(t *testing.T) {
	change := func(c *Config) {
		many(c)
		c.MaxMessage = testLimit
	}
	onEachPath(t, change, func(t *testing.T, dial func() (net.Conn, error)) {
		n := 0
		for _, group := range caseGroups(t) {
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

// run sends the case in pieces and holds the answers against what a parser makes of it:
//
//	text       one message: Error bad_json, since no case is JSON
//	binary     likewise: Error bad_message
//	ping       a pong, unless a later ping's overtakes it
//	close N    a close frame with that code
//	error N    a close frame with that code, and no Error
//	too big    Error message_too_big and close 4413; or else what the frames behind it ask for
//
// Where a close frame comes, answers that were on their way may stay behind.
func (c *parserCase) run(t *testing.T, dial func() (net.Conn, error), deflated bool, piece int) {
	client := new(caseClient)
	client.open(t, dial, deflated)
	defer client.nc.Close()
	wantTexts, wantPings, wantCodes := c.answers()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		in := []byte(c.in)
		if len(wantCodes) == 0 && !c.partial() {
			in = append(in, frame(opText, probe)...)
		}
		for len(in) > 0 {
			n := min(piece, len(in))
			if _, err := client.nc.Write(in[:n]); err != nil {
				return // closed before the end of what was sent
			}
			in = in[n:]
		}
	}()
	if len(wantCodes) == 0 && c.partial() {
		<-sent
		return // nothing can be told from outside
	}
	client.readAll()
	client.nc.Close()
	<-sent
	if len(wantCodes) > 0 {
		if !slices.Contains(wantCodes, client.code) {
			t.Errorf("close %d, want %d", client.code, wantCodes)
		}
		if len(client.texts) > len(wantTexts) {
			t.Errorf("got %q, want %q", client.texts, wantTexts)
			return
		}
		wantTexts = wantTexts[:len(client.texts)]
	} else if client.code != 0 {
		t.Errorf("close %d", client.code)
	}
	if !slices.Equal(client.texts, wantTexts) {
		t.Errorf("got %q, want %q", client.texts, wantTexts)
	}
	c.checkPongs(t, client.pongs, wantPings, len(wantCodes) > 0)
}

// partial says that the case ends within a frame or a message.
func (c *parserCase) partial() bool {
	return strings.Contains(c.name, "not whole") || c.want == "" && c.in != ""
}

// answers are the reasons of the Errors that the case is answered by, its pings, and the
// close codes that it may end with; none: the connection stays open.
func (c *parserCase) answers() (texts, pings []string, codes []uint16) {
	if c.want == "" {
		return nil, nil, nil
	}
	for _, event := range strings.Split(c.want, ", ") {
		kind, rest, _ := strings.Cut(event, " ")
		switch kind {
		case "text":
			texts = append(texts, string(wire.BadJSON))
		case "binary":
			texts = append(texts, string(wire.BadMessage))
		case "ping":
			pings = append(pings, rest)
		case "too":
			texts = append(texts, string(wire.MessageTooBig))
			codes = append(codes, 4413)
		case "close", "error":
			var code uint16
			fmt.Sscan(rest, &code)
			codes = append(codes, code)
		}
	}
	return texts, pings, codes
}

// checkPongs wants pongs in the order of their pings, and the last ping's among them.
func (c *parserCase) checkPongs(t *testing.T, got, pings []string, ended bool) {
	t.Helper()
	rest := pings
	for _, pong := range got {
		if len(pong) > 40 {
			pong = fmt.Sprintf("%.8s...%d", pong, len(pong))
		}
		i := slices.Index(rest, pong)
		if i < 0 {
			t.Errorf("pongs %q of pings %q", got, pings)
			return
		}
		rest = rest[i+1:]
	}
	if len(rest) > 0 && !ended && (len(got) == 0 || rest[len(rest)-1] != got[len(got)-1]) {
		t.Errorf("pongs %q of pings %q", got, pings)
	}
}

// probe is answered after all that came before it, but for pongs, which go out behind the
// messages of their turn.
const probe = `{"action":"ping","id":"probe"}`

// A caseClient writes down what a server answers.
type caseClient struct {
	client
	texts []string // reasons of the Errors
	pongs []string
	code  uint16 // of the close frame; 0: none came
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

// readAll reads up to the answer to the probe and to another one, or a close frame, or the end.
func (c *caseClient) readAll() {
	for probes := 0; probes < 2; {
		opcode, payload, err := c.next()
		switch {
		case err != nil:
			return
		case opcode == opClose && payload == "":
			c.code = codeNoStatus
			return
		case opcode == opClose:
			c.code = binary.BigEndian.Uint16([]byte(payload))
			return
		case opcode == opPong:
			c.pongs = append(c.pongs, payload)
			continue
		case opcode == opText && strings.HasPrefix(payload, `{"action":"pong","id":"probe"`):
			if probes++; probes == 1 {
				c.write(frame(opText, probe))
			}
			continue
		}
		_, rest, _ := strings.Cut(payload, `"reason":"`)
		reason, _, found := strings.Cut(rest, `"`)
		if opcode != opText || !found {
			c.t.Errorf("got opcode %d %q", opcode, payload)
		}
		c.texts = append(c.texts, reason)
	}
}
