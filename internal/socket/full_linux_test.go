//go:build !386

package socket

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// narrow connects a client whose kernel takes little that it does not read.
func (p *place) narrow() *client {
	p.t.Helper()
	d := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) error {
		return rc.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 64<<10) })
	}}
	nc, err := d.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	if p.trust != nil {
		nc = tls.Client(nc, p.trust)
	}
	return upgradeOn(p.t, nc, "")
}

// TestFullOfPongs shows that who sends pings and reads nothing is held up, and given up like any
// other whose socket takes nothing.
func TestFullOfPongs(t *testing.T) {
	s := newServer(func(c *Config) { c.Env.StallTimeout = time.Second })
	sh, c, peer := lone(t, s)
	now := time.Now()
	sh.flush(now, c) // the welcome
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	for i := range 2 { // the first pong makes the outlet, the other waits behind it
		if c.holds() {
			t.Fatalf("not read before ping %d", i)
		}
		sh.parse(now, c, []byte(frame(opPing, "x")))
		sh.flush(now, c)
	}
	if !c.holds() {
		t.Error("read although a pong waits")
	}
	for b := make([]byte, 1<<20); ; { // the peer reads
		if n, err := syscall.Read(peer, b); n <= 0 || err != nil {
			break
		}
	}
	sh.resume(now, c)
	sh.flush(now, c)
	if c.out != nil || c.holds() {
		t.Error("not read on")
	}
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	sh.parse(now, c, []byte(frame(opPing, "x")))
	sh.flush(now, c)
	sh.expire(now.Add(time.Second), c)
	if !c.closing() {
		t.Error("not given up")
	}
}

// TestPumpFullOfPongs is the same of a pump.
func TestPumpFullOfPongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *Config) { c.Env.StallTimeout = time.Second })
		c := dial(t, s)
		c.auth("ana")
		begin := time.Now()
		for { // a pipe holds nothing
			if _, err := io.WriteString(c.nc, frame(opPing, "x")); err != nil {
				break
			}
		}
		if took := time.Since(begin); took != time.Second+s.cfg.CloseTimeout {
			t.Errorf("given up after %v", took)
		}
	})
}

// TestPongsOfAll shows that of a client that sends pings faster than it reads all is read.
func TestPongsOfAll(t *testing.T) { onWaysAtOnce(t, testPongsOfAll) }

func testPongsOfAll(t *testing.T, way way) {
	s := open(t, way, func(c *Config) { many(c); c.SendBuffer = 4 << 10 })
	c := s.narrow()
	c.auth("ana")
	var done sync.WaitGroup
	done.Go(func() {
		ping := strings.Repeat(frame(opPing, strings.Repeat("x", 125)), 8)
		for range 2000 {
			if _, err := io.WriteString(c.nc, ping); err != nil {
				t.Error(err)
				return
			}
		}
		if _, err := io.WriteString(c.nc, frame(opText, `{"action":"ping","id":"last"}`)); err != nil {
			t.Error(err)
		}
	})
	for {
		opcode, payload, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if opcode == opText && strings.Contains(payload, `"last"`) {
			break
		}
	}
	done.Wait()
}

// lone makes a line on a shard that does not run.
func lone(t *testing.T, s *Server) (sh *shard, c *conn, peer int) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(pair[1]) })
	id, _ := verify(t.Context(), "ana")
	sh = s.shards[0]
	c = &conn{shard: sh, fd: int32(pair[0]), extras: new(extras)}
	c.open = &opening{conn: c, identity: id}
	sh.load.Add(1)
	sh.enter(c)
	sh.begin(time.Now(), c)
	t.Cleanup(func() { sh.end(c, true) })
	return sh, c, pair[1]
}

// TestUtterances shows that a line whose socket is full is not read while what TLS says of itself
// waits there, that the session knows, and that both end when it is gone.
func TestUtterances(t *testing.T) {
	s := newServer(func(c *Config) { c.Env.StallTimeout = time.Second })
	sh, c, peer := lone(t, s)
	now := time.Now()
	sh.flush(now, c) // the welcome
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	c.extra().tls = new(secured)
	for range 2 { // the first makes the outlet, the other finds it
		sh.sealed = append(sh.sealed[:0], "a new key"...)
		sh.utter(now, c)
		if !c.holds() || len(*c.out.buf) == 0 {
			t.Fatal("is read although TLS cannot say what it has to")
		}
	}
	if d := c.sess.Deadline(); d.After(now.Add(time.Second)) {
		t.Errorf("given up in %v", d.Sub(now))
	}
	for b := make([]byte, 1<<20); ; { // the peer reads
		if n, err := syscall.Read(peer, b); n <= 0 || err != nil {
			break
		}
	}
	sh.resume(now, c)
	if c.out != nil || c.holds() {
		t.Error("not read on")
	}
	if d := c.sess.Deadline(); !d.After(now.Add(time.Second)) {
		t.Error("given up although all was taken")
	}
	c.extra().tls = nil
}

