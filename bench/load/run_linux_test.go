package load

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/wire"
)

// relay is a server with one connection that sends given data and then waits.
func relay(t *testing.T, numbers []uint64, end bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		in := bufio.NewReader(nc)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		b := []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + upgradeAccept + "\r\n\r\n")
		for _, n := range numbers {
			b = wire.AppendText(b, trade(0, n))
		}
		// In pieces, so that frames are divided.
		for len(b) > 0 {
			n := min(50, len(b))
			if _, err := nc.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
		if !end {
			_, _ = in.ReadByte()
		}
	}()
	return l.Addr().String()
}

// ask runs a load program that connects, waits for the trades up to last, and reports.
func ask(t *testing.T, address string, last uint32) (f Finished) {
	t.Helper()
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(in, out) }()
	id := pattern.ID(0).String()
	dec := json.NewDecoder(answers)
	for _, q := range []struct {
		do   string
		args any
	}{
		{"open", Config{Protocol: "plain", Address: address, Conns: 1, Sets: []Set{{Trades: []string{id}}}}},
		{"finish", Finish{Last: map[string]uint32{id: last}, Seconds: 0.3}},
	} {
		if err := json.NewEncoder(requests).Encode(map[string]any{"do": q.do, "args": q.args}); err != nil {
			t.Fatal(err)
		}
		var a struct {
			Error  string
			Result json.RawMessage
		}
		if err := dec.Decode(&a); err != nil {
			t.Fatalf("%s: %v", q.do, err)
		}
		if a.Error != "" { // it may be detected this early
			f.Faults.First = a.Error
			break
		}
		if q.do == "finish" {
			if err := json.Unmarshal(a.Result, &f); err != nil {
				t.Fatal(err)
			}
		}
	}
	requests.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return f
}

// TestServersThatCheat checks that lost and duplicated messages, stalls and ends are detected.
func TestServersThatCheat(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint64
		end     bool
		fault   string // expected text; "": none
	}{
		{"honest", []uint64{1, 2, 3, 4}, false, ""},
		{"loses one", []uint64{1, 2, 4}, false, "N 4 after 2"},
		{"doubles one", []uint64{1, 2, 2, 3, 4}, false, "N 2 after 2"},
		{"keeps the last back", []uint64{1, 2, 3}, false, "has N 1 to 3 of 1 to 4"},
		{"leaves the first out", []uint64{2, 3, 4}, false, "has N 2 to 4 of 1 to 4"},
		{"sends nothing", nil, false, "has N 0 to 0 of 1 to 4"},
		{"ends", []uint64{1, 2, 3}, true, "ended without a close frame"},
	} {
		f := ask(t, relay(t, c.numbers, c.end), 4)
		if f.Complete != (c.fault == "") || !strings.Contains(f.Faults.First, c.fault) {
			t.Errorf("%s: %+v, want %q", c.name, f, c.fault)
		}
	}
}
