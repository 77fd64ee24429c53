package readahead

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestConn checks when a connection waits for the network, and finds it below TLS.
func TestConn(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }()
	conn, err := Dialer(func(context.Context, string, string) (net.Conn, error) { return ours, nil })(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{conn, tls.Client(conn, nil), tls.Client(tls.Client(conn, nil), nil)} {
		if got := Of(c); got != conn {
			t.Errorf("%T: %v", c, got)
		}
	}
	if got := Of(theirs); got != nil {
		t.Errorf("another connection: %v", got)
	}
	began, empty := time.Now(), 0
	c := Of(conn)
	c.Empty = func() { empty++ }
	go func() { _, _ = theirs.Write([]byte("abcdef")) }()
	for range 3 {
		if n, err := c.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if empty != 1 || c.At.Before(began) {
		t.Errorf("%d waits, the newest bytes at %v", empty, c.At)
	}
	if _, err := Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestBlocks reads messages of many lengths. Those before stay as they are, also if a program
// appends to one.
func TestBlocks(t *testing.T) {
	var b Blocks
	var want []string
	var got [][]byte
	for i := range 3000 {
		text := strings.Repeat(string(rune('a'+i%26)), i*i%997)
		if i%100 == 0 {
			text = strings.Repeat("long", 3*blockSize/4+i)
		}
		data, err := b.Message(iotest.OneByteReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		want, got = append(want, text), append(got, data)
		_ = append(data, "overwrites"...)
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Fatalf("message %d: %.20q with %d bytes, want %.20q with %d", i, got[i], len(got[i]), want[i], len(want[i]))
		}
	}
	if _, err := b.Message(iotest.ErrReader(fmt.Errorf("header: %w", io.EOF))); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that ends in a message: %v", err)
	}
	short := bytes.Repeat([]byte("x"), 100)
	r := bytes.NewReader(nil)
	if n := testing.AllocsPerRun(1000, func() {
		r.Reset(short)
		_, _ = b.Message(r)
	}); n > 0.1 {
		t.Errorf("%v allocations for a message of 100 bytes", n)
	}
}
