//go:build unix

package hostile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// resets returns the kinds of clients that vanish: each connects, sends a text, and resets its
// connection immediately.
func resets(token string) []struct{ name, text string } {
	const request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	bearer := "Host: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	return []struct{ name, text string }{
		{"connect", ""},
		{"half a request", request[:10]},
		{"request", request},
		{"request with a body", "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		{"request with a token", "GET /broker/accounts HTTP/1.1\r\n" + bearer},
		{"handshake", upgrade + "\r\n"},
		{"session", upgrade + "\r\n" + string(appendFrame(nil, fin|opText, []byte(`{"action":"auth_token","token":"`+token+`"}`))) +
			string(appendFrame(nil, fin|opText, []byte(`{"action":"subscribe","trades":["`+watched+`"]}`)))},
		{"event stream", "GET /market/stream?trades=" + "FAKE%7CSIM%7CCI" + " HTTP/1.1\r\nAccept: text/event-stream\r\n" + bearer},
	}
}

// TestResetFloodE2E resets connections of clients of each kind (100,000 in full, otherwise 5,000).
// The gateway may see a reset at any time, even before it accepts the connection. It keeps running
// and releases all resources, and another client misses no trade.
func TestResetFloodE2E(t *testing.T) {
	for i, set := range []settings{{}, {NetListener: true}, {TLS: true}, {TLS: true, TLSGoroutines: true}} {
		t.Run(fmt.Sprintf("TLS %v, goroutines %v", set.TLS, set.TLSGoroutines || set.NetListener), func(t *testing.T) {
			parallelUnlessFull(t)
			a := &attacker{T: t, server: start(t, set), network: 30 + i, next: new(atomic.Int32)}
			token := a.token("ana")
			secure := a.resuming()
			stop := make(chan struct{})
			trades := a.follow(stop)
			before := a.figures(t)
			n := 5000
			if full() {
				n = 100_000
			}
			for _, kind := range resets(token) {
				begin, failed := time.Now(), new(atomic.Int64)
				concurrently(16, n/50, func(int) {
					from := a.from()
					for range 50 {
						if a.connectAndReset(from, kind.text, secure) != nil {
							failed.Add(1)
						}
					}
				})
				if failed.Load() > int64(n)/10 {
					t.Errorf("%s: %d of %d clients could not connect", kind.name, failed.Load(), n)
				}
				var after figures
				defer func() {
					if t.Failed() {
						t.Logf("%s: %+v after, %+v before", kind.name, after, before)
					}
				}()
				a.eventually("all resources are released after "+kind.name, func() bool {
					after = a.figures(t)
					return after.Files <= before.Files && after.Goroutines <= before.Goroutines && after.Heap <= before.Heap+maxGrowth
				})
				t.Logf("figure: %d of %q in %v; %d descriptors, %d goroutines, %d MiB of heap after, %d, %d, %d before", n, kind.name,
					time.Since(begin).Round(time.Millisecond), after.Files, after.Goroutines, after.Heap>>20, before.Files, before.Goroutines, before.Heap>>20)
			}
			close(stop)
			if n := trades(); n == 0 {
				t.Error("the other client received no trade")
			}
		})
	}
}

// connectAndReset connects, sends a text, and resets the connection. With TLS it sends the text
// after the handshake, or resets the connection after the hello if there is no text.
func (a *attacker) connectAndReset(from, text string, secure *tls.Config) error {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.Dial("tcp", a.address)
	if err != nil {
		return err
	}
	tcp := nc.(*net.TCPConn)
	out := nc
	if a.TLS {
		if text == "" {
			_, err = io.WriteString(nc, clientHello)
		} else {
			c := tls.Client(nc, secure)
			_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
			err = c.Handshake()
			out = c
		}
	}
	if err == nil && text != "" {
		_, err = io.WriteString(out, text)
	}
	return errors.Join(err, tcp.SetLinger(0), tcp.Close())
}

// resuming returns a TLS configuration whose handshakes cost little: they resume a session that it
// has made.
func (a *attacker) resuming() *tls.Config {
	a.Helper()
	cfg := &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}, ServerName: "localhost",
		CurvePreferences: []tls.CurveID{tls.X25519}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	if a.TLS {
		nc, err := a.plain()
		if err != nil {
			a.Fatal(err)
		}
		defer nc.Close()
		if _, err := roundTrip(tls.Client(nc, cfg), "GET", "/livez", ""); err != nil {
			a.Fatal(err)
		}
	}
	return cfg
}

// clientHello is the beginning of the first TLS record.
const clientHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
