//go:build !386

package socket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/session"
)

// faultErrors are what a system call of a connection may return.
func faultErrors() []syscall.Errno {
	return []syscall.Errno{syscall.ECONNRESET, syscall.ENOTCONN, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENOBUFS,
		syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EINTR, syscall.EAGAIN}
}

// An injector stands between a server and the kernel. It counts the calls that are made for one
// connection, the victim's, and has one of them fail.
type injector struct {
	epoll int // of the only shard; 0: there is none

	mu     sync.Mutex
	armed  bool
	others map[int32]bool // sockets of before it was armed
	ids    map[int32]int32
	made   [callCount]int
	call   call
	from   int // the first call to fail, counted from 1; 0: none does
	errno  syscall.Errno
	again  bool // and the one before it says EAGAIN
	fired  bool // it has failed
	next   int32
}

// fault is the fault of a kernel.
func (i *injector) fault(c call, fd, arg int32) syscall.Errno {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c == callWatch {
		i.ids[fd] = arg
	}
	if !i.armed {
		i.others[fd] = true
		return 0
	}
	if i.others[fd] && c != callAccept && c != callSubmit {
		return 0
	}
	i.made[c]++
	errno := syscall.Errno(0)
	switch {
	case c != i.call || i.from == 0:
	case i.made[c] == i.from:
		errno = i.errno
		i.fired = true
	case i.again && i.made[c] == i.from-1:
		errno = syscall.EAGAIN
	}
	if id, watched := i.ids[fd]; errno == syscall.EAGAIN && watched && i.epoll != 0 {
		// After this error the kernel tells when the socket is ready, which it is: so it is made
		// to tell again.
		ev := syscall.EpollEvent{Events: watchLine, Fd: id}
		_ = syscall.EpollCtl(i.epoll, syscall.EPOLL_CTL_MOD, int(fd), &ev)
	}
	return errno
}

// arm begins to count, and has the nth call of a kind fail.
func (i *injector) arm(c call, nth int, errno syscall.Errno, again bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed, i.made, i.call, i.from, i.errno, i.again, i.fired = true, [callCount]int{}, c, nth, errno, again, false
}

func (i *injector) took() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fired
}

func (i *injector) calls() [callCount]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.made
}

// injecting is a listener whose connections ask an injector before each call.
type injecting struct {
	net.Listener
	injector *injector
}

func (l injecting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	i := l.injector
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next++
	return &injected{c.(*net.TCPConn), i, 1<<20 + i.next}, nil
}

// injected is such a connection. Errors that package net waits out do not come up here either.
type injected struct {
	*net.TCPConn
	injector *injector
	id       int32
}

func (c *injected) fails(call call) error {
	switch errno := c.injector.fault(call, c.id, 0); errno {
	case 0, syscall.EINTR, syscall.EAGAIN:
		return nil
	default:
		return &net.OpError{Op: call.String(), Net: "tcp", Err: os.NewSyscallError(call.String(), errno)}
	}
}

func (c *injected) Read(b []byte) (int, error) {
	if err := c.fails(callRead); err != nil {
		return 0, err
	}
	return c.TCPConn.Read(b)
}

func (c *injected) Write(b []byte) (int, error) {
	if err := c.fails(callWrite); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(b)
}

func (c *injected) Close() error { return errors.Join(c.fails(callClose), c.TCPConn.Close()) }
func (c *injected) CloseWrite() error {
	return errors.Join(c.fails(callShutdown), c.TCPConn.CloseWrite())
}
func (c *injected) SetNoDelay(on bool) error {
	return errors.Join(c.fails(callOption), c.TCPConn.SetNoDelay(on))
}
func (c *injected) SetWriteBuffer(n int) error {
	return errors.Join(c.fails(callOption), c.TCPConn.SetWriteBuffer(n))
}
func (c *injected) SetLinger(n int) error {
	return errors.Join(c.fails(callOption), c.TCPConn.SetLinger(n))
}

