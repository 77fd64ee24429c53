package socket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
)

// soak returns the full count of a long test when RUEDA_SOAK is 1, and else a
// twentieth of it.
func soak(full int) int {
	if os.Getenv("RUEDA_SOAK") == "1" {
		return full
	}
	return max(full/20, 1)
}

var testMask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// rawFrame is a masked frame with any first byte, and the length in any form: 0
// for the shortest, else the number of bytes (1, 2, 8) it takes.
func rawFrame(first byte, form int, length uint64, payload string) string {
	b := []byte{first}
	if form == 0 {
		form = 1
		if length > 65535 {
			form = 8
		} else if length > 125 {
			form = 2
		}
	}
	switch form {
	case 1:
		b = append(b, 0x80|byte(length))
	case 2:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(length))
	case 8:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), length)
	}
	b = append(b, testMask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^testMask[i%4])
	}
	return string(b)
}

// frame is a final frame, part one that is not.
func frame(opcode byte, payload string) string {
	return rawFrame(0x80|opcode, 0, uint64(len(payload)), payload)
}

func part(opcode byte, payload string) string {
	return rawFrame(opcode, 0, uint64(len(payload)), payload)
}

func closing(code uint16, reason string) string {
	return frame(opClose, string([]byte{byte(code >> 8), byte(code)})+reason)
}

