package socket

import (
	"bytes"
	"compress/flate"
	"fmt"
	"strings"
	"testing"
)

// This file has cases of RFC 6455 and RFC 7692: framing, control frames, fragmentation, opcodes,
// UTF-8, close codes, sizes, compression.

// caseGroups returns all cases. deflated means that compression was agreed on.
func caseGroups(t testing.TB) []caseGroup {
	return []caseGroup{
		{"framing", framingCases(), false},
		{"control", controlCases(), false},
		{"close codes", closeCodeCases(), false},
		{"fragments", fragmentCases(), false},
		{"opcodes", opcodeCases(), false},
		{"text", textCases(), false},
		{"sizes", sizeCases(), false},
		{"reserved bits", reservedCases(), false},
		{"deflate", deflateCases(t), true},
		{"deflate sizes", deflateSizeCases(t), true},
		{"deflate, reserved bits", reservedDeflateCases(t), true},
		{"deflate agreed, not used", append(controlCases(), fragmentCases()...), true},
	}
}

type caseGroup struct {
	name     string
	cases    []parserCase
	deflated bool
}

// parserCase is client input and the events that a parser makes of it. The answers of a server
// follow from that; see run in rfc6455_test.go.
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
	// A fragment may split a character, but the message must not end inside one.
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

// sizeCases returns messages of many sizes, in one frame and in fragments of many sizes.
func sizeCases() []parserCase {
	var cases []parserCase
	for size := 64; size <= testLimit; size *= 4 {
		text := strings.Repeat("*", size)
		cases = append(cases,
			parserCase{fmt.Sprintf("text of %d", size), frame(opText, text), fmt.Sprintf("text ********...%d", size)},
			parserCase{fmt.Sprintf("binary of %d", size), frame(opBinary, text), fmt.Sprintf("binary ********...%d", size)})
		for _, chunk := range []int{64, 1000, 4096, 65536} {
			if chunk >= size || size/chunk >= maxFragments {
				continue
			}
			cases = append(cases, parserCase{fmt.Sprintf("text of %d in fragments of %d", size, chunk),
				chunked(0, opText, text, chunk), fmt.Sprintf("text ********...%d", size)})
		}
	}
	return cases
}

// chunked returns a message in fragments; bits are those of its first frame besides the opcode.
func chunked(bits, opcode byte, payload string, chunk int) string {
	var b strings.Builder
	for len(payload) > chunk {
		b.WriteString(rawFrame(bits|opcode, 0, uint64(chunk), payload[:chunk]))
		payload, bits, opcode = payload[chunk:], 0, opContinuation
	}
	b.WriteString(rawFrame(0x80|bits|opcode, 0, uint64(len(payload)), payload))
	return b.String()
}

// reservedCases returns frames with reserved bits that were not agreed on.
func reservedCases() []parserCase {
	var cases []parserCase
	for bits := byte(0x10); bits <= 0x70; bits += 0x10 {
		for _, opcode := range []byte{opText, opBinary, opClose, opPing, opPong} {
			cases = append(cases, parserCase{fmt.Sprintf("bits %02x, opcode %d", bits, opcode),
				frame(opText, "a") + rawFrame(0x80|bits|opcode, 0, 0, ""), "text a, error 1002"})
		}
		cases = append(cases, parserCase{fmt.Sprintf("bits %02x, continuation", bits),
			part(opText, "a") + rawFrame(0x80|bits, 0, 1, "b"), "error 1002"})
	}
	return cases
}

