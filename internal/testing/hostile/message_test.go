//go:build unix

package hostile

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// upgraded reads the answer to a handshake that was already sent.
func (a *attacker) upgraded(nc net.Conn) *socket {
	a.Helper()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(nc)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		a.Fatalf("handshake: %v %v", res, err)
	}
	return &socket{attacker: a, nc: nc, r: r}
}

// messageInputs returns the inputs of an authenticated socket.
func messageInputs() []input {
	bad := func(a *attacker, reason string, messages ...string) {
		a.Helper()
		for _, m := range messages {
			s := a.authenticated(a.user())
			s.send(m)
			s.expect("Error", 400, reason)
			s.alive()
			s.nc.Close()
		}
	}
	return []input{
		{96, "binary frame on a JSON connection", func(a *attacker) {
			s := a.authenticated(a.user())
			s.frame(fin|opBinary, []byte(`{"action":"subscriptions"}`))
			s.expect("Error", 400, "bad_message")
			s.alive()
		}},
		{97, "text that is not UTF-8", func(a *attacker) {
			s := a.authenticated(a.user())
			s.frame(fin|opText, []byte("{\"action\":\"\xff\"}"))
			s.ends(1007)
		}},
		{98, "not a message", func(a *attacker) {
			bad(a, "bad_json", `nonsense`, `{"action":"subscribe"`, `{"action":"subscribe","action":"subscribe"}`)
			bad(a, "", `[]`, `1`, `null`, `{"action":1}`, `{}`)
			bad(a, "unknown_action", `{"action":"fly"}`)
			s := a.authenticated(a.user())
			for range 10 {
				s.send(`nonsense`)
			}
			for {
				m := s.control()
				if m.closed != 0 {
					if m.closed != 4400 {
						a.Errorf("closed %d after ten faults", m.closed)
					}
					break
				}
			}
		}},
		{99, "wrong types in subscribe", func(a *attacker) {
			bad(a, "bad_field", `{"action":"subscribe","trades":"GGAL|BYMA|24hs"}`, `{"action":"subscribe","trades":[["GGAL|BYMA|24hs"]]}`,
				`{"action":"subscribe","trades":[null]}`, `{"action":"subscribe","trades":[1]}`, `{"action":"subscribe","trades":{}}`)
		}},
		{100, "identifiers", badIdentifiers},
		{101, "the same twice", func(a *attacker) {
			s := a.authenticated(a.user())
			s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs","GGAL|BYMA|24hs"]}`)
			if m := s.expect("Subscription", 200, ""); len(m.Trades) != 1 {
				a.Errorf("%v", m.Trades)
			}
			s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
			if m := s.expect("Subscription", 200, ""); len(m.Trades) != 1 {
				a.Errorf("%v", m.Trades)
			}
		}},
		{102, "100,000 identifiers", func(a *attacker) {
			s := a.authenticated(a.user())
			s.send(`{"action":"subscribe","trades":["` + strings.Repeat(`A|B|C","`, 100_000) + `A|B|C"]}`)
			s.tooBig()
			s = a.authenticated(a.user())
			var ids []string
			for i := range 2_100 { // more than the limit, in a message that is not too big
				ids = append(ids, fmt.Sprintf(`"A%d|BYMA|24hs"`, i))
			}
			s.send(`{"action":"subscribe","trades":[` + strings.Join(ids, ",") + `]}`)
			s.expect("Error", 413, "subscription_limit")
			s.alive()
		}},
		{103, "no channel at all", func(a *attacker) {
			bad(a, "bad_field", `{"action":"subscribe"}`, `{"action":"subscribe","trades":null}`)
		}},
		{104, "depth that was not granted", func(a *attacker) {
			s := a.authenticated("shallow")
			s.send(`{"action":"subscribe","order_book":["GGAL|BYMA|24hs"],"depth":5,"trades":["GGAL|BYMA|24hs"]}`)
			m := s.expect("Subscription", 200, "")
			if len(m.Rejected) != 1 || m.Rejected[0]["reason"] != "not_entitled" || len(m.Trades) != 1 {
				a.Errorf("%s", m.text)
			}
			s.send(`{"action":"subscribe","trades":["*|BYMA|24hs"]}`)
			s.expect("Error", 403, "forbidden") // the scope for patterns
		}},
		{105, "revoked right", func(a *attacker) {
			t := a.login("user12")
			s := a.open()
			s.send(`{"action":"auth_token","token":"` + t.access + `"}`)
			s.expect("Success", 200, "")
			s.send(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
			s.expect("Subscription", 200, "")
			a.ask(a, "ungrant user12")
			m := s.expect("Subscription", 200, "")
			if len(m.Removed) != 1 || m.Removed[0]["reason"] != "not_entitled" {
				a.Errorf("%s", m.text)
			}
			s.alive()
		}},
		{106, "10,000 subscribes and unsubscribes a second", flood(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"],"replace":true}`)},
		{109, "10,000 pings a second", flood(`{"action":"ping"}`)},
		{110, "invalid frames", badFrames},
		{111, "close with a reason that is not UTF-8", func(a *attacker) {
			s := a.authenticated(a.user())
			s.frame(fin|opClose, []byte{0x03, 0xe8, 0xff, 0xfe})
			s.ends(1007, 1002)
		}},
		{112, "declared length", func(a *attacker) {
			for _, n := range []uint64{1<<63 - 1, 1 << 40, 65<<10 + 1} {
				s := a.authenticated(a.user())
				head := []byte{fin | opText, 0x80 | 127, byte(n >> 56), byte(n >> 48), byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0}
				if _, err := s.nc.Write(head); err != nil {
					a.Fatal(err)
				}
				s.refuses(413, "message_too_big", 4413)
			}
		}},
		{113, "100,000 fragments", func(a *attacker) {
			s := a.authenticated(a.user())
			b := appendFrame(nil, opText, []byte("x"))
			for range 100_000 {
				b = appendFrame(b, 0, []byte("x"))
			}
			_, _ = s.nc.Write(b) // the rest may reach a closed socket
			s.tooBig()
		}},
		{114, "deflate bomb", func(a *attacker) {
			s := a.open("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
			s.send(`{"action":"auth_token","token":"` + a.token(a.user()) + `"}`)
			s.next() // compressed or not: Success
			var z bytes.Buffer
			w, err := flate.NewWriter(&z, 9)
			if err != nil {
				a.Fatal(err)
			}
			_, _ = w.Write(bytes.Repeat([]byte{'x'}, 50<<20))
			_ = w.Flush()
			s.frame(fin|0x40|opText, bytes.TrimSuffix(z.Bytes(), []byte{0, 0, 0xff, 0xff}))
			for {
				if m := s.next(); m.closed != 0 {
					if m.closed != 4413 && m.closed != -1 {
						a.Errorf("closed %d", m.closed)
					}
					return
				}
			}
		}},
		{115, "reader that stops", stopReading},
		{116, "reset in a frame, half close", func(a *attacker) {
			before := a.figures(a).Open
			for i := range 20 {
				s := a.authenticated(a.user())
				if _, err := s.nc.Write(appendFrame(nil, fin|opText, []byte(`{"action":"subscriptions"}`))[:9]); err != nil {
					a.Fatal(err)
				}
				if c, ok := s.nc.(*net.TCPConn); ok && i%2 == 0 {
					_ = c.SetLinger(0)
				} else if ok {
					_ = c.CloseWrite()
					continue
				}
				s.nc.Close()
			}
			a.eventually("all are closed", func() bool { return a.figures(a).Open <= before })
		}},
		{117, "1,000 handshakes from one address", func(a *attacker) {
			// The gateway allows 200 at once and 100 a second, however long they take here.
			from, allowed, start := a.from(), 0, time.Now()
			for range 1000 {
				nc, err := a.dial(from)
				if err != nil {
					continue
				}
				_, _ = nc.Write([]byte(upgrade + "\r\n"))
				_ = nc.SetReadDeadline(time.Now().Add(30 * time.Second))
				var line [12]byte
				_, _ = nc.Read(line[:])
				if status(line[:]) == http.StatusSwitchingProtocols {
					allowed++
				}
				nc.Close()
			}
			if most := 202 + int(100*time.Since(start).Seconds()); allowed < 100 || allowed > most {
				a.Errorf("%d were allowed, want 100 to %d", allowed, most)
			}
		}},
		{118, "snapshot while the book changes", snapshotChain},
		{120, "clock and heartbeat", func(a *attacker) {
			// Other tests set the clock. Here a client that sends any time changes nothing.
			s := a.authenticated(a.user())
			for _, at := range []string{"0", "-1", `"1970-01-01T00:00:00Z"`, "1e300"} {
				s.frame(fin|opText, []byte(`{"action":"pong","time":`+at+`}`))
			}
			s.alive()
		}},
	}
}

func badIdentifiers(a *attacker) {
	s := a.authenticated(a.user())
	ids := []string{
		"GGAL|BYMA", "GGAL|BYMA|24hs|x", "|BYMA|24hs", "GGAL||24hs", "GGAL|BYMA|", "ggal|BYMA|24hs", "GGAL|byma|24hs", " GGAL|BYMA|24hs",
		"GGAL|BYMA|24hs ", "GG*|BYMA|24hs", strings.Repeat("A", 300) + "|BYMA|24hs", "GGÁL|BYMA|24hs", "GGAL\\u0000|BYMA|24hs", "GGAL;|BYMA|24hs", "", "|", "||",
	}
	list, err := json.Marshal(append(ids, "GGAL|BYMA|24hs"))
	if err != nil {
		a.Fatal(err)
	}
	s.send(`{"action":"subscribe","trades":` + string(list) + `}`)
	m := s.expect("Subscription", 200, "")
	if len(m.Rejected) != len(ids) || len(m.Trades) != 1 {
		a.Errorf("%d of %d refused, %v accepted: %s", len(m.Rejected), len(ids), m.Trades, m.text)
	}
}

// flood returns an input that sends a message as fast as the socket accepts it, until the server
// closes.
func flood(message string) func(*attacker) {
	return func(a *attacker) {
		s := a.authenticated(a.user())
		go func() {
			b := bytes.Repeat(appendFrame(nil, fin|opText, []byte(message)), 100)
			for {
				if _, err := s.nc.Write(b); err != nil {
					return
				}
			}
		}()
		limited := false
		for {
			m := s.control()
			if m.closed != 0 {
				if !limited || m.closed != 4429 && m.closed != -1 {
					a.Errorf("closed %d %s, rate_limited sent: %v", m.closed, m.Reason, limited)
				}
				return
			}
			limited = limited || m.Reason == "rate_limited"
		}
	}
}

func badFrames(a *attacker) {
	for what, frame := range map[string][]byte{
		"ping of 126 bytes":       appendFrame(nil, fin|opPing, make([]byte, 126)),
		"fragmented ping":         appendFrame(nil, opPing, []byte("x")),
		"RSV1 without agreement":  appendFrame(nil, fin|0x40|opText, []byte("{}")),
		"RSV2":                    appendFrame(nil, fin|0x20|opText, []byte("{}")),
		"opcode 3":                appendFrame(nil, fin|0x3, []byte("{}")),
		"opcode 11":               appendFrame(nil, fin|0xb, nil),
		"unmasked":                {fin | opText, 2, '{', '}'},
		"continuation of nothing": appendFrame(nil, fin, []byte("x")),
		"close with 1005":         appendFrame(nil, fin|opClose, []byte{0x03, 0xed}),
		"close with 1016":         appendFrame(nil, fin|opClose, []byte{0x03, 0xf8}),
		"close of one byte":       appendFrame(nil, fin|opClose, []byte{0x03}),
		"text inside a message":   append(appendFrame(nil, opText, []byte("x")), appendFrame(nil, fin|opText, []byte("x"))...),
	} {
		s := a.authenticated(a.user())
		if _, err := s.nc.Write(frame); err != nil {
			a.Fatal(err)
		}
		if m := s.ends(1002); m.closed != 1002 {
			a.Errorf("%s: closed %d", what, m.closed)
		}
		s.nc.Close()
	}
}

// stopReading subscribes to everything and reads nothing, while another client reads.
func stopReading(a *attacker) {
	stuck, other := a.authenticated(a.user()), a.authenticated(a.user())
	if c, ok := stuck.nc.(*net.TCPConn); ok {
		_ = c.SetReadBuffer(4 << 10)
	}
	const all = `"trades":["*|BYMA|24hs","*|BYMA|CI"],"quotes":["*|BYMA|24hs","*|BYMA|CI"]`
	for _, s := range []*socket{stuck, other} {
		s.send(`{"action":"subscribe",` + all + `}`)
	}
	before := a.figures(a).Heap
	other.expect("Subscription", 200, "")
	for range 200 { // the other one still receives data
		if m := other.next(); m.closed != 0 {
			a.Fatalf("the other reader was closed: %d %s", m.closed, m.text)
		}
	}
	if after := a.figures(a).Heap; after > before+32<<20 {
		a.Errorf("the heap grew from %d to %d for a reader that stopped", before, after)
	}
}

// snapshotChain requests the book repeatedly while it changes. Each message follows the one before,
// or is a snapshot.
func snapshotChain(a *attacker) {
	s := a.authenticated(a.user())
	s.send(`{"action":"subscribe","order_book":["FAKE|SIM|CI"]}`)
	var once sync.Once
	last, seen := uint64(0), 0
	for seen < 60 {
		m := s.next()
		if m.closed != 0 {
			a.Fatalf("closed %d %s", m.closed, m.text)
		}
		if m.Type != "O" {
			continue
		}
		var o struct {
			N, L uint64
			R    bool
		}
		if err := json.Unmarshal([]byte(m.text), &o); err != nil {
			a.Fatal(err)
		}
		if !o.R && o.L != last {
			a.Fatalf("message %d builds on %d, the last was %d", o.N, o.L, last)
		}
		last = o.N
		seen++
		if seen%10 == 0 {
			s.send(`{"action":"resync","order_book":["FAKE|SIM|CI"]}`)
		}
		once.Do(func() {
			if !o.R {
				a.Error("the first message is not a snapshot")
			}
		})
	}
}