// TestUrgentData shows that bytes out of band, where a read stops short, hold up nothing.
func TestUrgentData(t *testing.T) {
	onTheLoop(t, func(t *testing.T, way way) {
		if way.secure {
			return // of TLS every byte counts
		}
		s := open(t, way, many)
		c := s.connect("")
		c.auth("ana")
		rc, err := raw(c.nc).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		const tcpCork = 3 // so that all comes at once
		ping := frame(opText, `{"action":"ping","id":1}`)
		for range 20 {
			var failed error
			err := rc.Write(func(fd uintptr) bool {
				cork := func(on int) error { return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpCork, on) }
				send := func(s string, flags int) error { return syscall.Sendto(int(fd), []byte(s), flags, nil) }
				failed = cork(1)
				failed = errors.Join(failed, send(ping[:5], 0))
				failed = errors.Join(failed, send("!", syscall.MSG_OOB))
				failed = errors.Join(failed, send(ping[5:], 0))
				failed = errors.Join(failed, cork(0))
				return true
			})
			if err := errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			c.want(`"action":"pong"`)
		}
	})
}

// TestUringFails shows that what a ring that fails has not tried is written all the same, and that
// it is not used any more.
func TestUringFails(t *testing.T) {
	var log bytes.Buffer
	p := newTape(t)
	s := newServer(func(c *Config) {
		p.config(c)
		c.FlushInterval, c.Shards = -1, 1
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	sh, c, peer := lone(t, s)
	if sh.openBundle(); sh.bundle == nil {
		return // as on many systems
	}
	now := time.Now()
	c.sess.Text(now, []byte(`{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`))
	sh.flush(now, c)
	read := func() string {
		b := make([]byte, 64<<10)
		n, _ := syscall.Read(peer, b)
		return string(b[:max(0, n)])
	}
	round := func(when string) {
		t.Helper()
		read()
		p.publish(1)
		sh.turn(time.Now())
		if got := read(); strings.Count(got, `{"type":"T"`) != 1 || c.out != nil {
			t.Fatalf("%s: got %q, waiting %v", when, got, c.out != nil)
		}
	}
	round("with it")
	if sh.bundle == nil {
		t.Fatal("not used")
	}
	u := sh.bundle.uring
	good := u.fd
	u.fd = -1 // stands for any error of io_uring_enter
	round("as it fails")
	round("without it")
	syscall.Close(good)
	if sh.bundle != nil || strings.Count(log.String(), "io_uring failed") != 1 {
		t.Errorf("the ring is kept: %v, log %s", sh.bundle != nil, &log)
	}
}

// TestHandshakePanics shows that a panic in what is configured of TLS ends that connection alone.
func TestHandshakePanics(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s := newServer(func(c *Config) {
		many(c)
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(b)
		}), nil))
	})
	serve, trust := certificates(t)
	serve.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if h.ServerName == "panic" {
			panic("secret")
		}
		return nil, nil
	}
	addr, err := s.Listen(t.Context(), "127.0.0.1:0", serve)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(s.Requests(), s)
	t.Cleanup(func() { s.Requests().Close() })
	run(t, s)
	bad := trust.Clone()
	bad.ServerName = "panic"
	if nc, err := tls.Dial("tcp", addr.String(), bad); err == nil {
		nc.Close()
		t.Error("the handshake came to an end")
	}
	nc, err := tls.Dial("tcp", addr.String(), trust)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	upgradeOn(t, nc, "").auth("ana")
	mu.Lock()
	defer mu.Unlock()
	if got := log.String(); strings.Count(got, "handshake of TLS panicked") != 1 || strings.Contains(got, "secret") {
		t.Errorf("log %s", got)
	}
}

// TestLineToClosedDoor shows that a socket that comes to a shard that has ended is closed.
func TestLineToClosedDoor(t *testing.T) {
	s := newServer(nil)
	if _, err := s.Listen(t.Context(), "127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	for _, sh := range s.shards {
		sh.closeDoor()
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	s.shards[0].post(input{kind: inputLine, n: pair[0]})
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil { // it is shut, or this would wait
		t.Errorf("read %d, %v", n, err)
	}
}