// reservedDeflateCases returns frames that stay invalid with compression: all except for RSV1 on
// the first frame of a message.
func reservedDeflateCases(t testing.TB) []parserCase {
	var cases []parserCase
	for _, c := range reservedCases() {
		if c.name != "bits 40, opcode 1" && c.name != "bits 40, opcode 2" {
			cases = append(cases, c)
		}
	}
	hello := deflated(t, "hello", 6)
	return append(cases,
		parserCase{"RSV1 on the last fragment", rawFrame(opText|0x40, 0, 3, hello[:3]) + rawFrame(0xc0, 0, uint64(len(hello)-3), hello[3:]), "error 1002"},
		parserCase{"RSV1 on a middle fragment", rawFrame(opText|0x40, 0, 3, hello[:3]) + rawFrame(0x40, 0, 0, ""), "error 1002"},
		parserCase{"RSV1 on a fragment of a message that is not compressed", part(opText, "a") + rawFrame(0xc0, 0, 1, "b"), "error 1002"},
		parserCase{"RSV1 and RSV2", rawFrame(0xe1, 0, uint64(len(hello)), hello), "error 1002"},
		parserCase{"RSV1 on a reserved opcode", rawFrame(0xc3, 0, uint64(len(hello)), hello), "error 1002"},
	)
}

// deflated returns a payload compressed by the standard library, as a client does.
func deflated(t testing.TB, plain string, level int) string {
	t.Helper()
	return deflatedParts(t, level, plain)[0]
}

// deflatedParts returns payloads of one stream, each based on those before: context takeover.
func deflatedParts(t testing.TB, level int, plain ...string) (parts []string) {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plain {
		b.Reset()
		if _, err := w.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, strings.TrimSuffix(b.String(), "\x00\x00\xff\xff"))
	}
	return parts
}

// compressedFrame returns a whole message in one compressed frame.
func compressedFrame(opcode byte, payload string) string {
	return rawFrame(0xc0|opcode, 0, uint64(len(payload)), payload)
}

