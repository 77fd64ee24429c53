package socket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/deflate"
)

// soak returns the full count of a long test if RUEDA_SOAK is 1, and a twentieth of it otherwise.
func soak(full int) int {
	if os.Getenv("RUEDA_SOAK") == "1" {
		return full
	}
	return max(full/20, 1)
}

var testMask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// rawFrame returns a masked frame with any first byte, and the length in any form: 0 for the
// shortest, otherwise its number of bytes (1, 2, 8).
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

// frame returns a final frame; part returns one that is not final.
func frame(opcode byte, payload string) string {
	return rawFrame(0x80|opcode, 0, uint64(len(payload)), payload)
}

func part(opcode byte, payload string) string {
	return rawFrame(opcode, 0, uint64(len(payload)), payload)
}

func closing(code uint16, reason string) string {
	return frame(opClose, string([]byte{byte(code >> 8), byte(code)})+reason)
}

// script passes the pieces to a parser and returns a description of its events. With an inflater,
// messages may be compressed.
func script(t testing.TB, limit int, inflater *deflate.Decompressor, pieces ...[]byte) string {
	t.Helper()
	p := NewParser(limit)
	if inflater != nil {
		p.AllowDeflate(inflater, limit)
	}
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

// cuts returns positions to divide an input of n bytes: those in the head of the frame, at the end
// and in the middle, and every fourth if it is short. dense adds all positions of a short input and
// some of a long one, with RUEDA_SOAK all of them.
func cuts(n int, dense bool) []int {
	var list []int
	for i := range n {
		if n <= 512 && (dense || i%4 == 0) || i < 15 || i >= n-4 || i == n/2 || dense && (i < 64 || i >= n-64 || i%1021 == 0 || os.Getenv("RUEDA_SOAK") == "1" && n < 1<<16+64) {
			list = append(list, i)
		}
	}
	return list
}

func bytewise(in []byte) [][]byte { return inPieces(in, 1) }

func inPieces(in []byte, size int) [][]byte { return slices.Collect(slices.Chunk(in, size)) }

// TestParserDiscard checks that a closing connection still reports control frames, whenever it
// begins to close.
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

// TestParserHoldsNothing checks that a parser between messages has no carry.
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

// TestParserAnnouncedLength checks that an announced length costs no memory.
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

// FuzzParser checks that no input panics or exceeds the limit of carry, and that events do not
// depend on how the input is divided.
func FuzzParser(f *testing.F) {
	for _, group := range [][]parserCase{framingCases(), controlCases(), closeCodeCases(), fragmentCases(), opcodeCases(), textCases()[:40], deflateCases(f)} {
		for _, c := range group {
			if len(c.in) <= 4096 {
				f.Add([]byte(c.in), uint16(len(c.in)/2))
			}
		}
	}
	var shared deflate.Decompressor
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		const limit = 300
		for _, inflater := range []*deflate.Decompressor{nil, &shared} {
			want := script(t, limit, inflater, in)
			at := int(cut) % (len(in) + 1)
			if got := script(t, limit, inflater, in[:at], in[at:]); got != want {
				t.Errorf("cut at %d: %q, whole: %q", at, got, want)
			}
			if got := script(t, limit, inflater, bytewise(in)...); got != want {
				t.Errorf("byte by byte: %q, whole: %q", got, want)
			}
		}
	})
}

// TestParserAllocations checks the allocation budget of BenchmarkParser.
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
