//go:build !386

package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// forEventLoops runs a test on the transports of the event loop.
func forEventLoops(t *testing.T, f func(t *testing.T, tr transport)) {
	t.Helper()
	forEachTransport(t, func(t *testing.T, tr transport) {
		if tr.loop {
			f(t, tr)
		}
	})
}

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestSilentHandshakes checks that clients which do not send their request are closed after a time,
// and the oldest of them when there are too many.
func TestSilentHandshakes(t *testing.T) { forAllTransports(t, testSilentHandshakes) }

func testSilentHandshakes(t *testing.T, tr transport) {
	if !tr.loop {
		return // net/http handles them
	}
	begins := []string{"", "G", "GET /stre", "GET /stream", "GET /stream HTTP/1.1\r\nHost: gw\r\n", goodHandshake}
	t.Run("time", func(t *testing.T) {
		s := openServer(t, tr, func(c *Config) { raiseLimits(c); c.HeadTimeout = 300 * time.Millisecond })
		stays := s.connect("")
		for _, begin := range begins {
			nc := s.dial()
			if _, err := io.WriteString(nc, begin); err != nil {
				t.Fatal(err)
			}
			nc.SetReadDeadline(time.Now().Add(time.Minute))
			if b, err := io.ReadAll(nc); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %q: got %q, %v", begin, b, err)
			}
		}
		stays.auth("ana")
	})
	t.Run("number", func(t *testing.T) {
		s := openServer(t, tr, func(c *Config) { raiseLimits(c); c.MaxHeads, c.Shards = 3, 1 })
		oldest := s.dial()
		if _, err := io.WriteString(oldest, "GET /stream"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := io.WriteString(s.dial(), "GET /stream"); err != nil {
				t.Fatal(err)
			}
		}
		oldest.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := oldest.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the oldest: %v", err)
		}
		s.connect("").auth("ana")
	})
}

// TestArrivedRequestIsKept holds the event loop while it adds a connection, at the limit of those
// whose request is awaited, until the request of the oldest one has arrived. It is answered.
func TestArrivedRequestIsKept(t *testing.T) {
	forEventLoops(t, func(t *testing.T, tr transport) {
		if !tr.secure {
			testArrivedRequestIsKept(t, tr)
		}
	})
}

func testArrivedRequestIsKept(t *testing.T, tr transport) {
	s := newServer(func(c *Config) { raiseLimits(c); c.MaxHeads, c.Shards = 1, 1 })
	added, adding, arrived := 0, make(chan struct{}), make(chan struct{})
	s.onStep = func(_ *conn, st step) {
		if st != stepAddSocket {
			return
		}
		if added++; added == 2 {
			close(adding)
			<-arrived
		}
	}
	p := runServer(t, tr, s)
	oldest := p.dial()
	second := make(chan error, 1)
	go func() {
		nc, err := p.tryDial()
		if err == nil {
			err = nc.Close()
		}
		second <- err
	}()
	<-adding
	if _, err := io.WriteString(oldest, "GET /echo HTTP/1.1\r\nHost: gw\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	close(arrived)
	oldest.SetReadDeadline(time.Now().Add(time.Minute))
	if res, err := http.ReadResponse(bufio.NewReader(oldest), nil); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the oldest: %v, %v", res, err)
	}
	if err := <-second; err != nil {
		t.Errorf("the newest: %v", err)
	}
}

// TestRequestsToHTTP checks that requests which are not for the stream reach net/http unchanged,
// however their bytes are divided and whatever follows.
func TestRequestsToHTTP(t *testing.T) { forEventLoops(t, testRequestsToHTTP) }

func testRequestsToHTTP(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	body := strings.Repeat("0123456789", 5)
	post := "POST /echo HTTP/1.1\r\nHost: gw\r\nContent-Length: 50\r\n\r\n" + body
	get := "GET /echo HTTP/1.1\r\nHost: gw\r\n\r\n"
	check := func(in []string, answers ...string) {
		t.Helper()
		nc, err := s.tryDial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Minute))
		for _, piece := range in {
			if _, err := io.WriteString(nc, piece); err != nil {
				t.Fatal(err)
			}
		}
		r := bufio.NewReader(nc)
		for _, want := range answers {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil || string(got) != want {
				t.Fatalf("%q: got %q, %v, want %q", in, got, err, want)
			}
		}
	}
	for i := 0; i <= len(post); i += 1 + i%7 {
		check([]string{post[:i], post[i:]}, body)
	}
	check([]string{get + post + get}, "", body, "")
	check([]string{post, get[:9], get[9:]}, body, "")
	for i := range len("GET /streams") {
		other := "GET /streams HTTP/1.1\r\nHost: gw\r\n\r\n"
		check([]string{other[:i], other[i:]}, "404 page not found\n")
	}
	// A stream request after another request is served by net/http too.
	nc := s.dial()
	if _, err := io.WriteString(nc, get+goodHandshake+"\r\n"+frame(opText, `{"action":"auth_token","token":"ana"}`)); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, nc)
	for _, status := range []int{200, 101} {
		res, err := http.ReadResponse(c.r, nil)
		if err != nil || res.StatusCode != status {
			t.Fatal(res, err)
		}
		io.Copy(io.Discard, res.Body)
	}
	c.want(`"type":"Success"`)
	c.echo("1")
	if n := goroutines(t); n != 0 && !tr.secure {
		t.Errorf("%d goroutines of connections: it did not come back to the loop", n)
	}
}

// TestBytewiseHandshake sends the handshake and a message byte by byte.
func TestBytewiseHandshake(t *testing.T) { forEventLoops(t, testBytewiseHandshake) }