// openInjected runs a server of one shard on a way, with a bystander that reads trades.
func openInjected(t *testing.T, w way, change func(*Server)) (*place, *injector, *tape, *client) {
	t.Helper()
	tape := newTape(t)
	i := &injector{others: make(map[int32]bool), ids: make(map[int32]int32)}
	s := newServer(func(c *Config) {
		tape.config(c)
		c.Shards, c.CloseTimeout, c.FlushInterval = 1, 50*time.Millisecond, -1
		c.Env.Used = func(user string, _ session.Use, by int) {
			if user == "u-"+panics && by > 0 {
				panic("a fault of our own")
			}
		}
	})
	s.kernel.fault = i.fault
	change(s)
	pl := &place{Server: s, t: t}
	var l net.Listener
	if w.loop {
		pl, l = listenOn(t, s, w)
		i.epoll = s.shards[0].door.poller.epoll
	} else {
		pl, l = listenWrapped(t, s, w, func(l net.Listener) net.Listener { return injecting{l, i} })
	}
	mux := http.NewServeMux()
	mux.Handle("/stream", s)
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("HTTP server: %v", err)
		}
	}()
	t.Cleanup(func() { h.Close(); <-done })
	run(t, s)
	bystander := pl.connect("")
	bystander.auth("bystander")
	bystander.subscribe()
	return pl, i, tape, bystander
}

// A victim is a conversation that something may happen to. It returns nil where all of it took
// place.
type victim struct {
	name string
	late bool // the server ends it, within Config.CloseTimeout
	talk func(p *place, tape *tape) error
}

func victims() []victim {
	return []victim{{"stream", false, talkStream}, {"request and stream", false, talkRequest},
		{"violation", true, talkViolation}, {"refused", true, talkRefused}, {"panic", true, talkPanic}}
}

// talker dials, and gives what reads frames. Whatever takes longer than the deadline is a stall.
func (p *place) talker() (*client, error) {
	nc, err := p.tryDial()
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	return &client{t: p.t, nc: nc, r: bufio.NewReader(nc)}, nil
}

// expect reads frames until one contains a text, or is a close frame where the text is "".
func (c *client) expect(text string) error {
	for {
		op, payload, err := c.next()
		if op == opText && strings.Contains(payload, `"reason":"internal"`) {
			c.reason = "internal"
		}
		if op == opClose && len(payload) > 1 {
			c.code = binary.BigEndian.Uint16([]byte(payload))
		}
		switch {
		case err != nil:
			return err
		case op == opText && text != "" && strings.Contains(payload, text), op == opClose && text == "":
			return nil
		case op == opClose:
			return fmt.Errorf("closed %x before %q", payload, text)
		}
	}
}

func (c *client) begin() error { return c.beginAs("ana") }

func (c *client) beginAs(user string) error {
	hello := `{"action":"auth_token","token":"` + user + `"}`
	if _, err := io.WriteString(c.nc, goodHandshake+"\r\n"+frame(opText, hello)); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.r, nil)
	switch {
	case err != nil:
		return err
	case r.StatusCode != http.StatusSwitchingProtocols:
		return fmt.Errorf("handshake: %s", r.Status)
	}
	return c.expect(`"Success"`)
}

func talkStream(p *place, tape *tape) error {
	c, err := p.talker()
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if err := c.begin(); err != nil {
		return err
	}
	_, err = io.WriteString(c.nc, frame(opText, `{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`))
	if err = errors.Join(err, c.expect(`"Subscription"`)); err != nil {
		return err
	}
	tape.publish(1)
	if err := c.expect(`"type":"T"`); err != nil {
		return err
	}
	_, err = io.WriteString(c.nc, closing(1000, ""))
	return errors.Join(err, c.expect(""))
}

func talkRequest(p *place, _ *tape) error {
	c, err := p.talker()
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if _, err := io.WriteString(c.nc, "POST /echo HTTP/1.1\r\nHost: gw\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "hi" {
		return fmt.Errorf("echo: %q, %w", b, err)
	}
	return c.begin()
}

// talkViolation breaks RFC 6455, and leaves it to the server to end the connection.
func talkViolation(p *place, _ *tape) error {
	c, err := p.talker()
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if err := c.begin(); err != nil {
		return err
	}
	if _, err := io.WriteString(c.nc, frame(3, "")); err != nil {
		return err
	}
	if err := c.expect(""); err != nil {
		return err
	}
	for {
		if _, _, err := c.next(); errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		} else if err != nil {
			return nil
		}
	}
}

