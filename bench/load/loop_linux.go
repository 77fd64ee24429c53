package load

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/internal/base/frame"
)

const (
	readSize  = 256 << 10
	maxEvents = 512
	slowEvery = 10 * time.Millisecond // interval at which slow connections read

	ipBindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT: choose the port when the peer is known
	epollET             = 1 << 31
)

// loop is the goroutine of all connections.
type loop struct {
	cfg   *Config
	proto *protocol
	check *checker
	board *proc.Board
	pong  []byte

	poll, wake int // file descriptors
	buf        []byte
	scratch    []byte
	masked     []byte
	spare      [][]byte // buffers for incomplete frames
	events     []syscall.EpollEvent

	conns                []conn
	next, opening, ready int
	closed               int
	reads, read          uint64
	pings, warnings      uint64
	server               syscall.SockaddrInet4
	slowly               []slowly // connections that may read slowly
	slowAge              Latency
	slowEnds             map[string]int
	slow                 int     // number of connections that read slowly now
	part                 float64 // share of the data that they read
	markedAt             float64 // seconds
	slowAt               time.Time
	opened               func(error) // called when all are ready
	finish               func(bool)
	finished             func() bool
	finishBy             time.Time

	epoch      string
	ending     bool // the connection that is being read has ended
	queueAt    time.Time
	queueFault error
	diag       int // socket to read queues of the kernel; 0: none

	secure *secure // connections with TLS, instead of all others; nil: none

	mu     sync.Mutex
	posted []func() // functions to call
	quit   bool
}

func newLoop() (*loop, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	wake, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		return nil, fmt.Errorf("eventfd: %w", e)
	}
	l := &loop{
		poll: poll, wake: int(wake),
		buf: make([]byte, readSize), events: make([]syscall.EpollEvent, maxEvents),
		pong: frame.AppendMasked(nil, frame.Text, mask, []byte(`{"action":"pong"}`)),
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: -1}
	if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, l.wake, &ev); err != nil {
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return l, nil
}

// post makes the loop call f.
func (l *loop) post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	one := [8]byte{1}
	_, _ = syscall.Write(l.wake, one[:]) // full: it is awake already
}

// run runs the loop until a posted function sets quit.
func (l *loop) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for !l.quit {
		n := l.wait()
		for i := range l.events[:n] {
			ev := &l.events[i]
			if ev.Fd < 0 {
				l.take()
				continue
			}
			l.event(&l.conns[ev.Fd], ev.Events)
		}
		if l.cfg == nil {
			continue
		}
		if l.slow > 0 && l.part > 0 {
			l.readSlow()
		}
		if l.next < len(l.conns) || l.opened != nil {
			l.fill()
		}
		if l.board != nil {
			l.board.Received.Store(l.check.deliveries)
			l.board.Trades.Store(l.check.trades)
			l.board.Through.Store(uint64(l.check.advance(len(l.conns))))
		}
		l.lookFinished()
	}
}

// wait returns events: first pending ones, without reporting to the runtime, which would cost more
// than the call.
func (l *loop) wait() int {
	n, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&l.events[0])), maxEvents, 0, 0, 0)
	if e == 0 && n > 0 {
		return int(n)
	}
	// A wait is not reported to the runtime either, which would take this thread's processor away.
	// Garbage collections wait until it ends.
	timeout := 50
	if l.slow > 0 && l.part > 0 || l.finish != nil {
		timeout = int(slowEvery / time.Millisecond)
	}
	n, _, e = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&l.events[0])), maxEvents, uintptr(timeout), 0, 0)
	if e != 0 {
		return 0
	}
	return int(n)
}

// take calls the posted functions.
func (l *loop) take() {
	var b [8]byte
	_, _ = syscall.Read(l.wake, b[:])
	l.mu.Lock()
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, f := range posted {
		f()
	}
}

// event handles an event of a connection.
func (l *loop) event(c *conn, events uint32) {
	if c.phase == phaseDialing {
		l.connected(c)
	}
	// A read that does not fill the buffer has drained the socket. Only the end of the stream may
	// remain.
	l.ending = events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0
	if c.phase > phaseDialing && !(c.slow && l.slow > int(c.number)) {
		l.drain(c, len(l.buf))
	}
}

