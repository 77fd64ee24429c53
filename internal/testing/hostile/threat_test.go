//go:build unix

package hostile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestThreat17SlowlorisE2E holds 5,000 connections (a twentieth unless in full) that send a byte a
// second of a header, a body, a WebSocket handshake or a TLS handshake, or nothing. Each reconnects
// when it is closed, until normal clients have sent their requests. The gateway closes all slow
// connections and serves the normal clients.
func TestThreat17SlowlorisE2E(t *testing.T) {
	parallelUnlessFull(t)
	for _, set := range []settings{{}, {TLS: true}, {TLS: true, TLSGoroutines: true}} {
		t.Run(fmt.Sprintf("TLS %v, goroutines %v", set.TLS, set.TLSGoroutines), func(t *testing.T) {
			parallelUnlessFull(t)
			slowloris(&attacker{T: t, server: start(t, set), network: 20, next: new(atomic.Int32)})
		})
	}
}

func slowloris(a *attacker) {
	a.token("ana")
	asked := count(6_000)
	calm := a.normalRequests(asked)
	before := a.figures(a)
	stop, stopFollowing := make(chan struct{}), make(chan struct{})
	trades := a.follow(stopFollowing)

	var held, cut atomic.Int64
	var all sync.WaitGroup
	for i := range count(5_000) {
		all.Go(func() {
			for over := false; !over; {
				if err := a.sendSlowly(i, &held); err != nil {
					a.Errorf("slow socket %d: %v", i, err)
					return
				}
				cut.Add(1)
				select {
				case <-stop:
					over = true
				default:
				}
			}
		})
	}
	a.eventually("all are open", func() bool { return held.Load() > int64(count(5_000))*9/10 })
	during := a.normalRequests(asked)
	a.login("eve")
	close(stop)
	all.Wait() // the server ends the last of them too
	close(stopFollowing)
	n := trades()
	a.eventually("all resources are released", func() bool {
		now := a.figures(a)
		return now.Files <= before.Files+8 && now.Goroutines <= before.Goroutines+16 && now.Heap <= before.Heap+maxGrowth
	})
	a.Logf("figure: %d slow sockets, closed %d times; p99 of %d requests before %v, meanwhile %v; %d trades in order meanwhile",
		count(5_000), cut.Load(), asked, p99(calm).Round(100*time.Microsecond), p99(during).Round(100*time.Microsecond), n)
	// Unless in full, allow three times as long, and more if the machine is slow without them. Other
	// work of the machine can delay a few requests by any time.
	percent, most := 99, 100*time.Millisecond
	if !full() {
		percent, most = 90, 3*(most+percentile(calm, 90))
	}
	if took := percentile(during, percent); took > most {
		a.Errorf("p%d with slow sockets is %v, want at most %v", percent, took, most)
	}
}

