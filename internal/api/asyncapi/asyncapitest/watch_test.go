package asyncapitest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/base/msgpack"
	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/wire"
)

// wires is a connection that reads what in has, a byte at a time.
type wires struct{ in, out bytes.Buffer }

func (w *wires) Read(b []byte) (int, error)  { return w.in.Read(b[:min(len(b), 1)]) }
func (w *wires) Write(b []byte) (int, error) { return w.out.Write(b) }
func (w *wires) Close() error                { return nil }

// TestWatch checks that Watch notices what the document does not have, in both directions, in whole
// messages and in fragments, and that it passes all bytes on.
func TestWatch(t *testing.T) {
	const mask, news = 0xa1b2c3d4, `{"type":"News"}`
	server := func(first byte, text string) string {
		return string(frame.AppendHead(nil, first, len(text))) + text
	}
	masked := func(first byte, text string) string {
		return string(frame.AppendMasked(nil, first, mask, []byte(text)))
	}
	client := func(text string) string { return masked(frame.Text, text) }
	packed := func(text string) string { return string(msgpack.Append(nil, []byte(text))) }
	deflated := func(text string) string { return string(new(deflate.Compressor).Append(nil, []byte(text))) }
	long := `{"type":"News","x":"` + strings.Repeat("x", 70_000) + `"}`
	for _, c := range []struct{ name, in, out, want string }{
		{"messages of the document", server(frame.Text, wire.Ping) + server(frame.Close, "\x11\x31token_expired"), client(`{"action":"pong"}`), ""},
		{"message of the server", server(frame.Text, news), "", "News"},
		{"long message of the server", server(frame.Text, long), "", "News"},
		{"middle message of the server", server(frame.Text, `{"type":"News","x":"`+strings.Repeat("x", 200)+`"}`), "", "News"},
		{"batch of the server", server(frame.Text, "["+wire.Ping+","+news+"]"), "", "News"},
		{"fragments", server(0x01, `{"type":`) + server(frame.Ping, "x") + server(0x80, `"News"}`), "", "News"},
		{"MessagePack of the document", server(frame.Binary, packed(wire.Ping)), masked(frame.Binary, packed(`{"action":"pong"}`)), ""},
		{"MessagePack of the server", server(frame.Binary, packed(news)), "", "News"},
		{"batch in MessagePack", server(frame.Binary, packed("["+wire.Ping+","+news+"]")), "", "News"},
		{"MessagePack of the client", "", masked(frame.Binary, packed(`{"action":"follow"}`)), "follow"},
		{"not MessagePack", "", masked(frame.Binary, "\xc1"), "the document does not allow 1 messages"},
		{"compressed message of the document", server(frame.Text|frame.Compressed, deflated(wire.Ping)), "", ""},
		{"compressed message of the server", server(frame.Text|frame.Compressed, deflated(news)), "", "News"},
		{"compressed MessagePack", server(frame.Binary|frame.Compressed, deflated(packed(news))), "", "News"},
		{"compressed message of the client", "", masked(frame.Text|frame.Compressed, deflated(`{"action":"follow"}`)), "follow"},
		{"compressed fragments", server(0x41, deflated(news)[:3]) + server(0x80, deflated(news)[3:]), "", "News"},
		{"close code", server(frame.Close, "\x11\x31slow_client"), "", "4401 slow_client"},
		{"close code of the client", server(frame.Close, "\x03\xe9"), masked(frame.Close, "\x03\xe9bye"), ""},
		{"another close code", server(frame.Close, "\x03\xe9"), masked(frame.Close, "\x03\xe8"), "1001"},
		{"message of the client", "", client(`{"action":"follow"}`), "follow"},
		{"refused message of the client", server(frame.Text, `{"type":"Error","code":400,"reason":"bad_field","msg":"x","retry":false}`), client(`{"action":"follow"}`), ""},
	} {
		var w wires
		w.in.WriteString(c.in)
		errs := []error{errors.New("no report")}
		conn := Watch(&w, func(err error) { errs = append(errs[:0], err) })
		if _, err := io.WriteString(conn, c.out); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != c.in || w.out.String() != c.out {
			t.Errorf("%s: the bytes differ, %v", c.name, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(errs...); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
