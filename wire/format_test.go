package wire

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/deflate"
)

// A frameSeen is a frame as a client library parses it.
type frameSeen struct {
	opcode     byte
	compressed bool
	payload    string // inflated
}

// readFrames parses frames as a client does.
func readFrames(t testing.TB, b []byte) (all []frameSeen) {
	t.Helper()
	for len(b) > 0 {
		_, payload, size := frame.Split(b)
		if size == 0 || b[0]&0xb0 != 0x80 || b[1]&0x80 != 0 {
			t.Fatalf("bad frame %x", b[:min(len(b), 14)])
		}
		if again := frame.AppendHead(nil, b[0], len(payload)); !bytes.HasPrefix(b, again) {
			t.Fatalf("length not in its shortest form: %x", b[:min(len(b), 14)])
		}
		f := frameSeen{b[0] & 0x0f, b[0]&frame.Compressed != 0, string(payload)}
		if f.compressed {
			r := flate.NewReader(io.MultiReader(bytes.NewReader(payload), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
			plain, err := io.ReadAll(r)
			if err != nil || len(plain) <= len(payload) || len(plain) < minDeflate {
				t.Fatalf("%d bytes that inflate to %d: %v", len(payload), len(plain), err)
			}
			f.payload = string(plain)
		}
		all, b = append(all, f), b[size:]
	}
	return all
}

func texts(messages []string) []byte {
	var frames []byte
	for _, m := range messages {
		frames = AppendText(frames, []byte(m))
	}
	return frames
}

func newTranscoder() *Transcoder {
	return &Transcoder{Compress: new(deflate.Compressor).Append}
}

func allMessages(t testing.TB) []string {
	_, data := golden(t, "testdata/messages.golden")
	_, control := golden(t, "testdata/control.golden")
	return append(data, control...)
}

func TestSubprotocols(t *testing.T) {
	for f, name := range map[Format]string{JSON: "rueda.v1.json", Batch: "rueda.v1.json.batch", Msgpack: "rueda.v1.msgpack"} {
		if got := f.Subprotocol(); got != name {
			t.Errorf("format %d is %q", f, got)
		}
		if got := (f | Deflate).Subprotocol(); got != name {
			t.Errorf("format %d, compressed, is %q", f, got)
		}
		if got, ok := ParseSubprotocol(name); !ok || got != f {
			t.Errorf("%q is %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "rueda.v1", "RUEDA.V1.JSON", "rueda.v1.json ", "rueda.v2.json"} {
		if f, ok := ParseSubprotocol(name); ok || f != JSON {
			t.Errorf("%q is known", name)
		}
	}
}

// TestTranscode checks each format with all messages of the golden files, with one and with none.
func TestTranscode(t *testing.T) {
	long := `{"type":"x","msg":"` + strings.Repeat("nothing new ", 50) + `"}`
	tr := newTranscoder()
	for _, messages := range [][]string{nil, {Ping}, {long}, {Ping, long, Ping}, allMessages(t)} {
		frames := texts(messages)
		before := bytes.Clone(frames)
		for _, f := range []Format{JSON, Batch, Msgpack, Deflate, Batch | Deflate, Msgpack | Deflate} {
			out := tr.Append([]byte("before"), frames, f)
			if !bytes.HasPrefix(out, []byte("before")) {
				t.Fatalf("format %d overwrites what was there", f)
			}
			seen := readFrames(t, out[6:])
			var got []string
			for _, one := range seen {
				if one.compressed && f&Deflate == 0 {
					t.Errorf("format %d: compressed", f)
				}
				if !one.compressed && f&Deflate != 0 && len(one.payload) > 400 {
					t.Errorf("format %d: %d bytes not compressed", f, len(one.payload))
				}
				if want := f&^Deflate == Msgpack; want != (one.opcode == 2) || one.opcode == 0 {
					t.Errorf("format %d: opcode %d", f, one.opcode)
				}
				got = append(got, one.payload)
			}
			switch f &^ Deflate {
			case Batch:
				want := "[" + strings.Join(messages, ",") + "]"
				if len(messages) == 0 {
					want = ""
				}
				if strings.Join(got, "") != want || len(got) > 1 {
					t.Errorf("format %d: got %d frames: %s", f, len(got), got)
				}
			case Msgpack:
				for i, m := range messages {
					if want := string(AppendMsgpack(nil, []byte(m))); got[i] != want {
						t.Errorf("format %d: got %x, want %x", f, got[i], want)
					}
				}
			default:
				if strings.Join(got, "\n") != strings.Join(messages, "\n") {
					t.Errorf("format %d: got %s", f, got)
				}
			}
		}
		if !bytes.Equal(frames, before) {
			t.Fatal("the shared frames were written to")
		}
	}
	if got := new(Transcoder).Append(nil, texts([]string{long}), Deflate); !bytes.Equal(got, texts([]string{long})) {
		t.Error("without a compressor: the frame changes")
	}
}

// TestBatchSplits checks that a batch ends at 256 KiB, that a longer message has its own batch, and
// that no message is lost or duplicated.
func TestBatchSplits(t *testing.T) {
	var tr Transcoder
	for _, sizes := range [][]int{
		{maxBatch - 2}, {maxBatch - 3, 2}, {maxBatch - 5, 2}, {maxBatch - 1}, {maxBatch, maxBatch, 5},
		{5, maxBatch, 5}, {1000, 2000, 300_000, 1000}, {100_000, 100_000, 100_000, 100_000, 100_000},
	} {
		var messages []string
		for i, n := range sizes {
			messages = append(messages, `"`+strings.Repeat(string(rune('a'+i)), n-2)+`"`)
		}
		var got []string
		for _, f := range readFrames(t, tr.Append(nil, texts(messages), Batch)) {
			got = append(got, strings.Trim(f.payload, "[]"))
			if len(f.payload) > maxBatch && strings.Contains(f.payload, ",") {
				t.Errorf("%v: a batch of %d bytes", sizes, len(f.payload))
			}
		}
		if strings.Join(got, ",") != strings.Join(messages, ",") {
			t.Errorf("%v: %d frames that hold something else", sizes, len(got))
		}
		total := len(sizes) + 1
		for _, n := range sizes {
			total += n
		}
		if want := total > maxBatch; want != (len(got) > 1) && len(sizes) > 1 {
			t.Errorf("%v: %d frames", sizes, len(got))
		}
	}
}

// FuzzTranscode checks that no input panics and that the output consists of frames.
func FuzzTranscode(f *testing.F) {
	for _, m := range allMessages(f) {
		f.Add(AppendText(nil, []byte(m)))
	}
	f.Add(texts(allMessages(f)))
	f.Add([]byte{0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 5, '{'})
	tr := newTranscoder()
	f.Fuzz(func(t *testing.T, frames []byte) {
		whole := 0
		for b := frames; ; whole++ {
			_, _, size := frame.Split(b)
			if b = b[size:]; size == 0 {
				break
			}
			if len(b) == 0 {
				whole++
				break
			}
		}
		for _, format := range []Format{Batch, Msgpack, Deflate, Batch | Deflate, Msgpack | Deflate} {
			seen := readFrames(t, tr.Append(nil, frames, format))
			if n := len(seen); format&Batch == 0 && n != whole || format&Batch != 0 && n != min(1, whole) {
				t.Errorf("format %d: %d frames of %d", format, n, whole)
			}
		}
	})
}

func TestTranscodeAllocations(t *testing.T) {
	frames := texts(allMessages(t))
	tr := newTranscoder()
	for _, f := range []Format{JSON, Batch, Msgpack, Deflate, Batch | Deflate, Msgpack | Deflate} {
		var out []byte
		if got := testing.AllocsPerRun(100, func() { out = tr.Append(out[:0], frames, f) }); got != 0 {
			t.Errorf("format %d: %v allocations", f, got)
		}
	}
}

// BenchmarkTranscode measures a book message with two levels per side, and a run of sixteen
// messages.
func BenchmarkTranscode(b *testing.B) {
	_, messages := golden(b, "testdata/messages.golden")
	one := texts(messages[9:10])
	many := texts(append(messages, messages[0]))
	for _, f := range []Format{Batch, Msgpack, Deflate, Batch | Deflate, Msgpack | Deflate} {
		for i, frames := range [][]byte{one, many} {
			b.Run(fmt.Sprintf("%s+%d/%d", f.Subprotocol(), f&Deflate, []int{1, 16}[i]), func(b *testing.B) {
				tr := newTranscoder()
				var out []byte
				b.ReportAllocs()
				for b.Loop() {
					out = tr.Append(out[:0], frames, f)
				}
				b.ReportMetric(float64(len(frames)), "B-before")
				b.ReportMetric(float64(len(out)), "B-after")
			})
		}
	}
}
