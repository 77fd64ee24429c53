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

	"github.com/ruedahq/rueda/internal/engine/session"
)

// dialSmallBuffer connects a client with a small receive buffer.
func (p *testServer) dialSmallBuffer() *client {
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

// TestFullOfPongs checks that a peer which sends pings and reads nothing is not read from, and is
// closed as a slow client.
func TestFullOfPongs(t *testing.T) {
	s := newServer(func(c *Config) { c.Env.StallTimeout = time.Second })
	sh, c, peer := connOnStoppedShard(t, s)
	now := time.Now()
	sh.flush(now, c) // the first output
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	for i := range 2 { // the first pong creates the write buffer, the second is queued
		if c.inputBlocked() {
			t.Fatalf("not read before ping %d", i)
		}
		sh.parse(now, c, []byte(frame(opPing, "x")))
		sh.flush(now, c)
	}
	if !c.inputBlocked() {
		t.Error("read although a pong waits")
	}
	for b := make([]byte, 1<<20); ; { // the peer reads
		if n, err := syscall.Read(peer, b); n <= 0 || err != nil {
			break
		}
	}
	sh.resumeWrite(now, c)
	sh.flush(now, c)
	if c.out != nil || c.inputBlocked() {
		t.Error("not read on")
	}
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	sh.parse(now, c, []byte(frame(opPing, "x")))
	sh.flush(now, c)
	sh.runTimers(now.Add(time.Second), c)
	if !c.closing() {
		t.Error("not given up")
	}
}

// TestNetConnFullOfPongs checks the same for a netConn.
func TestNetConnFullOfPongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *Config) { c.Env.StallTimeout = time.Second })
		c := dial(t, s)
		c.auth("ana")
		begin := time.Now()
		for { // a pipe has no buffer
			if _, err := io.WriteString(c.nc, frame(opPing, "x")); err != nil {
				break
			}
		}
		if took := time.Since(begin); took != time.Second+s.cfg.CloseTimeout {
			t.Errorf("given up after %v", took)
		}
	})
}

// TestPongsOfAll checks that all input is read of a client that sends pings faster than it reads.
func TestPongsOfAll(t *testing.T) { forAllTransports(t, testPongsOfAll) }

func testPongsOfAll(t *testing.T, tr transport) {
	s := openServer(t, tr, func(c *Config) { raiseLimits(c); c.SendBuffer = 4 << 10 })
	c := s.dialSmallBuffer()
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

// connOnStoppedShard returns a connection of a shard that does not run.
func connOnStoppedShard(t *testing.T, s *Server) (sh *shard, c *conn, peer int) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(pair[1]) })
	id, _ := verify(t.Context(), "ana")
	sh = s.shards[0]
	c = &conn{shard: sh, fd: int32(pair[0]), optional: new(optional)}
	c.handshake = &handshakeState{conn: c, identity: id}
	sh.load.Add(1)
	sh.conns.add(c)
	sh.startSession(time.Now(), c)
	t.Cleanup(func() { sh.end(c, true) })
	return sh, c, pair[1]
}

// TestTLSRecordsBlockInput checks that a connection with a full socket is not read while a TLS
// record waits, that its session knows, and that both end when the record is written.
func TestTLSRecordsBlockInput(t *testing.T) {
	s := newServer(func(c *Config) { c.Env.StallTimeout = time.Second })
	sh, c, peer := connOnStoppedShard(t, s)
	sh.loop = &eventLoop{shard: sh}
	now := time.Now()
	sh.flush(now, c) // the first output
	for n := 1; n > 0; {
		n = new(kernel).write(c.fd, make([]byte, 64<<10))
	}
	c.ext().tls = new(tlsConn)
	for range 2 { // the first creates the write buffer, the second finds it
		sh.loop.ciphertext = append(sh.loop.ciphertext[:0], "a new key"...)
		sh.loop.writeAlert(now, c)
		if !c.inputBlocked() || len(*c.out.buf) == 0 {
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
	sh.resumeWrite(now, c)
	if c.out != nil || c.inputBlocked() {
		t.Error("not read on")
	}
	if d := c.sess.Deadline(); !d.After(now.Add(time.Second)) {
		t.Error("given up although all was taken")
	}
	c.ext().tls = nil
}

// TestUrgentData checks that out-of-band bytes, where a read stops short, do not block input.
func TestUrgentData(t *testing.T) {
	forEventLoops(t, func(t *testing.T, tr transport) {
		if tr.secure {
			return // TLS does not allow out-of-band bytes
		}
		s := openServer(t, tr, raiseLimits)
		c := s.connect("")
		c.auth("ana")
		rc, err := tcpConn(c.nc).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		const tcpCork = 3 // sends everything at once
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

// TestUringFails checks that writes which a failed ring has not made are made by write, and that
// the ring is not used again.
func TestUringFails(t *testing.T) {
	var log safeBuffer
	p := newPublisher(t)
	s := newServer(func(c *Config) {
		p.config(c)
		c.FlushInterval, c.Shards = -1, 1
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	sh, c, peer := connOnStoppedShard(t, s)
	if sh.flusher.openBatch(); sh.flusher.batch == nil {
		return // not available on many systems
	}
	now := time.Now()
	c.sess.Handle(now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + testInstrument + `"],"snapshot":false}`)})
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
		sh.runOnce(time.Now())
		if got := read(); strings.Count(got, `{"type":"T"`) != 1 || c.out != nil {
			t.Fatalf("%s: got %q, waiting %v", when, got, c.out != nil)
		}
	}
	round("with it")
	if sh.flusher.batch == nil {
		t.Fatal("not used")
	}
	u := sh.flusher.batch.uring
	good := u.fd
	u.fd = -1 // makes io_uring_enter fail
	round("as it fails")
	round("without it")
	syscall.Close(good)
	if sh.flusher.batch != nil || strings.Count(log.String(), "io_uring failed") != 1 {
		t.Errorf("the ring is kept: %v, log %s", sh.flusher.batch != nil, &log)
	}
}

// TestHandshakePanics checks that a panic in a TLS callback ends only that connection.
func TestHandshakePanics(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s := newServer(func(c *Config) {
		raiseLimits(c)
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
	if got := log.String(); strings.Count(got, "TLS handshake panicked") != 1 || strings.Contains(got, "secret") {
		t.Errorf("log %s", got)
	}
}

// TestSocketToClosedLoop checks that a socket is closed that reaches a shard after its end.
func TestSocketToClosedLoop(t *testing.T) {
	s := newServer(nil)
	if _, err := s.Listen(t.Context(), "127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	for _, sh := range s.shards {
		sh.loop.close()
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	s.shards[0].post(input{kind: inputSocket, n: pair[0]})
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil { // closed; otherwise this would block
		t.Errorf("read %d, %v", n, err)
	}
}
