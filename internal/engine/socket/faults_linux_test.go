//go:build !386

package socket

import (
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

	"github.com/ruedahq/rueda/internal/engine/session"
)

// faultErrors returns the errors that a system call of a connection may return.
func faultErrors() []syscall.Errno {
	return []syscall.Errno{syscall.ECONNRESET, syscall.ENOTCONN, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENOBUFS,
		syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EINTR, syscall.EAGAIN}
}

// injector makes one system call of one connection fail and counts its calls.
type injector struct {
	epoll int // of the only shard; 0: there is none

	mu     sync.Mutex
	armed  bool
	others map[int32]bool // sockets that were opened before arm
	ids    map[int32]int32
	made   [callCount]int
	call   syscallID
	from   int // the first call to fail, counted from 1; 0: none does
	errno  syscall.Errno
	again  bool // the call before it returns EAGAIN
	fired  bool // it has failed
	next   int32
}

// fault implements kernel.fault.
func (i *injector) fault(c syscallID, fd, arg int32) syscall.Errno {
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
		// After this error the server waits for the kernel to report that the socket is ready: make
		// it report again.
		ev := syscall.EpollEvent{Events: watchConn, Fd: id}
		_ = syscall.EpollCtl(i.epoll, syscall.EPOLL_CTL_MOD, int(fd), &ev)
	}
	return errno
}

// arm starts counting, and makes the nth call of a kind fail.
func (i *injector) arm(c syscallID, nth int, errno syscall.Errno, again bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed, i.made, i.call, i.from, i.errno, i.again, i.fired = true, [callCount]int{}, c, nth, errno, again, false
}

func (i *injector) hasFailed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fired
}

func (i *injector) calls() [callCount]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.made
}

// injecting is a listener whose connections call an injector before each system call.
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

// injected is a connection of injecting. Like package net it retries temporary errors.
type injected struct {
	*net.TCPConn
	injector *injector
	id       int32
}