// TestThreat17OneAddressE2E opens more request connections from one address than its limit, and
// checks that the oldest are closed, and that this address and others are served.
func TestThreat17OneAddressE2E(t *testing.T) {
	parallelUnlessFull(t)
	a := &attacker{T: t, server: start(t, settings{}), network: 27, next: new(atomic.Int32)}
	from := a.from()
	var held []net.Conn
	defer func() {
		for _, nc := range held {
			nc.Close()
		}
	}()
	for range 1_200 {
		nc, err := a.dial(from)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, nc)
		if _, err := io.WriteString(nc, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil && !isDisconnect(err) {
			t.Fatal(err)
		}
	}
	closed := 0
	for _, nc := range held[:200] {
		_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, nc); err == nil || isDisconnect(err) {
			closed++
		}
	}
	if closed != 200 {
		t.Errorf("%d of the 200 oldest connections of the address were closed", closed)
	}
	if files := a.figures(t).Files; files > 1_100 {
		t.Errorf("%d files are open", files)
	}
	if r := a.requestFrom(from, "GET", "/livez", ""); r.status != 200 {
		t.Errorf("the next request of the address: %d", r.status)
	}
	a.normalRequests(20)
	if n := strings.Count(a.log.String(), "too many connections"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// sendSlowly opens a connection and sends a byte a second until the server ends it.
func (a *attacker) sendSlowly(kind int, held *atomic.Int64) error {
	dial, text := a.dial, ""
	switch kind % 5 {
	case 0:
		text = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "
	case 1:
		text = "POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	case 2:
		text = upgrade
	case 3: // the record of a hello, or half a request
		dial = func(string) (net.Conn, error) { return a.plain() }
		text = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
		if !a.TLS {
			text = "GET /str"
		}
	}
	nc, err := dial(a.from())
	if err != nil {
		return err
	}
	defer nc.Close()
	held.Add(1)
	defer held.Add(-1)
	if _, err := io.WriteString(nc, text); err != nil {
		return nil // closed
	}
	var answer [512]byte
	for begin := time.Now(); time.Since(begin) < bound(20*time.Second); {
		_ = nc.SetReadDeadline(time.Now().Add(time.Second))
		_, err := nc.Read(answer[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if _, err := io.WriteString(nc, "x"); kind%5 != 4 && err != nil {
				return nil
			}
		case err != nil:
			return nil
		}
	}
	return fmt.Errorf("not closed within %v", bound(20*time.Second))
}

// normalRequests sends n requests of normal clients, each on its own connection. All must be
// answered.
func (a *attacker) normalRequests(n int) []time.Duration {
	a.Helper()
	took := make([]time.Duration, n)
	token := a.token("ana")
	concurrently(4, n, func(i int) {
		begin := time.Now()
		nc, err := a.dial(a.from())
		if err != nil {
			a.Errorf("a normal client: %v", err)
			return
		}
		defer nc.Close()
		r, err := roundTrip(nc, http.MethodGet, "/broker/accounts", "", "Authorization", "Bearer "+token)
		if err != nil || r.status != 200 {
			a.Errorf("a normal client: %v, %v", r, err)
		}
		took[i] = time.Since(begin)
	})
	return took
}

// TestThreat18HoardingE2E opens 20,000 sockets (a twentieth unless in full) that never
// authenticate, 30 from each address. At most half of all sockets are unauthenticated: the oldest
// are closed for new ones. Memory and the sockets of an address are bounded, and clients with a
// token are served.
func TestThreat18HoardingE2E(t *testing.T) {
	parallelUnlessFull(t)
	sockets := count(20_000)
	most := sockets / 2
	a := &attacker{T: t, server: start(t, settings{Sockets: sockets, LongAuth: true}), network: 21, next: new(atomic.Int32)}
	stop := make(chan struct{})
	trades := a.follow(stop)
	one := a.from()
	var own []*socket
	for i := range 33 {
		s, err := a.tryOpen(one)
		if err != nil {
			t.Fatalf("socket %d of one address: %v", i+1, err)
		}
		defer s.nc.Close()
		own = append(own, s)
	}
	own[0].refuses(503, "overloaded", 4503) // the oldest of the address
	if n := a.figures(t).Waiting; n != 32 {
		t.Errorf("one address holds %d sockets, want 32", n)
	}
	before := a.figures(t)
	var held []*socket
	evicted, peak := 0, 0
	for i := range sockets {
		if i%30 == 0 {
			one = a.from()
		}
		s, err := a.tryOpen(one)
		if err != nil {
			t.Fatalf("socket %d: %v", i, err)
		}
		if held = append(held, s); len(held) > most { // the oldest has its Error by now
			_ = held[0].nc.SetDeadline(time.Now().Add(time.Minute))
			held[0].refuses(503, "overloaded", 4503)
			held[0].nc.Close()
			held = held[1:]
			evicted++
		}
		if i%(sockets/20) == 0 {
			peak = max(peak, a.figures(t).Waiting)
			honest := &follower{token: a.token("ana"), from: a.from()}
			if err := honest.connect(a); err != nil {
				t.Errorf("a client with a token, after %d sockets: %v", i, err)
			} else {
				honest.close()
			}
		}
	}
	after := a.figures(t)
	if peak = max(peak, after.Waiting); peak > most || after.Waiting < most*9/10 {
		t.Errorf("%d were held, %d now; want %d at most", peak, after.Waiting, most)
	}
	each := (int(after.Heap) - int(before.Heap)) / most
	if each > 16<<10 {
		t.Errorf("each holds %d bytes", each)
	}
	close(stop)
	t.Logf("figure: %d sockets that never authenticate: at most %d held, %d oldest closed, %d bytes of heap each; %d trades in order meanwhile",
		sockets, peak, evicted, each, trades())
}

// TestThreat19SlowConsumerE2E subscribes 200 clients (a twentieth unless in full) that read nothing
// to everything of a fast market. Their memory is bounded, each is closed, and a client that reads
// misses no trade.
func TestThreat19SlowConsumerE2E(t *testing.T) {
	parallelUnlessFull(t)
	a := &attacker{T: t, server: start(t, settings{Speed: 100}), network: 22, next: new(atomic.Int32)}
	stop := make(chan struct{})
	trades := a.follow(stop)
	before := a.resetPeakMemory(t)
	var stuck []*socket
	for range count(200) {
		s := a.authenticated("eve")
		if c, ok := s.nc.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4 << 10)
		}
		s.send(`{"action":"subscribe","trades":["*|BYMA|24hs","*|BYMA|CI","*|SIM|CI"],"quotes":["*|BYMA|24hs","*|BYMA|CI","*|SIM|CI"]}`)
		stuck = append(stuck, s)
	}
	a.within(2*time.Minute, "the slow clients are closed", func() bool { return a.figures(a).Open == 1 })
	notified := 0
	for _, s := range stuck {
		if m := s.ends(4507, -1); m.closed == 4507 {
			notified++
		}
	}
	close(stop)
	n := trades()
	if n == 0 {
		t.Error("the client that reads received nothing")
	}
	grew := a.peakMemory(t) - before
	if most := len(stuck)*512<<10 + 64<<20; grew > most {
		t.Errorf("%d slow clients cost %d bytes, want at most %d", len(stuck), grew, most)
	}
	t.Logf("figure: %d clients that do not read: %d MiB at most, all closed, %d received the reason; %d trades in order for a client that reads", len(stuck), grew>>20, notified, n)
}