func testBytewiseHandshake(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	c := newClient(t, s.dial())
	for _, piece := range bytewise([]byte(goodHandshake + "\r\n" + frame(opText, `{"action":"auth_token","token":"ana"}`))) {
		c.write(string(piece))
	}
	if r, err := http.ReadResponse(c.r, nil); err != nil || r.StatusCode != 101 {
		t.Fatal(r, err)
	}
	c.want(`"type":"Success"`)
	c.echo("1")
}

// TestUnusualHandshakes checks the responses to unusual handshakes.
func TestUnusualHandshakes(t *testing.T) { forEventLoops(t, testUnusualHandshakes) }

func testUnusualHandshakes(t *testing.T, tr transport) {
	s := openServer(t, tr, raiseLimits)
	for request, status := range map[string]int{
		strings.Replace(goodHandshake, "/stream", "/stream?a=%20b", 1) + "\r\n":           101,
		strings.Replace(goodHandshake, "/stream", "/stream?a=b&c", 1) + "\r\n":            101,
		strings.Replace(goodHandshake, "/stream", "http://gw/stream", 1) + "\r\n":         101,
		goodHandshake + "X-Name: caf\xc3\xa9\r\n\r\n":                                     101,
		goodHandshake + "TE: trailers\r\n\r\n":                                            101,
		strings.ReplaceAll(goodHandshake, "\r\n", "\n") + "\n":                            101,
		goodHandshake + "X-Long: " + strings.Repeat("x", 9<<10) + "\r\n\r\n":              101,
		goodHandshake + strings.Repeat("X-Many: x\r\n", 100) + "\r\n":                     101,
		strings.ToLower(goodHandshake[16:20]) + goodHandshake[20:] + "\r\n":               400,
		strings.Replace(goodHandshake, "Host: gw", "Host: gw\r\nHost: other", 1) + "\r\n": 400,
		strings.Replace(goodHandshake, "Host: gw\r\n", "", 1) + "\r\n":                    400,
		strings.Replace(goodHandshake, "Host:", "Host :", 1) + "\r\n":                     400,
		strings.Replace(goodHandshake, "HTTP/1.1", "HTTP/1.2", 1) + "\r\n":                101,
		goodHandshake + " folded\r\n\r\n":                                                 400,
	} {
		if r, body := s.ask(t, request); r.StatusCode != status {
			t.Errorf("%q: %s %s", request, r.Status, body)
		}
	}
}

// TestAddressInUse checks that an address has only one server, although its listeners share it.
func TestAddressInUse(t *testing.T) {
	first := openServer(t, transport{name: "loop", loop: true}, raiseLimits)
	second := newServer(raiseLimits)
	if _, err := second.Listen(t.Context(), first.address, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := second.Listen(t.Context(), l.Addr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address of another program: %v", err)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:none", "192.0.2.1:0"} {
		if a, err := second.Listen(t.Context(), bad, nil); err == nil {
			t.Errorf("listens on %q as %v", bad, a)
		}
	}
	before := descriptors(t)
	if _, err := second.Listen(t.Context(), "localhost:0", nil); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := second.Run(ended); err != nil {
		t.Error(err)
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

// TestNoDescriptors uses up the file descriptors. New clients are refused, at most one log line is
// written each second, and the server accepts again when descriptors are free.
func TestNoDescriptors(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s := openServer(t, transport{name: "loop", loop: true}, func(c *Config) {
		raiseLimits(c)
		c.Shards = 1
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(b)
		}), nil))
	})
	stays := s.connect("")
	stays.auth("ana")
	// The client needs one descriptor; none is left for the server.
	begin := time.Now()
	var hoard []*os.File
	defer func() {
		for _, f := range hoard {
			f.Close()
		}
	}()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	nc := os.NewFile(uintptr(fd), "")
	defer nc.Close()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(descriptors(t) + 20)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		hoard = append(hoard, f)
	}
	_, port, _ := net.SplitHostPort(s.address)
	var n int
	fmt.Sscan(port, &n)
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the log line", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "accepting connections failed")
	})
	stays.echo("while there are none")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	s.connect("").auth("bob")
	mu.Lock()
	defer mu.Unlock()
	if lines := strings.Count(log.String(), "accepting connections failed"); lines > 1+int(time.Since(begin).Seconds()) {
		t.Errorf("%d lines in %v: %s", lines, time.Since(begin), &log)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestLoopLeavesNothing counts descriptors and goroutines around a server whose connections end in
// all ways at all stages.
func TestLoopLeavesNothing(t *testing.T) { forEventLoops(t, testLoopLeavesNothing) }

func testLoopLeavesNothing(t *testing.T, tr transport) {
	before := -1
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := openServer(t, tr, raiseLimits)
			for i := range soak(1000) {
				cycle(t, s, i)
			}
			for _, begin := range []string{"", "GET", "GET /stream", goodHandshake, goodHandshake + "\r\n", "POST /echo HTTP/1.1\r\nHost: gw\r\nContent-Length: 9\r\n\r\n"} {
				nc := s.dial()
				if _, err := io.WriteString(nc, begin); err != nil { // left open until the server has ended
					t.Fatal(err)
				}
			}
			tcp, err := net.Dial("tcp", s.address) // with TLS, during its handshake
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tcp.Close() })
			tcp.Write([]byte{22, 3, 1})
		})
		if round == 0 {
			before = descriptors(t) // includes the Go poller, which stays
		}
	}
	waitFor(t, "every descriptor closed", func() bool { return descriptors(t) <= before })
}