func deflateCases(t testing.TB) []parserCase {
	hello, greek := deflated(t, "hello", 6), deflated(t, "κόσμε", 6)
	long := strings.Repeat("tick size ", 5000)
	zeros := func(n int) string { return deflated(t, strings.Repeat("0", n), 9) }
	takeover := deflatedParts(t, 9, "the same text again", "the same text again")
	first := func(s string) string { return rawFrame(opText|0x40, 0, uint64(len(s)), s) }
	cases := []parserCase{
		{"text", compressedFrame(opText, hello), "text hello"},
		{"binary", compressedFrame(opBinary, hello), "binary hello"},
		{"not only ASCII", compressedFrame(opText, greek), "text κόσμε"},
		{"two messages", compressedFrame(opText, hello) + compressedFrame(opText, greek), "text hello, text κόσμε"},
		{"one that is not compressed between", compressedFrame(opText, hello) + frame(opText, "plain") + compressedFrame(opText, hello), "text hello, text plain, text hello"},
		{"one that is not, in fragments, between", compressedFrame(opText, hello) + part(opText, "pl") + frame(opContinuation, "ain") + compressedFrame(opText, hello), "text hello, text plain, text hello"},
		// Examples of RFC 7692, section 7.2.3.
		{"example, fixed code", compressedFrame(opText, "\xf2\x48\xcd\xc9\xc9\x07\x00"), "text Hello"},
		{"example, in two fragments", first("\xf2\x48\xcd") + frame(opContinuation, "\xc9\xc9\x07\x00"), "text Hello"},
		{"example, reaches back", compressedFrame(opText, "\xf2\x48\xcd\xc9\xc9\x07\x00") + compressedFrame(opText, "\xf2\x00\x11\x00\x00"), "text Hello, error 1007"},
		{"example, stored", compressedFrame(opText, "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"), "text Hello"},
		{"example, last block", compressedFrame(opText, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), "text Hello"},
		{"example, two blocks", compressedFrame(opText, "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"), "text Hello"},
		{"nothing", compressedFrame(opText, "\x00"), "text "},
		{"nothing, fixed code", compressedFrame(opText, "\x02\x00"), "text "},
		{"nothing, binary", compressedFrame(opBinary, "\x00"), "binary "},
		{"long", compressedFrame(opText, deflated(t, long, 9)), "text tick siz...50000"},
		{"long, in a character a frame", chunked(0x40, opText, deflated(t, long, 9), 1), "text tick siz...50000"},
		{"context taken over", compressedFrame(opText, takeover[0]) + compressedFrame(opText, takeover[1]), "text the same text again, error 1007"},
		{"a ping between the fragments", first(hello[:2]) + frame(opPing, "p") + frame(opContinuation, hello[2:]), "ping p, text hello"},
		{"an empty first fragment", first("") + frame(opContinuation, hello), "text hello"},
		{"an empty last fragment", first(hello) + frame(opContinuation, ""), "text hello"},
		{"a text inside", first(hello) + frame(opText, "a"), "error 1002"},
		{"a compressed text inside", first(hello) + compressedFrame(opText, hello), "error 1002"},
		{"a close inside", first(hello) + closing(1000, ""), "close 1000 "},
		{"not UTF-8", compressedFrame(opText, deflated(t, "\xce\xba\xed\xa0\x80", 6)), "error 1007"},
		{"not UTF-8, binary", compressedFrame(opBinary, deflated(t, "\xff\xfe", 6)), "binary \xff\xfe"},
		{"cut off within a character", compressedFrame(opText, deflated(t, "κόσμε"[:3], 6)), "error 1007"},
		{"no byte", compressedFrame(opText, ""), "error 1007"},
		{"not compressed in truth", compressedFrame(opText, "hello"), "error 1007"},
		{"a block of no type", compressedFrame(opText, "\x06\x00"), "error 1007"},
		{"cut off", compressedFrame(opText, hello[:3]), "error 1007"},
		{"stored, length wrong", compressedFrame(opText, "\x00\x05\x00\xfa\xfe\x48\x65\x6c\x6c\x6f\x00"), "error 1007"},
		{"corrupt, then a ping", compressedFrame(opText, "hello") + frame(opPing, ""), "error 1007"},
		{"at the limit", compressedFrame(opText, zeros(testLimit)), "text 00000000...131072"},
		{"past the limit", compressedFrame(opText, zeros(testLimit+1)), "too big"},
		{"past the limit, binary", compressedFrame(opBinary, zeros(testLimit+1)), "too big"},
		{"past the limit, in fragments", chunked(0x40, opText, zeros(testLimit+1), 20), "too big"},
		{"a bomb", compressedFrame(opText, zeros(8<<20)), "too big"},
		{"a bomb, then a ping and a close", compressedFrame(opText, zeros(1<<20)) + frame(opPing, "p") + frame(opText, "late") + closing(1000, ""), "too big, ping p, close 1000 "},
		{"past the limit as it comes", compressedFrame(opText, strings.Repeat("\x00", testLimit+1)), "too big"},
		{"64 streams", compressedFrame(opText, strings.Repeat("\x03\x00", 63)+hello), "text hello"},
		{"65 streams", compressedFrame(opText, strings.Repeat("\x03\x00", 64)+hello), "error 1007"},
	}
	for i := range len(greek) + 1 {
		cases = append(cases, parserCase{fmt.Sprintf("cut at %d", i), first(greek[:i]) + frame(opContinuation, greek[i:]), "text κόσμε"})
	}
	return cases
}

// deflateSizeCases returns messages of many sizes at every compression level.
func deflateSizeCases(t testing.TB) []parserCase {
	var cases []parserCase
	for size := 16; size <= testLimit; size *= 8 {
		text := strings.Repeat(`{"P":7049.5,"Z":300},`, size/21+1)[:size]
		for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, flate.BestSpeed, flate.BestCompression} {
			payload := deflated(t, text, level)
			if len(payload) > testLimit {
				continue // announced size exceeds the limit
			}
			want := fmt.Sprintf("text %s...%d", text[:8], size)
			if size <= 40 {
				want = "text " + text
			}
			cases = append(cases, parserCase{fmt.Sprintf("%d by level %d", size, level), compressedFrame(opText, payload), want})
			if size > 200 {
				cases = append(cases, parserCase{fmt.Sprintf("%d by level %d, in fragments", size, level),
					chunked(0x40, opText, payload, len(payload)/3+1), want})
			}
		}
	}
	return cases
}
