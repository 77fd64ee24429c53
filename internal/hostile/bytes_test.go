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

// conversations are what clients say, of every kind.
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

// A manner is how a client ends in the middle of what it says.
type manner int

const (
	byReset   manner = iota // it resets its connection
	halfClose               // it closes its sending half, and reads to the end
	stall                   // it says nothing more, as one whose machine is gone, until the gateway ends it
	leave                   // it closes its connection with what came unread
	manners
)

func (m manner) String() string { return [...]string{"reset", "half-close", "stall", "leave"}[m] }

// cut is a connection that ends after so many bytes were sent, in the clear or of TLS.
type cut struct {
	*net.TCPConn
	left int
}

var errCut = errors.New("cut off here")

func (c *cut) Write(b []byte) (int, error) {
	if len(b) < c.left {
		c.left -= len(b)
		return c.TCPConn.Write(b)
	}
	n, err := c.TCPConn.Write(b[:c.left])
	c.left = 0
	return n, errors.Join(err, errCut)
}

// breakOff says text, as far as at bytes of it, and ends so. With TLS it is the bytes of TLS that
// count, those of its handshake first. The error is that the gateway has not ended the connection.
func (a *attacker) breakOff(from, text string, at int, how manner, secure *tls.Config) error {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.Dial("tcp", a.address)
	if err != nil {
		return err
	}
	c := &cut{nc.(*net.TCPConn), at}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(40 * time.Second))
	var out io.Writer = c
	if a.TLS {
		out = tls.Client(c, secure)
	}
	if _, err = io.WriteString(out, text); err == nil && how == stall {
		return nil // all of it got there, and what follows is a conversation in order
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
	if err != nil && !brokenOff(err) {
		return fmt.Errorf("after %d bytes: %w", at, err)
	}
	return nil
}

// TestEveryByteE2E has clients break off after every byte of every kind of conversation (every so
// many of them unless in full), in every manner and on every way. Each of them is ended, nothing
// is left of any, and a client beside them misses no trade.
func TestEveryByteE2E(t *testing.T) {
	for i, set := range []settings{{}, {Uring: true}, {Plain: true}, {TLS: true}, {TLS: true, Pump: true}} {
		t.Run(fmt.Sprintf("TLS %v, goroutines %v, io_uring %v", set.TLS, set.Pump || set.Plain, set.Uring), func(t *testing.T) {
			alone(t)
			set.Brisk = true
			a := &attacker{T: t, server: start(t, set), way: 40 + i, next: new(atomic.Int32)}
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
	places := make(chan struct{}, 200) // at a time: more would keep the client beside them from its pongs
	for k, talk := range conversations(token) {
		length := len(talk.text)
		if a.TLS {
			length += 600 // of the handshake and of records
		}
		for at := 1 + k%step; at <= length; at += step {
			for how := range manners {
				n++
				places <- struct{}{}
				from := a.from()
				all.Go(func() {
					defer func() { <-places }()
					if err := a.breakOff(from, talk.text, at, how, secure); err != nil {
						a.Errorf("%s, %s: %v", talk.name, how, err)
					}
				})
			}
		}
	}
	all.Wait()
	var after figures
	a.eventually("nothing is left", func() bool {
		after = a.figures(a)
		return after.Files <= before.Files && after.Goroutines <= before.Goroutines && after.Heap <= before.Heap+grown
	})
	a.Logf("figure: %d clients broke off; %d descriptors, %d goroutines, %d MiB of heap after, %d, %d, %d before", n,
		after.Files, after.Goroutines, after.Heap>>20, before.Files, before.Goroutines, before.Heap>>20)
	close(stop)
	if trades() == 0 {
		a.Error("no trade came to the client beside them")
	}
}