// talkRefused is told to go and stays, so that it is reset.
func talkRefused(p *place, _ *tape) error {
	c, err := p.talker()
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if _, err := io.WriteString(c.nc, goodHandshake+"\r\n"+frame(opText, `{"action":"auth_token","token":"bad"}`)); err != nil {
		return err
	}
	if _, err := http.ReadResponse(c.r, nil); err != nil {
		return err
	}
	if err := c.expect(""); err != nil {
		return err
	}
	if _, _, err := c.next(); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// talkPanic meets a fault of the server's own.
func talkPanic(p *place, _ *tape) error {
	c, err := p.talker()
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if err := c.beginAs(panics); err != nil {
		return err
	}
	_, err = io.WriteString(c.nc, frame(opText, `{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`))
	if err = errors.Join(err, c.expect(`"reason":"internal"`)); err != nil {
		return err
	}
	return c.expect("")
}

// panics is a user who cannot subscribe to anything without a panic.
const panics = "panics"

// survives says whether a conversation is to take place in full although a call of it failed.
func survives(c call, errno syscall.Errno) bool {
	switch c {
	case callAccept: // without descriptors one client is hung up on, to make room
		return errno != syscall.EMFILE && errno != syscall.ENFILE
	case callRead, callWrite, callCompletion:
		return errno == syscall.EINTR || errno == syscall.EAGAIN
	case callSubmit, callOption, callClose, callPeer:
		return true
	}
	return false
}

// TestSystemCallsFail has every system call of a connection's life fail with every error, on every
// way, in every conversation. Nothing stalls, all is given back, and a bystander misses no trade.
// The table is made from what a way is seen to call.
func TestSystemCallsFail(t *testing.T) {
	onEachWay(t, func(t *testing.T, w way) {
		files, heap, cells := -1, int64(0), new(atomic.Int64)
		for c := range callCount {
			t.Run(c.String(), func(t *testing.T) { failCall(t, w, c, cells) })
			if files < 0 {
				files, heap = descriptors(t), heapBytes()
			}
			await(t, "every descriptor closed", func() bool { return descriptors(t) <= files })
		}
		if grown := heapBytes() - heap; grown > 8<<20 {
			t.Errorf("%d bytes of memory are left of %d conversations", grown, cells.Load())
		}
		t.Logf("%s: %d conversations", w.name, cells.Load())
	})
}

func failCall(t *testing.T, w way, c call, cells *atomic.Int64) {
	before, missing := cells.Load(), make(map[syscall.Errno]bool)
	for _, v := range victims() {
		p, i, tape, bystander := openInjected(t, w, func(*Server) {})
		count := -1
		for k, errno := range faultErrors() {
			if k > 0 && c == callSubmit { // a ring that failed is given up
				p, i, tape, bystander = openInjected(t, w, func(*Server) {})
			}
			if count < 0 {
				i.arm(c, 0, 0, false)
				if err := v.talk(p, tape); err != nil && !(v.late && errors.Is(err, syscall.ECONNRESET)) {
					t.Fatalf("%s without a fault: %v", v.name, err)
				}
				await(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
				count = i.calls()[c]
			}
			for nth := 1; nth <= count; nth++ {
				if os.Getenv("RUEDA_SOAK") != "" || nth == 1+k%count { // or one call of each kind, another for each error
					if failOne(t, v, p, i, tape, c, nth, errno) {
						missing[errno] = false
					} else if _, known := missing[errno]; !known {
						missing[errno] = true
					}
					cells.Add(1)
				}
			}
		}
		tape.publish(1)
		if err := bystander.trades(1, int(tape.published)); err != nil {
			t.Errorf("%s: the bystander: %v", v.name, err)
		}
	}
	for errno, never := range missing {
		if never {
			t.Errorf("%s: never failed with %v", c, errno)
		}
	}
	if n := cells.Load() - before; n == 0 {
		t.Logf("%s: %s: not made", w.name, c)
	} else {
		t.Logf("%s: %s: %d errors, %d conversations", w.name, c, len(faultErrors()), n)
	}
}

// failOne has the nth call of a kind fail in a conversation, and, where a call may be made again,
// after one that said EAGAIN.
// It says whether one did: the number of calls may differ from one time to another.
func failOne(t *testing.T, v victim, p *place, i *injector, tape *tape, c call, nth int, errno syscall.Errno) (failed bool) {
	t.Helper()
	for _, again := range []bool{false, true} {
		if again && (nth == 1 || c != callRead && c != callWrite && c != callCompletion) {
			continue
		}
		for try := 0; try < 5; try++ {
			i.arm(c, nth, errno, again)
			err := v.talk(p, tape)
			if v.late && errors.Is(err, syscall.ECONNRESET) {
				err = nil // who takes long to read the end is reset before
			}
			if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && survives(c, errno) {
				t.Errorf("%s, call %d, %v (after EAGAIN: %v): %v", v.name, nth, errno, again, err)
			}
			await(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
			if i.took() {
				failed = true
				break
			}
			nth = max(1, nth-1)
		}
	}
	return failed
}
