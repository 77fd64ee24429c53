package rest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestFraming(t *testing.T) {
	get := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, tt := range []struct {
		name, in string
		want     int32
	}{
		{"nothing", "", framingSound},
		{"requests", get + get, framingSound},
		{"a body that looks like a request", "POST / HTTP/1.1\r\nContent-Length: 60\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked" + get, framingSound},
		{"bare line feeds", "POST / HTTP/1.1\nContent-Length: 2\n\n\n\n" + get, framingSound},
		{"empty lines between", get + "\r\n\r\n" + get, framingSound},
		{"chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + get, framingLast},
		{"a long field", "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 5000) + "\r\n\r\n" + get, framingSound},
		{"both", "POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", framingBad},
		{"both, the other way", "POST / HTTP/1.1\r\ntransfer-encoding: x\r\nA: b\r\ncontent-length: 2\r\n\r\n", framingBad},
		{"both, in the second request", get + "POST / HTTP/1.0\r\nContent-Length:2\r\nTransfer-Encoding:\r\n\r\n", framingBad},
		{"both, after a body", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", framingBad},
		{"twice", "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", framingBad},
		{"a list", "POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\n", framingBad},
		{"no number", "POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n", framingBad},
		{"far out", "POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat(" ", 100) + "2\r\n\r\n", framingBad},
		{"folded", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", framingBad},
		{"folded by a tab", "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", framingBad},
		{"in a name's place only", "GET / HTTP/1.1\r\nX-Content-Length: 1\r\nTransfer-Encoding-X: 2\r\nA: Content-Length: 3\r\n\r\n" + get, framingSound},
	} {
		for _, step := range []int{1, 2, 7, 1 << 20} {
			var f framing
			got := framingSound
			for in := []byte(tt.in); len(in) > 0; {
				n := min(step, len(in))
				got = f.feed(in[:n])
				in = in[n:]
			}
			if got != tt.want {
				t.Errorf("%s, %d bytes at a time: got %d, want %d", tt.name, step, got, tt.want)
			}
		}
	}
}

// FuzzFraming checks that framing and net/http agree on the end of each request that framing
// accepts: each request of net/http starts where framing expects one.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\nHost: a\nContent-Length: 0\n\nGET /x HTTP/1.0\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n Content-Length: 3\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		source := bytes.NewReader(in)
		reader := bufio.NewReaderSize(source, 1<<16)
		var watch framing
		seen := 0
		for {
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			end := len(in) - source.Len() - reader.Buffered()
			result := watch.feed(in[seen:end])
			seen = end
			if result != framingSound {
				return
			}
			if len(r.TransferEncoding) > 0 {
				t.Fatalf("chunks are sound: %q", in[:end])
			}
			if watch.started || watch.filled > 0 || watch.body > 0 {
				t.Fatalf("a request of net/http ends within one of framing: %q", in[:end])
			}
		}
	})
}
