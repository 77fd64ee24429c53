package socket

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// answerCase is a sequence of frames and the expected answers in order. Names are those of the
// Autobahn test suite where it has the case; its echo is the answer to a JSON ping here.
type answerCase struct {
	name   string
	frames []string
	want   []string // as in caseClient.said; without a close frame a probe follows
}

// echoMessage returns a message whose answer has the id.
func echoMessage(id string) string { return `{"action":"ping","id":"` + id + `"}` }

// fragmented returns echoMessage(id) in three parts.
func fragmented(id string) (first, second, third string) {
	m := echoMessage(id)
	return m[:7], m[7:15], m[15:]
}

func answerCases() []answerCase {
	a, b, c := fragmented("m")
	text, ping := frame(opText, echoMessage("a")), frame(opPing, "p")
	whole := []string{part(opText, a+b), frame(opContinuation, c)}
	long := echoMessage("l" + strings.Repeat("x", 30))
	padded := strings.Repeat(" ", 60000) + long
	list := func(parts ...any) (frames []string) {
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				frames = append(frames, p)
			case []string:
				frames = append(frames, p...)
			}
		}
		return frames
	}
	violation, bye := "close 1002", "close 1000"
	return []answerCase{
		{"5.1 ping in two fragments", list(part(opPing, "a"), frame(opContinuation, "b")), list(violation)},
		{"5.2 pong in two fragments", list(part(opPong, "a"), frame(opContinuation, "b")), list(violation)},
		{"5.3 text in two fragments", whole, list("m")},
		{"5.6 ping inside a text", list(part(opText, a+b), ping, frame(opContinuation, c)), list("pong p", "m")},
		{"5.9 continuation of nothing, then text", list(frame(opContinuation, "x"), text), list(violation)},
		{"5.12 unfinished continuation of nothing, then text", list(part(opContinuation, "x"), text), list(violation)},
		{"5.15 text, continuation of nothing, text", list(whole, part(opContinuation, "x"), text), list("m", violation)},
		{"5.16 continuation of nothing, text, twice", list(part(opContinuation, "x"), whole, part(opContinuation, "x"), whole), list(violation)},
		{"5.17 finished continuation of nothing, text, twice", list(frame(opContinuation, "x"), whole, frame(opContinuation, "x"), whole), list(violation)},
		{"5.18 text inside a text", list(part(opText, a), frame(opText, b)), list(violation)},
		{"5.19 pings inside a text", list(part(opText, a), part(opContinuation, ""), frame(opPing, "1"), part(opContinuation, b), part(opContinuation, ""), frame(opPing, "2"), frame(opContinuation, c)),
			list("pong 1", "pong 2", "m")},
		{"7.1.1 text, close", list(text, closing(1000, "")), list("a", bye)},
		{"7.1.2 two close frames", list(closing(1000, ""), closing(1000, "")), list(bye)},
		{"7.1.3 ping after close", list(closing(1000, ""), ping), list(bye)},
		{"7.1.4 text after close", list(closing(1000, ""), text), list(bye)},
		{"7.1.5 close inside a text", list(part(opText, a+b), closing(1000, ""), frame(opContinuation, c)), list(bye)},
		{"7.1.6 long text, close, ping", list(frame(opText, padded), closing(1000, ""), ping), list("l"+strings.Repeat("x", 30), bye)},
		{"2.10 ten pings", slices.Repeat([]string{ping}, 10), slices.Repeat([]string{"pong p"}, 10)},
		{"pings and texts in turn", list(frame(opPing, "1"), text, frame(opPing, "2"), whole, frame(opPing, "3")), list("pong 1", "a", "pong 2", "m", "pong 3")},
		{"ping, text, close", list(ping, text, closing(1000, "")), list("pong p", "a", bye)},
		{"texts, then a reserved opcode", list(text, whole, frame(opPing, "p"), frame(3, "")), list("a", "m", "pong p", violation)},
		{"text, then one that is not UTF-8", list(text, frame(opText, "\xff")), list("a", "close 1007")},
		{"text, close with a bad code", list(text, closing(1005, "")), list("a", violation)},
		{"not JSON, then a violation", list(frame(opText, "x"), "\xff\xff"), list("bad_json", violation)},
		{"a token that waits for its check, ping, text, close", list(frame(opText, `{"action":"auth_token","token":"badly"}`), ping, text, closing(1000, "")),
			list("invalid_token", "close 4401")},
		{"a good token, ping, text, close", list(frame(opText, `{"action":"auth_token","token":"ana","id":"t"}`), ping, text, closing(1000, "")),
			list("t", "pong p", "a", bye)},
		{"too big, then ping and close", list(text, frame(opText, strings.Repeat(" ", testLimit+1)), ping, closing(1000, "")), list("a", "message_too_big", "close 4413")},
		{"too big, then a violation", list(text, frame(opBinary, strings.Repeat(" ", testLimit+1)), "\xff\xff"), list("a", "message_too_big", "close 4413")},
		{"subscribe, unsubscribe, close", list(frame(opText, `{"action":"subscribe","id":"s","trades":["A|B|C"]}`), text, frame(opText, `{"action":"unsubscribe","id":"u"}`), closing(1000, "")),
			list("unknown_instrument", "a", "bad_field", bye)},
	}
}

// splits are ways to divide frames into segments.
var splits = []struct {
	name string
	cut  func(frames []string) []string
}{
	{"one segment", func(frames []string) []string { return []string{strings.Join(frames, "")} }},
	{"frame by frame", func(frames []string) []string { return frames }},
	{"byte by byte", func(frames []string) (pieces []string) {
		all := strings.Join(frames, "")
		for len(all) > 2000 { // begin a long input with large pieces
			pieces, all = append(pieces, all[:1000]), all[1000:]
		}
		return append(pieces, strings.Split(all, "")...)
	}},
	{"last byte apart", func(frames []string) []string {
		all := strings.Join(frames, "")
		return []string{all[:len(all)-1], all[len(all)-1:]}
	}},
	{"borders inside the headers", func(frames []string) (pieces []string) {
		rest := ""
		for _, f := range frames {
			pieces, rest = append(pieces, rest+f[:1]), f[1:]
		}
		return append(pieces, rest)
	}},
}

// TestAnswersInOrder checks that frames which arrive together are answered in order, and that a
// close frame or a violation does not suppress answers to earlier frames.
func TestAnswersInOrder(t *testing.T) {
	change := func(c *Config) {
		raiseLimits(c)
		c.MaxMessage = testLimit
	}
	onEachPath(t, change, func(t *testing.T, dial func() (net.Conn, error)) {
		for _, c := range answerCases() {
			for _, s := range splits {
				t.Run(c.name+"/"+s.name, func(t *testing.T) { c.run(t, dial, s.cut) })
			}
		}
	})
}

func (c *answerCase) run(t *testing.T, dial func() (net.Conn, error), cut func([]string) []string) {
	frames, want := c.frames, c.want
	if !strings.HasPrefix(want[len(want)-1], "close") {
		frames = append(slices.Clip(frames), frame(opText, probe))
	}
	client := new(caseClient)
	client.open(t, dial, false)
	defer client.nc.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, piece := range cut(frames) {
			if _, err := client.nc.Write([]byte(piece)); err != nil {
				return // the server has closed
			}
		}
	}()
	client.readAll()
	client.nc.Close()
	<-sent
	if !slices.Equal(client.said, want) {
		t.Errorf("got %q, want %q", client.said, want)
	}
}
