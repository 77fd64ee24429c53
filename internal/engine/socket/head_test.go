package socket

import (
	"bufio"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/ruedahq/rueda/internal/engine/session"
)

func TestHeadReader(t *testing.T) {
	good := goodHandshake + "\r\n"
	cases := []struct {
		name, in string
		kind     headKind
		size     int
	}{
		{"nothing", "", headIncomplete, 0},
		{"beginning of the method", "GE", headIncomplete, 0},
		{"beginning of the path", "GET /str", headIncomplete, 0},
		{"path", "GET /stream", headIncomplete, 0},
		{"all but the end", good[:len(good)-1], headIncomplete, 0},
		{"whole", good, headUpgrade, len(good)},
		{"whole with frames", good + "\x81\x85", headUpgrade, len(good)},
		{"query", strings.Replace(good, "/stream", "/stream?v=1", 1), headUpgrade, len(good) + 4},
		{"another method", "POST /stream", headOther, 0},
		{"another path", "GET /metrics", headOther, 0},
		{"longer path", "GET /streams", headOther, 0},
		{"deeper path", "GET /stream/", headOther, 0},
		{"lower case", "get /stream", headOther, 0},
		{"bare line feeds", "GET /stream HTTP/1.1\n", headOther, 0},
		{"TLS", "\x16\x03\x01", headOther, 0},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", headOther, 0},
		{"too long", good[:len(good)-2] + strings.Repeat("X: y\r\n", 2000), headOther, 0},
		{"too many fields", good[:len(good)-2] + strings.Repeat("X: y\r\n", 64) + "\r\n", headOther, 0},
		{"escaped query", strings.Replace(good, "/stream", "/stream?v=%31", 1), headOther, 0},
		{"body", good[:len(good)-2] + "Content-Length: 0\r\n\r\n", headOther, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHeadReader("/stream")
			kind, size := h.read([]byte(c.in))
			if kind != c.kind || kind == headUpgrade && size != c.size {
				t.Errorf("got %d %d, want %d %d", kind, size, c.kind, c.size)
			}
		})
	}
}

// FuzzHead compares the head reader with net/http: equal results for accepted requests, and no
// other request is accepted.
func FuzzHead(f *testing.F) {
	f.Add(goodHandshake + "\r\n")
	f.Add(goodHandshake + "Origin: http://gw\r\nauthorization: Bearer a.b.c\r\nSec-WebSocket-Protocol: x\r\nsec-websocket-protocol:y\r\n\r\n")
	f.Add("GET /stream?a=b&c HTTP/1.1\r\nhost:gw:80\r\nConnection: ,,upgrade,\r\nUpgrade:websocket\r\n\r\nmore")
	f.Add("GET /stream HTTP/1.1\r\nHost: \r\nHost: x\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		h := newHeadReader("/stream")
		kind, size := h.read([]byte(raw))
		for cut := range min(len(raw), 64) { // a part has the same result, or needs more
			if early, n := h.read([]byte(raw[:cut])); early == headUpgrade && (kind != headUpgrade || n != size) || early == headOther && kind == headUpgrade {
				t.Fatalf("cut at %d: %d, whole: %d", cut, early, kind)
			}
		}
		if kind, _ := h.read([]byte(raw)); kind != headUpgrade {
			return
		}
		if !strings.HasSuffix(raw[:size], "\r\n\r\n") {
			t.Fatalf("head %q", raw[:size])
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			t.Fatalf("net/http: %v", err)
		}
		got := &h.request
		if r.Method != got.method || r.ProtoMajor != got.major || r.ProtoMinor != got.minor || r.Host != got.host ||
			r.URL.RawQuery != got.query || r.URL.Path != "/stream" || r.ContentLength != 0 {
			t.Fatalf("got %+v, net/http %+v", got, r)
		}
		for _, name := range usedFields {
			if want := r.Header[name]; len(want)+len(got.header[name]) > 0 && !reflect.DeepEqual(want, got.header[name]) {
				t.Fatalf("%s: got %q, net/http %q", name, got.header[name], want)
			}
		}
	})
}

// BenchmarkHead measures a usual handshake from its bytes to the response.
func BenchmarkHead(b *testing.B) {
	h := newHeadReader("/stream")
	in := []byte(goodHandshake + "User-Agent: bot/1.0\r\nAccept-Language: es\r\n\r\n")
	out := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		if kind, _ := h.read(in); kind != headUpgrade {
			b.Fatal(kind)
		}
		hand, refused := checkUpgrade(&h.request, nil, nil, "")
		if refused != nil {
			b.Fatal(refused.Msg)
		}
		out = hand.appendSwitching(out[:0])
	}
}

// TestSizes limits the size of types that may exist a million times. 288 bytes are a size class of
// the allocator; the next one has 320.
func TestSizes(t *testing.T) {
	t.Logf("figure: a connection is %d bytes, of which its session has %d", unsafe.Sizeof(conn{}), unsafe.Sizeof(session.Session{}))
	if size := unsafe.Sizeof(conn{}); size > 288 {
		t.Errorf("a connection is %d bytes with its session", size)
	}
}

// TestHasRequest checks which first bytes are a whole request.
func TestHasRequest(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                      false,
		"GET / HTTP/1.1\r\nHost: x\r\n":         false,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":     true,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\nmore": true,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab":                  false,
		"POST / HTTP/1.1\r\nHost: x\r\ncontent-length:  3\r\n\r\nabc":                true,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\nabc":                 false,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n": false,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n":           false,
	} {
		if got := hasRequest([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