// TestThreat20FrameBombsE2E sends every kind of frame that could cost a careless server memory or
// time, 40 of each (a twentieth unless in full), 20 at a time. The memory of the process grows by
// at most 64 MiB, and a well-behaved client is served.
func TestThreat20FrameBombsE2E(t *testing.T) {
	parallelUnlessFull(t)
	a := &attacker{T: t, server: start(t, settings{}), network: 23, next: new(atomic.Int32)}
	stop := make(chan struct{})
	trades := a.follow(stop)
	before := a.resetPeakMemory(t)
	bombs := 0
	for _, in := range messageInputs() {
		switch in.n {
		case 106, 109, 110, 112, 113, 114:
		default:
			continue
		}
		bombs++
		concurrently(20, count(40), func(int) { in.send(a) })
	}
	const pings = 10_000
	concurrently(20, count(40), func(int) { // pings of the protocol, which cost an answer each
		s := a.authenticated("ana")
		defer s.nc.Close()
		flood := []byte(strings.Repeat(string(appendFrame(nil, fin|opPing, make([]byte, 125))), 100))
		for range pings / 100 {
			if _, err := s.nc.Write(flood); err != nil {
				return // closed
			}
		}
	})
	a.eventually("all are closed", func() bool { return a.figures(a).Open == 1 })
	close(stop)
	n := trades()
	grew := a.peakMemory(t) - before
	if grew > 64<<20 {
		t.Errorf("peak resident memory grew by %d MiB", grew>>20)
	}
	if bombs != 6 {
		t.Errorf("%d kinds of bombs", bombs)
	}
	t.Logf("figure: frame bombs of 7 kinds, %d of each: %d MiB more resident at most; %d trades in order meanwhile", count(40), grew>>20, n)
}