// script feeds the pieces to a parser and writes down what it says.
func script(t testing.TB, limit int, pieces ...[]byte) string {
	t.Helper()
	p := NewParser(limit)
	var out []string
	for _, piece := range pieces {
		buf := bytes.Clone(piece)
		for len(buf) > 0 {
			ev, n, err := p.Next(buf)
			if err != nil {
				violation, ok := err.(*ProtocolError)
				if !ok {
					t.Fatalf("error is a %T", err)
				}
				if _, _, again := p.Next(buf); again != err {
					t.Fatalf("error is not sticky: %v, then %v", err, again)
				}
				return strings.Join(append(out, fmt.Sprintf("error %d", violation.Code)), ", ")
			}
			if ev.Kind == EventNone && n != len(buf) {
				t.Fatalf("no event, but %d of %d bytes taken", n, len(buf))
			}
			if cap(p.carry) > limit+maxControl {
				t.Fatalf("carry of %d bytes at a limit of %d", cap(p.carry), limit)
			}
			buf = buf[n:]
			if s := describe(ev); s != "" {
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, ", ")
}

func describe(ev Event) string {
	payload := string(ev.Payload)
	if len(payload) > 40 {
		payload = fmt.Sprintf("%.8s...%d", payload, len(payload))
	}
	switch ev.Kind {
	case EventText:
		return "text " + payload
	case EventBinary:
		return "binary " + payload
	case EventPing:
		return "ping " + payload
	case EventPong:
		return "pong " + payload
	case EventClose:
		return fmt.Sprintf("close %d %s", ev.Code, payload)
	case EventTooBig:
		return "too big"
	}
	return ""
}

type parserCase struct {
	name string
	in   string
	want string
}

const testLimit = 1 << 17

func framingCases() []parserCase {
	text := func(n int) string { return strings.Repeat("x", n) }
	return []parserCase{
		{"nothing", "", ""},
		{"empty text", frame(opText, ""), "text "},
		{"empty binary", frame(opBinary, ""), "binary "},
		{"text", frame(opText, "hello"), "text hello"},
		{"binary", frame(opBinary, "\x80\xff"), "binary \x80\xff"},
		{"two messages", frame(opText, "one") + frame(opText, "two"), "text one, text two"},
		{"length 125", frame(opText, text(125)), "text xxxxxxxx...125"},
		{"length 126", frame(opText, text(126)), "text xxxxxxxx...126"},
		{"length 127", frame(opText, text(127)), "text xxxxxxxx...127"},
		{"length 65535", frame(opText, text(65535)), "text xxxxxxxx...65535"},
		{"length 65536", frame(opText, text(65536)), "text xxxxxxxx...65536"},
		{"125 in two bytes", rawFrame(0x81, 2, 125, text(125)), "error 1002"},
		{"0 in two bytes", rawFrame(0x81, 2, 0, ""), "error 1002"},
		{"125 in eight bytes", rawFrame(0x81, 8, 125, text(125)), "error 1002"},
		{"65535 in eight bytes", rawFrame(0x81, 8, 65535, text(65535)), "error 1002"},
		{"length 2^63", rawFrame(0x81, 8, 1<<63, "x"), "error 1002"},
		{"length 2^64-1", rawFrame(0x81, 8, 1<<64-1, "x"), "error 1002"},
		{"length 2^63-1", rawFrame(0x81, 8, 1<<63-1, "x"), "too big"},
		{"at the limit", frame(opText, text(testLimit)), "text xxxxxxxx...131072"},
		{"over the limit", frame(opText, text(testLimit+1)), "too big"},
		{"over the limit, then a close", frame(opText, text(testLimit+1)) + frame(opText, "late") + closing(1000, ""), "too big, close 1000 "},
		{"binary over the limit", frame(opBinary, text(testLimit+1)), "too big"},
		{"unmasked", "\x81\x05hello", "error 1002"},
		{"unmasked empty", "\x81\x00", "error 1002"},
		{"unmasked control", "\x89\x00", "error 1002"},
		{"a message, then garbage", frame(opText, "a") + "\xff\xff", "text a, error 1002"},
		{"header not whole", frame(opText, "abc")[:5], ""},
		{"payload not whole", frame(opText, "abc")[:8], ""},
		{"reserved bit 1", rawFrame(0x81|0x40, 0, 1, "x"), "error 1002"},
		{"reserved bit 2", rawFrame(0x81|0x20, 0, 1, "x"), "error 1002"},
		{"reserved bit 3", rawFrame(0x81|0x10, 0, 1, "x"), "error 1002"},
		{"reserved bit on a ping", rawFrame(0x89|0x40, 0, 0, ""), "error 1002"},
		{"reserved bit on a continuation", part(opText, "a") + rawFrame(0x80|0x40, 0, 1, "x"), "error 1002"},
		{"bytes of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "error 1002"},
		{"bytes of HTTP", "GET / HTTP/1.1\r\n", "error 1002"},
	}
}

func controlCases() []parserCase {
	long := strings.Repeat("p", 125)
	return []parserCase{
		{"ping", frame(opPing, ""), "ping "},
		{"ping with payload", frame(opPing, "abc"), "ping abc"},
		{"ping of binary", frame(opPing, "\x00\xff"), "ping \x00\xff"},
		{"ping of 125", frame(opPing, long), "ping pppppppp...125"},
		{"ping of 126", frame(opPing, long+"p"), "error 1002"},
		{"ping of 65536", rawFrame(0x89, 8, 65536, "p"), "error 1002"},
		{"pong", frame(opPong, "abc"), "pong abc"},
		{"pong of 126", frame(opPong, long+"p"), "error 1002"},
		{"ping fragmented", part(opPing, "a") + frame(opContinuation, "b"), "error 1002"},
		{"pong fragmented", part(opPong, "a"), "error 1002"},
		{"close fragmented", part(opClose, "\x03\xe8"), "error 1002"},
		{"ten pings", strings.Repeat(frame(opPing, "z"), 10), strings.TrimSuffix(strings.Repeat("ping z, ", 10), ", ")},
		{"close", frame(opClose, ""), "close 1005 "},
		{"close with a reason", closing(1000, "bye"), "close 1000 bye"},
		{"close of 125", closing(1000, strings.Repeat("r", 123)), "close 1000 rrrrrrrr...123"},
		{"close of 126", closing(1000, strings.Repeat("r", 124)), "error 1002"},
		{"close of one byte", frame(opClose, "\x03"), "error 1002"},
		{"close, reason not UTF-8", closing(1000, "\xce\xba\xed\xa0\x80"), "error 1007"},
		{"close, bad code and bad reason", closing(1005, "\xff"), "error 1002"},
		{"ping after close", closing(1000, "") + frame(opPing, "late"), "close 1000 "},
		{"garbage after close", closing(1000, "") + "\xff\xff\xff", "close 1000 "},
		{"close inside a message", part(opText, "a") + closing(1001, ""), "close 1001 "},
	}
}

func closeCodeCases() []parserCase {
	var cases []parserCase
	good := []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4401, 4999}
	for _, code := range good {
		cases = append(cases, parserCase{fmt.Sprintf("close code %d", code), closing(code, "why"), fmt.Sprintf("close %d why", code)})
	}
	bad := []uint16{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535}
	for _, code := range bad {
		cases = append(cases, parserCase{fmt.Sprintf("close code %d", code), closing(code, "why"), "error 1002"})
	}
	return cases
}

func fragmentCases() []parserCase {
	long := strings.Repeat("y", testLimit/2)
	return []parserCase{
		{"two fragments", part(opText, "hel") + frame(opContinuation, "lo"), "text hello"},
		{"three fragments", part(opText, "a") + part(opContinuation, "b") + frame(opContinuation, "c"), "text abc"},
		{"binary fragments", part(opBinary, "\xff") + frame(opContinuation, "\xfe"), "binary \xff\xfe"},
		{"empty fragments", part(opText, "") + part(opContinuation, "") + frame(opContinuation, ""), "text "},
		{"empty first", part(opText, "") + frame(opContinuation, "all"), "text all"},
		{"empty last", part(opText, "all") + frame(opContinuation, ""), "text all"},
		{"two messages", part(opText, "a") + frame(opContinuation, "b") + part(opText, "c") + frame(opContinuation, "d"), "text ab, text cd"},
		{"ping between", part(opText, "a") + frame(opPing, "p") + frame(opContinuation, "b"), "ping p, text ab"},
		{"pings between empty fragments", part(opText, "") + frame(opPing, "p") + part(opContinuation, "") + frame(opPong, "q") + frame(opContinuation, "b"), "ping p, pong q, text b"},
		{"many pings between", part(opText, "a") + strings.Repeat(frame(opPing, ""), 3) + part(opContinuation, "b") + frame(opPing, "x") + frame(opContinuation, "c"), "ping , ping , ping , ping x, text abc"},
		{"first not whole, never ended", part(opText, "a") + part(opContinuation, "b"), ""},
		{"continuation first", frame(opContinuation, "a"), "error 1002"},
		{"continuation first, not final", part(opContinuation, "a") + frame(opContinuation, "b"), "error 1002"},
		{"continuation after a message", frame(opText, "a") + frame(opContinuation, "b"), "text a, error 1002"},
		{"text inside a text", part(opText, "a") + frame(opText, "b"), "error 1002"},
		{"binary inside a text", part(opText, "a") + frame(opBinary, "b"), "error 1002"},
		{"ping, then text inside a text", part(opText, "a") + frame(opPing, "") + frame(opText, "b"), "ping , error 1002"},
		{"fragments at the limit", part(opText, long) + frame(opContinuation, long), "text yyyyyyyy...131072"},
		{"fragments over the limit", part(opText, long) + part(opContinuation, long) + frame(opContinuation, "z"), "too big"},
		{"over the limit, ping still seen", part(opText, long) + part(opContinuation, long+"z") + frame(opPing, "p") + frame(opContinuation, "z") + frame(opText, "late"), "too big, ping p"},
		{"over the limit, framing still judged", part(opText, long+long+"z") + frame(opText, "a"), "too big, error 1002"},
		{"1024 fragments", part(opText, "a") + strings.Repeat(part(opContinuation, ""), 1022) + frame(opContinuation, "b"), "text ab"},
		{"1025 fragments", part(opText, "a") + strings.Repeat(part(opContinuation, ""), 1023) + frame(opContinuation, "b"), "too big"},
		{"1025 fragments, empty at the end", part(opText, "a") + strings.Repeat(part(opContinuation, ""), 1023) + frame(opContinuation, "") + frame(opPing, "p"), "too big, ping p"},
	}
}

func opcodeCases() []parserCase {
	var cases []parserCase
	for _, opcode := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		cases = append(cases,
			parserCase{fmt.Sprintf("opcode %d", opcode), frame(opcode, "x"), "error 1002"},
			parserCase{fmt.Sprintf("opcode %d after a message", opcode), frame(opText, "a") + frame(opcode, ""), "text a, error 1002"},
			parserCase{fmt.Sprintf("opcode %d inside a message", opcode), part(opText, "a") + frame(opcode, ""), "error 1002"},
		)
	}
	return cases
}

func textCases() []parserCase {
	var cases []parserCase
	good := []string{
		"κόσμε", "\x00", "\x7f", "\u0080", "\u07ff", "\u0800", "\uffff", "\ud7ff", "\ue000", "\ufffd", "\ufeff",
		"\U00010000", "\U0010ffff", "ñandú €100 \U0001f9c9",
	}
	bad := []string{
		"\x80", "\xbf", "\xfe", "\xff", // no first byte
		"\xc2", "\xe0\xa0", "\xf0\x90\x80", "\xce\xba\xe1\xbd", // cut off
		"\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xe0\x9f\xbf", "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf", // over-long
		"\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\x80\xed\xb0\x80", // surrogates
		"\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", // past U+10FFFF
		"a\xffb", "κόσμε\xed\xa0\x80edited",
	}
	for _, s := range good {
		cases = append(cases, parserCase{fmt.Sprintf("text %+q", s), frame(opText, s), "text " + s})
	}
	for _, s := range bad {
		cases = append(cases,
			parserCase{fmt.Sprintf("text %+q", s), frame(opText, s), "error 1007"},
			parserCase{fmt.Sprintf("binary %+q", s), frame(opBinary, s), "binary " + s})
	}
	// A character may be cut by a fragment, but not by the message's end.
	cut := func(s, want string) {
		for i := range len(s) + 1 {
			cases = append(cases, parserCase{fmt.Sprintf("text %+q cut at %d", s, i),
				part(opText, s[:i]) + frame(opContinuation, s[i:]), want})
		}
	}
	for _, s := range good {
		cut(s, "text "+s)
	}
	for _, s := range bad {
		cut(s, "error 1007")
	}
	return cases
}

// TestParser runs our table of the cases of RFC 6455, each in one piece, cut in
// two at each byte, and byte by byte.
func TestParser(t *testing.T) {
	groups := []struct {
		name  string
		cases []parserCase
	}{
		{"framing", framingCases()},
		{"control", controlCases()},
		{"close codes", closeCodeCases()},
		{"fragments", fragmentCases()},
		{"opcodes", opcodeCases()},
		{"text", textCases()},
	}
	for _, group := range groups {
		for _, c := range group.cases {
			t.Run(group.name+"/"+c.name, func(t *testing.T) {
				in := []byte(c.in)
				if got := script(t, testLimit, in); got != c.want {
					t.Fatalf("in one piece: %q, want %q", got, c.want)
				}
				for _, i := range cuts(len(in)) {
					if got := script(t, testLimit, in[:i], in[i:]); got != c.want {
						t.Fatalf("cut at %d: %q, want %q", i, got, c.want)
					}
				}
				if got := script(t, testLimit, bytewise(in)...); got != c.want {
					t.Fatalf("byte by byte: %q, want %q", got, c.want)
				}
			})
		}
	}
}

// cuts are the places to cut an input of n bytes: all, or of a long one those
// near its ends and some between, unless soaking.
func cuts(n int) []int {
	var list []int
	for i := range n {
		if n <= 4096 || i < 64 || i >= n-64 || i%1021 == 0 || os.Getenv("RUEDA_SOAK") == "1" && n < 1<<16+64 {
			list = append(list, i)
		}
	}
	return list
}

func bytewise(in []byte) [][]byte {
	pieces := make([][]byte, len(in))
	for i := range in {
		pieces[i] = in[i : i+1]
	}
	return pieces
}

// TestParserDiscard shows that a closing connection still sees control frames,
// wherever the switch comes.
func TestParserDiscard(t *testing.T) {
	in := []byte(part(opText, "one") + frame(opPing, "p") + part(opContinuation, "two") + frame(opContinuation, "end") +
		frame(opText, "more") + closing(1000, "bye"))
	for cut := range in {
		p := NewParser(testLimit)
		var out []string
		feed := func(buf []byte) {
			for len(buf) > 0 {
				ev, n, err := p.Next(buf)
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				buf = buf[n:]
				if s := describe(ev); s != "" {
					out = append(out, s)
				}
			}
		}
		feed(bytes.Clone(in[:cut]))
		before := len(out)
		p.Discard()
		feed(bytes.Clone(in[cut:]))
		for _, s := range out[before:] {
			if strings.HasPrefix(s, "text") {
				t.Errorf("cut at %d: %q came after Discard", cut, s)
			}
		}
		if last := out[len(out)-1]; last != "close 1000 bye" {
			t.Errorf("cut at %d: ends with %q", cut, last)
		}
		if p.Next(nil); p.carry != nil {
			t.Errorf("cut at %d: %d bytes carried at the end", cut, cap(p.carry))
		}
	}
}

// TestParserHoldsNothing shows that a parser between messages has no carry.
func TestParserHoldsNothing(t *testing.T) {
	p := NewParser(testLimit)
	for _, piece := range bytewise([]byte(part(opText, "abc") + frame(opPing, "x") + frame(opContinuation, "def") + frame(opText, "g"))) {
		if _, _, err := p.Next(bytes.Clone(piece)); err != nil {
			t.Fatal(err)
		}
	}
	p.Next(nil)
	if p.carry != nil {
		t.Errorf("%d bytes carried between messages", cap(p.carry))
	}
}

// TestParserAnnouncedLength shows that an announced length costs no memory.
func TestParserAnnouncedLength(t *testing.T) {
	p := NewParser(1 << 20)
	if _, _, err := p.Next([]byte(rawFrame(0x81, 8, 1<<20, "only this"))); err != nil {
		t.Fatal(err)
	}
	if cap(p.carry) > minCarry {
		t.Errorf("carry of %d bytes for 9 received", cap(p.carry))
	}
}

func TestUnmask(t *testing.T) {
	key := binary.LittleEndian.Uint32(testMask[:])
	for size := range 40 {
		for phase := range 4 {
			plain := bytes.Repeat([]byte("rueda"), 10)[:size]
			masked := bytes.Clone(plain)
			for i := range masked {
				masked[i] ^= testMask[(i+phase)%4]
			}
			turned := unmask(masked, unmask(make([]byte, phase), key))
			if !bytes.Equal(masked, plain) {
				t.Errorf("size %d, phase %d: %q", size, phase, masked)
			}
			if next := byte(turned); next != testMask[(size+phase)%4] {
				t.Errorf("size %d, phase %d: key not turned", size, phase)
			}
		}
	}
}

func TestAppendClose(t *testing.T) {
	cases := []struct {
		code   uint16
		reason string
		want   string
	}{
		{codeNoStatus, "dropped", "\x88\x00"},
		{1000, "", "\x88\x02\x03\xe8"},
		{4504, "pong_timeout", "\x88\x0e\x11\x98pong_timeout"},
		{1000, strings.Repeat("r", 200), "\x88\x7d\x03\xe8" + strings.Repeat("r", 123)},
		{1000, strings.Repeat("r", 122) + "é", "\x88\x7c\x03\xe8" + strings.Repeat("r", 122)},
		{1000, strings.Repeat("r", 121) + "é", "\x88\x7d\x03\xe8" + strings.Repeat("r", 121) + "é"},
	}
	for _, c := range cases {
		if got := string(appendClose(nil, c.code, c.reason)); got != c.want {
			t.Errorf("close %d %.10q: %q, want %q", c.code, c.reason, got, c.want)
		}
	}
	if got := string(appendPong(nil, []byte("abc"))); got != "\x8a\x03abc" {
		t.Errorf("pong: %q", got)
	}
}

// FuzzParser checks that no input panics or makes the carry grow past its
// bound, and that the cut of the input does not change what is found.
func FuzzParser(f *testing.F) {
	for _, group := range [][]parserCase{framingCases(), controlCases(), closeCodeCases(), fragmentCases(), opcodeCases(), textCases()[:40]} {
		for _, c := range group {
			if len(c.in) <= 4096 {
				f.Add([]byte(c.in), uint16(len(c.in)/2))
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		const limit = 300
		want := script(t, limit, in)
		at := int(cut) % (len(in) + 1)
		if got := script(t, limit, in[:at], in[at:]); got != want {
			t.Errorf("cut at %d: %q, whole: %q", at, got, want)
		}
		if got := script(t, limit, bytewise(in)...); got != want {
			t.Errorf("byte by byte: %q, whole: %q", got, want)
		}
	})
}

// TestParserAllocations is the budget of BenchmarkParser.
func TestParserAllocations(t *testing.T) {
	in := []byte(frame(opText, `{"action":"pong"}`) + frame(opPing, "x"))
	buf := make([]byte, len(in))
	p := NewParser(testLimit)
	got := testing.AllocsPerRun(100, func() {
		copy(buf, in)
		for rest := buf; len(rest) > 0; {
			_, n, err := p.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
	})
	if got != 0 {
		t.Errorf("%v allocations for messages inside one buffer", got)
	}
}

func BenchmarkParser(b *testing.B) {
	for _, size := range []int{17, 200, 4096, 65536} {
		in := []byte(frame(opText, strings.Repeat("a", size)))
		buf := make([]byte, len(in))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := NewParser(testLimit)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				copy(buf, in)
				if ev, _, err := p.Next(buf); err != nil || ev.Kind != EventText {
					b.Fatal(ev.Kind, err)
				}
			}
		})
	}
}