func (c *injected) fails(call syscallID) error {
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

// openInjected runs a server of one shard, with a bystander that reads trades.
func openInjected(t *testing.T, w transport, change func(*Server)) (*testServer, *injector, *publisher, *client) {
	t.Helper()
	pub := newPublisher(t)
	i := &injector{others: make(map[int32]bool), ids: make(map[int32]int32)}
	s := newServer(func(c *Config) {
		pub.config(c)
		c.Shards, c.CloseTimeout, c.FlushInterval = 1, 50*time.Millisecond, -1
		c.Env.Used = func(user string, _ session.Use, by int) {
			if user == "u-"+panics && by > 0 {
				panic("a fault of our own")
			}
		}
	})
	s.kernel.fault = i.fault
	change(s)
	pl := &testServer{Server: s, t: t}
	var l net.Listener
	if w.loop {
		pl, l = listenOn(t, s, w)
		i.epoll = s.shards[0].loop.poller.epoll
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
	return pl, i, pub, bystander
}

// scenario is a conversation that faults are injected into. It returns nil if it was complete.
type scenario struct {
	name    string
	slowEnd bool // the server closes within Config.CloseTimeout
	talk    func(s *testServer, pub *publisher) error
}

func scenarios() []scenario {
	return []scenario{{"stream", false, talkStream}, {"request and stream", false, talkRequest},
		{"violation", true, talkViolation}, {"refused", true, talkRefused}, {"panic", true, talkPanic}}
}

// dialTalk returns a client with a deadline for everything.
func (p *testServer) dialTalk() (*client, error) {
	nc, err := p.tryDial()
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return newClient(p.t, nc), nil
}

// expect reads frames until one contains text, or until a close frame if text is "".
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

func talkStream(p *testServer, pub *publisher) error {
	c, err := p.dialTalk()
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
	pub.publish(1)
	if err := c.expect(`"type":"T"`); err != nil {
		return err
	}
	_, err = io.WriteString(c.nc, closing(1000, ""))
	return errors.Join(err, c.expect(""))
}

func talkRequest(p *testServer, _ *publisher) error {
	c, err := p.dialTalk()
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

// talkViolation violates RFC 6455 and waits for the server to close.
func talkViolation(p *testServer, _ *publisher) error {
	c, err := p.dialTalk()
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

// talkRefused is refused and does not close, so that it is reset.
func talkRefused(p *testServer, _ *publisher) error {
	c, err := p.dialTalk()
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

// talkPanic causes a panic in the server.
func talkPanic(p *testServer, _ *publisher) error {
	c, err := p.dialTalk()
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

// panics is a user whose subscriptions panic.
const panics = "panics"

// survives reports whether a conversation must complete although a call has failed.
func survives(c syscallID, errno syscall.Errno) bool {
	switch c {
	case callAccept: // without descriptors a client is refused
		return errno != syscall.EMFILE && errno != syscall.ENFILE
	case callRead, callWrite, callCompletion:
		return errno == syscall.EINTR || errno == syscall.EAGAIN
	case callSubmit, callOption, callClose, callPeer:
		return true
	}
	return false
}

// TestSystemCallsFailLong makes every system call of a connection fail with every error, on every
// transport, in every conversation. Nothing stalls, all resources are released, and a bystander
// misses no trade. The calls are those that a run without faults makes.
func TestSystemCallsFailLong(t *testing.T) {
	forEachTransport(t, func(t *testing.T, w transport) {
		files, heap, cells := -1, int64(0), new(atomic.Int64)
		for c := range callCount {
			t.Run(c.String(), func(t *testing.T) { failCall(t, w, c, cells) })
			if files < 0 {
				files, heap = descriptors(t), heapBytes()
			}
			waitFor(t, "every descriptor closed", func() bool { return descriptors(t) <= files })
		}
		if grown := heapBytes() - heap; grown > 8<<20 {
			t.Errorf("%d bytes of memory are left of %d conversations", grown, cells.Load())
		}
		t.Logf("%s: %d conversations", w.name, cells.Load())
	})
}

// failCall makes calls of one kind fail, in all conversations at the same time, because they mostly
// wait.
func failCall(t *testing.T, w transport, c syscallID, cells *atomic.Int64) {
	before := cells.Load()
	var mu sync.Mutex
	failed := make(map[syscall.Errno]bool) // false: tried only
	var all sync.WaitGroup
	for _, v := range scenarios() {
		all.Go(func() {
			t.Run(v.name, func(t *testing.T) {
				failCallIn(t, v, w, c, func(errno syscall.Errno, hit bool) {
					mu.Lock()
					defer mu.Unlock()
					failed[errno] = failed[errno] || hit
					cells.Add(1)
				})
			})
		})
	}
	all.Wait()
	for errno, hit := range failed {
		if !hit {
			t.Errorf("%s: never failed with %v", c, errno)
		}
	}
	if n := cells.Load() - before; n == 0 {
		t.Logf("%s: %s: not made", w.name, c)
	} else {
		t.Logf("%s: %s: %d errors, %d conversations", w.name, c, len(faultErrors()), n)
	}
}

// failCallIn makes calls of one kind fail in one conversation. It reports each error, and whether a
// call has failed with it.
func failCallIn(t *testing.T, v scenario, w transport, c syscallID, report func(syscall.Errno, bool)) {
	p, i, pub, bystander := openInjected(t, w, func(*Server) {})
	count := -1
	for k, errno := range faultErrors() {
		if k > 0 && c == callSubmit { // a failed ring is not used again
			p, i, pub, bystander = openInjected(t, w, func(*Server) {})
		}
		if count < 0 {
			i.arm(c, 0, 0, false)
			if err := v.talk(p, pub); err != nil && !(v.slowEnd && errors.Is(err, syscall.ECONNRESET)) {
				t.Fatalf("%s without a fault: %v", v.name, err)
			}
			waitFor(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
			count = i.calls()[c]
		}
		for nth := 1; nth <= count; nth++ {
			// Unless in full, one call of each kind fails, a different one for each error.
			if os.Getenv("RUEDA_SOAK") != "" || nth == 1+k%count {
				report(errno, failOne(t, v, p, i, pub, c, nth, errno))
			}
		}
	}
	pub.publish(1)
	if err := bystander.trades(1, int(pub.published)); err != nil {
		t.Errorf("%s: the bystander: %v", v.name, err)
	}
}

// failOne makes the nth call of a kind fail in a conversation, also after an EAGAIN if the call may
// be retried. It reports whether a call has failed, because the number of calls may vary.
func failOne(t *testing.T, v scenario, p *testServer, i *injector, pub *publisher, c syscallID, nth int, errno syscall.Errno) (failed bool) {
	t.Helper()
	for _, again := range []bool{false, true} {
		if again && (nth == 1 || c != callRead && c != callWrite && c != callCompletion) {
			continue
		}
		for try := 0; try < 5; try++ {
			i.arm(c, nth, errno, again)
			err := v.talk(p, pub)
			if v.slowEnd && errors.Is(err, syscall.ECONNRESET) {
				err = nil // a client that reads late may be reset
			}
			if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && survives(c, errno) {
				t.Errorf("%s, call %d, %v (after EAGAIN: %v): %v", v.name, nth, errno, again, err)
			}
			waitFor(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
			if i.hasFailed() {
				failed = true
				break
			}
			nth = max(1, nth-1)
		}
	}
	return failed
}