// drain reads a connection until it is empty, or about limit bytes.
func (l *loop) drain(c *conn, limit int) (read int) {
	for c.phase != phaseClosed && read < limit {
		off := copy(l.buf, c.carry)
		size := min(len(l.buf)-off, limit-read)
		if size == 0 {
			l.drop(c, "a frame does not fit into the buffer")
			return read
		}
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&l.buf[off])), uintptr(size))
		switch {
		case e == syscall.EAGAIN:
			return read
		case e == syscall.EINTR:
			continue
		case e != 0:
			l.drop(c, e.Error())
			return read
		case n == 0:
			l.drop(c, "ended without a close frame")
			return read
		}
		l.reads++
		l.read += uint64(n)
		read += int(n)
		if c.slow {
			l.slowly[c.number].read += uint64(n)
		}
		l.check.now = 0
		data := l.buf[:off+int(n)]
		l.keep(c, data[l.bytes(c, data):])
		if int(n) < size && !l.ending {
			return read // nothing is left
		}
	}
	return read
}

// keep stores bytes of an incomplete frame.
func (l *loop) keep(c *conn, rest []byte) {
	if len(rest) == 0 {
		if c.carry != nil {
			l.spare = append(l.spare, c.carry)
			c.carry = nil
		}
		return
	}
	if c.carry == nil && len(l.spare) > 0 {
		c.carry = l.spare[len(l.spare)-1]
		l.spare = l.spare[:len(l.spare)-1]
	}
	c.carry = append(c.carry[:0], rest...)
}

// say sends a frame.
func (l *loop) say(c *conn, op byte, payload []byte) {
	l.masked = frame.AppendMasked(l.masked[:0], op, mask, payload)
	l.write(c, l.masked)
}

// write sends bytes. Clients send so little that the socket always accepts it.
func (l *loop) write(c *conn, b []byte) {
	n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 || int(n) < len(b) {
		l.drop(c, fmt.Sprintf("write: %d of %d bytes: %v", n, len(b), e))
	}
}

// drop ends a connection that should have stayed open.
func (l *loop) drop(c *conn, why string) {
	if c.phase == phaseClosed {
		return
	}
	if c.phase == phaseReady {
		l.ready--
	} else {
		l.opening--
	}
	c.phase = phaseClosed
	l.closed++
	_ = syscall.Close(int(c.fd))
	if c.slow && l.opened == nil {
		l.slowEnds[why]++
		return
	}
	l.check.fault(&l.check.faults.Closed, 1, "connection %d: %s", c.number, why)
	if l.opened != nil {
		l.opened(errors.New(l.check.faults.First))
		l.opened = nil
	}
}

// fill starts connections up to the limit of concurrent attempts.
func (l *loop) fill() {
	for l.opening < l.cfg.Opening && l.next < len(l.conns) && l.opened != nil {
		c := &l.conns[l.next]
		c.number = int32(l.next)
		c.snapshots = int32(l.cfg.set(l.next).Snapshots)
		c.slow = l.next < l.cfg.Slow
		l.next++
		l.opening++
		if err := l.dial(c); err != nil {
			l.opening--
			l.opened(err)
			l.opened = nil
			return
		}
	}
	if l.opened != nil && l.ready == len(l.conns) {
		l.opened(nil)
		l.opened = nil
	}
}

// dial begins a connection.
func (l *loop) dial(c *conn) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.fd = int32(fd)
	size := l.cfg.ReceiveBuffer
	if c.slow && l.cfg.SlowBuffer > 0 {
		size = l.cfg.SlowBuffer
	}
	local := syscall.SockaddrInet4{Addr: [4]byte{127, 0, byte(int(c.number) % l.cfg.Sources >> 8), byte(2 + int(c.number)%l.cfg.Sources)}}
	for _, err := range [...]error{
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, size),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		// Reset on close, so that the next run finds free ports.
		syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1),
		syscall.Bind(fd, &local),
	} {
		if err != nil {
			return fmt.Errorf("prepare connection %d: %w", c.number, err)
		}
	}
	if err := syscall.Connect(fd, &l.server); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		return fmt.Errorf("connect %d: %w", c.number, err)
	}
	c.phase = phaseDialing
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | epollET, Fd: c.number}
	if err := syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// connected sends the upgrade when the connection is established.
func (l *loop) connected(c *conn) {
	e, err := syscall.GetsockoptInt(int(c.fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil || e != 0 {
		l.drop(c, fmt.Sprintf("connect: %v", errors.Join(err, syscall.Errno(e))))
		return
	}
	// Stop watching for writability.
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | epollET, Fd: c.number}
	if err := syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_MOD, int(c.fd), &ev); err != nil {
		l.drop(c, err.Error())
		return
	}
	c.phase = phaseUpgrading
	l.scratch = appendUpgrade(l.scratch[:0], l.cfg, l.proto, int(c.number))
	l.write(c, l.scratch)
}

func (l *loop) setServer(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().Is4() {
		return fmt.Errorf("server %q: an IPv4 address with a port is needed", address)
	}
	l.server = syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	return nil
}
