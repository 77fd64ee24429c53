package deflate

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// inflate decompresses the output of a Compressor with the standard library, as RFC 7692 requires.
func inflate(t testing.TB, b []byte) []byte {
	t.Helper()
	// The four omitted bytes, and an empty final block for a clean end.
	r := flate.NewReader(io.MultiReader(bytes.NewReader(b), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("not a deflate stream: %v", err)
	}
	return out
}

// marketMessages returns the messages of the golden file of package wire.
func marketMessages(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("../../../wire/testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for line := range strings.Lines(string(data)) {
		_, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		messages = append(messages, message)
	}
	return messages
}

func TestCompress(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 70_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	messages := marketMessages(t)
	payloads := [][]byte{
		nil, {0}, []byte("a"), []byte("aaaa"), []byte("abcabcabcabc"), noise[:100], noise,
		bytes.Repeat([]byte("a"), 258), bytes.Repeat([]byte("a"), 259), bytes.Repeat([]byte("a"), 100_000),
		bytes.Repeat(noise[:window], 2), bytes.Repeat(noise[:window-1], 3), bytes.Repeat(noise[:window+1], 2),
		[]byte(strings.Join(messages, ",")),
	}
	for _, m := range messages {
		payloads = append(payloads, []byte(m))
	}
	var d Compressor // one for all, to check that nothing carries over to the next payload
	for range 2 {
		for i, p := range payloads {
			got := d.Append([]byte("before"), p)
			if !bytes.HasPrefix(got, []byte("before")) || !bytes.Equal(inflate(t, got[6:]), p) {
				t.Errorf("payload %d of %d bytes comes out otherwise", i, len(p))
			}
			var fresh Compressor
			if !bytes.Equal(fresh.Append(nil, p), got[6:]) {
				t.Errorf("payload %d of %d bytes: what was compressed before shows", i, len(p))
			}
		}
	}
}

// TestCompressAllocations checks the budget of BenchmarkCompress.
func TestCompressAllocations(t *testing.T) {
	p := []byte(strings.Join(marketMessages(t), ","))
	var d Compressor
	out := d.Append(nil, p)
	if got := testing.AllocsPerRun(100, func() { out = d.Append(out[:0], p) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkCompress measures a book of ten levels per side, an update of it, and sixteen updates as
// one batch.
func BenchmarkCompress(b *testing.B) {
	book := func(n int) string {
		return fmt.Sprintf(`{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"2026-11-20T14:30:%02d.123456%03dZ","D":%d,"R":true,"DL":5,`+
			`"B":[[7049.5,%d,4],[7049,%d,2],[7048.5,210,3],[7048,95,1],[7047.5,460,7]],"A":[[7050,%d,9],[7050.5,80,1],[7051,330,2],[7051.5,145,2],[7052,77,1]],"K":%d}`,
			5011+n, n%60, n*37%1000, 184200+n*7919%50000, 300+n*13%400, 150+n*7%90, 1200-n*11%500, uint32(n)*2654435761)
	}
	update := func(n int) string {
		symbol := []string{"GGAL", "AL30", "YPFD", "BMA"}[n*7%4]
		return fmt.Sprintf(`{"type":"O","S":"%s","I":"%s|BYMA|24hs","N":%d,"T":"2026-11-20T14:30:%02d.%09dZ","D":%d,"L":%d,"B":[[7049.5,%d,3]],"A":[[%d,0]],"K":%d}`,
			symbol, symbol, 5011+n, n%60, n*37234567%1000000000, 184200+n*7919%50000, 5010+n, 300+n*13%400, 7000+n*7%90, uint32(n)*2654435761)
	}
	batch := func(n int) string {
		var all []string
		for i := range 16 {
			all = append(all, update(16*n+i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for _, c := range []struct {
		name string
		make func(int) string
	}{{"book", book}, {"update", update}, {"batch", batch}} {
		b.Run(c.name, func(b *testing.B) {
			var d Compressor
			var payloads [64][]byte
			before, after := 0, 0
			for i := range payloads {
				payloads[i] = []byte(c.make(i))
				before += len(payloads[i])
				after += len(d.Append(nil, payloads[i]))
			}
			var out []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				out = d.Append(out[:0], payloads[i%len(payloads)])
			}
			b.ReportMetric(float64(before)/float64(len(payloads)), "B-before")
			b.ReportMetric(float64(after)/float64(len(payloads)), "B-after")
		})
	}
}
