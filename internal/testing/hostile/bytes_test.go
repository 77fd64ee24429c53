//go:build unix

package hostile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// conversations returns what clients send, one of each kind.
func conversations(token string) []struct{ name, text string } {
	bearer := "Host: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	return []struct{ name, text string }{
		{"REST", "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 47\r\n\r\n" +
			`{"grant_type":"refresh_token","refresh_token":"`},
		{"upgrade", upgrade + "\r\n"},
		{"stream", upgrade + "\r\n" + string(appendFrame(nil, fin|opText, []byte(`{"action":"auth_token","token":"`+token+`"}`))) +
			string(appendFrame(nil, fin|opText, []byte(`{"action":"subscribe","trades":["`+watched+`"],"order_book":["`+watched+`"]}`))) +
			string(appendFrame(nil, fin|opPing, []byte("x")))},
		{"event stream", "GET /market/stream?trades=FAKE%7CSIM%7CCI HTTP/1.1\r\nAccept: text/event-stream\r\n" + bearer},
		{"export", "GET /market/export?type=trades&date=2026-01-02&market=SIM HTTP/1.1\r\n" + bearer},
	}
}

// ending is how a client ends in the middle of what it sends.
type ending int

const (
	byReset   ending = iota // it resets its connection
	halfClose               // it closes its sending half and reads to the end
	stall                   // it sends nothing more, like a crashed machine, until the gateway ends it
	leave                   // it closes its connection without reading
	numEndings
)

func (m ending) String() string { return [...]string{"reset", "half-close", "stall", "leave"}[m] }

// limitedConn is a connection that fails after left more bytes were sent, encrypted or not.
type limitedConn struct {
	*net.TCPConn
	left int
}

var errLimit = errors.New("cut off here")

func (c *limitedConn) Write(b []byte) (int, error) {
	if len(b) < c.left {
		c.left -= len(b)
		return c.TCPConn.Write(b)
	}
	n, err := c.TCPConn.Write(b[:c.left])
	c.left = 0
	return n, errors.Join(err, errLimit)
}

// sendPart sends the first at bytes of text and then ends as how says. With TLS it counts the
// encrypted bytes, beginning with the handshake. It returns an error if the gateway does not end
// the connection.
func (a *attacker) sendPart(from, text string, at int, how ending, secure *tls.Config) error {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.Dial("tcp", a.address)
	if err != nil {
		return err
	}
	c := &limitedConn{nc.(*net.TCPConn), at}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(40 * time.Second))
	var out io.Writer = c
	if a.TLS {
		out = tls.Client(c, secure)
	}
	if _, err = io.WriteString(out, text); err == nil && how == stall {
		return nil // all of it was sent: a valid conversation
	}
	err = nil
	switch how {
	case byReset:
		return c.SetLinger(0)
	case halfClose:
		_ = c.CloseWrite()
		_, err = io.Copy(io.Discard, c)
	case stall:
		one := make([]byte, 1)
		for err == nil {
			_, err = io.ReadFull(c, one)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case leave:
		return nil
	}
	if err != nil && !isDisconnect(err) {
		return fmt.Errorf("after %d bytes: %w", at, err)
	}
	return nil
}

// TestEveryByteE2E ends clients after every byte (in full; otherwise every 37th) of every kind of
// conversation, in every manner and over every transport. The gateway ends each connection and
// releases all its resources. Meanwhile another client misses no trade.
func TestEveryByteE2E(t *testing.T) {
	for i, set := range []settings{{}, {Uring: true}, {NetListener: true}, {TLS: true}, {TLS: true, TLSGoroutines: true}} {
		t.Run(fmt.Sprintf("TLS %v, goroutines %v, io_uring %v", set.TLS, set.TLSGoroutines || set.NetListener, set.Uring), func(t *testing.T) {
			parallelUnlessFull(t)
			set.ShortDeadlines = true
			a := &attacker{T: t, server: start(t, set), network: 40 + i, next: new(atomic.Int32)}
			everyByte(a)
		})
	}
}

func everyByte(a *attacker) {
	token, secure := a.token("ana"), a.resuming()
	stop := make(chan struct{})
	trades := a.follow(stop)
	before := a.figures(a)
	step := 1
	if !full() {
		step = 37
	}
	n := 0
	var all sync.WaitGroup
	slots := make(chan struct{}, 200) // more would delay the pongs of the other client
	for k, talk := range conversations(token) {
		length := len(talk.text)
		if a.TLS {
			length += 600 // for the handshake and the records
		}
		for at := 1 + k%step; at <= length; at += step {
			for how := range numEndings {
				n++
				slots <- struct{}{}
				from := a.from()
				all.Go(func() {
					defer func() { <-slots }()
					if err := a.sendPart(from, talk.text, at, how, secure); err != nil {
						a.Errorf("%s, %s: %v", talk.name, how, err)
					}
				})
			}
		}
	}
	all.Wait()
	var after figures
	a.eventually("all resources are released", func() bool {
		after = a.figures(a)
		return after.Files <= before.Files && after.Goroutines <= before.Goroutines && after.Heap <= before.Heap+maxGrowth
	})
	a.Logf("figure: %d clients broke off; %d descriptors, %d goroutines, %d MiB of heap after, %d, %d, %d before", n,
		after.Files, after.Goroutines, after.Heap>>20, before.Files, before.Goroutines, before.Heap>>20)
	close(stop)
	if trades() == 0 {
		a.Error("the other client received no trade")
	}
}
