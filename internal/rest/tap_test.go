package rest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ruedahq/rueda/wire"

	"github.com/ruedahq/rueda/internal/frame"
)

// readerConn is a connection that something can be read of.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(b []byte) (int, error)    { return c.Reader.Read(b) }
func (readerConn) SetReadDeadline(time.Time) error { return nil }

// messages reads what a tap gives until its end.
func messages(r io.Reader) (list []string, err error) {
	t := newTap(readerConn{Reader: r})
	for {
		msg, err := t.next(time.Time{})
		if err != nil {
			return list, err
		}
		list = append(list, string(msg))
	}
}

func TestTap(t *testing.T) {
	var sent []string
	var b []byte
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 300_000, 3} {
		sent = append(sent, strings.Repeat("x", n))
		b = wire.AppendText(b, []byte(sent[len(sent)-1]))
	}
	b = append(b, frame.Close, 0)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(b), "in halves": iotest.HalfReader(bytes.NewReader(b)), "by bytes": iotest.OneByteReader(bytes.NewReader(b))} {
		got, err := messages(r)
		if !errors.Is(err, errTapClosed) || strings.Join(got, "|") != strings.Join(sent, "|") {
			t.Errorf("%s: %d messages of %d, %v", name, len(got), len(sent), err)
		}
	}
	for name, b := range map[string]string{"a binary message": "\x82\x00", "a fragment": "\x01\x00"} {
		if _, err := messages(strings.NewReader(b)); err == nil || errors.Is(err, io.EOF) || errors.Is(err, errTapClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := messages(strings.NewReader("\x81\x05ab")); !errors.Is(err, io.EOF) {
		t.Errorf("half a message: %v", err)
	}
}

// However bytes are cut, the messages are the same.
func FuzzTap(f *testing.F) {
	f.Add(wire.AppendText(wire.AppendText(nil, []byte("one")), bytes.Repeat([]byte("2"), 200)))
	f.Add([]byte("\x81\x7e\x00"))
	f.Add([]byte("\x88\x02\x0f\xa0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err := messages(bytes.NewReader(b))
		cut, err2 := messages(iotest.OneByteReader(bytes.NewReader(b)))
		if strings.Join(whole, "|") != strings.Join(cut, "|") || err.Error() != err2.Error() {
			t.Errorf("%q, %v and %q, %v", whole, err, cut, err2)
		}
	})
}
