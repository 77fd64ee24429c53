package bare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/wire"
)

const (
	sendBuffer = 64 << 10 // as the gateway
	soReuse    = 15       // SO_REUSEPORT
	pollOut    = 4
)

type server struct {
	cfg     Config
	threads []*thread
	all     sync.WaitGroup
	answers [3][]byte // to the upgrade, auth_token and subscribe
	address string
	running bool
	start   time.Time
	times   *pattern.Times // of the events; all threads write it
	limit   atomic.Uint64  // number of messages after which a thread must ask
	reached chan struct{}  // a thread has reached the limit
	more    chan bool      // continue or end
}

// thread is a thread with its sockets.
type thread struct {
	server   *server
	listener int
	poll     int
	ready    []int32     // sockets whose clients have all answers
	due      []time.Time // next ping of each
	mine     []int32     // sockets to write to
	state    map[int32]int
	n        atomic.Uint64 // published messages
	begun    atomic.Uint64 // published messages, including the current one
	quit     atomic.Bool
	buf      []byte
	events   []syscall.EpollEvent
}

// Run runs the bare program: it answers requests until in ends.
func Run(in io.Reader, out io.Writer) error {
	if _, err := proc.RaiseFiles(); err != nil {
		return err
	}
	s := &server{reached: make(chan struct{}), more: make(chan bool)}
	err := proc.Serve(in, out, map[string]proc.Handler{
		"start":   proc.Handle(s.listen),
		"publish": proc.Handle(s.publish),
		"stop":    proc.Handle(func(struct{}) (*pattern.Published, error) { return s.stop() }),
		"memory": proc.Handle(func(struct{}) (map[string]int64, error) {
			runtime.GC()
			debug.FreeOSMemory()
			now, peak, err := proc.Memory(os.Getpid())
			return map[string]int64{"Resident": now, "Peak": peak}, err
		}),
	})
	if s.running {
		_, serr := s.stop()
		err = errors.Join(err, serr)
	}
	for _, t := range s.threads {
		t.quit.Store(true)
	}
	s.all.Wait()
	return err
}

func (s *server) listen(cfg Config) (*Started, error) {
	if len(s.threads) > 0 {
		return nil, errors.New("started already")
	}
	if cfg.Threads < 1 {
		cfg.Threads = runtime.NumCPU()
	}
	s.cfg = cfg
	// A thread keeps its processor while it waits, because reporting that to the runtime would cost
	// more than short waits. One more processor is for requests.
	runtime.GOMAXPROCS(cfg.Threads + 1)
	s.makeAnswers()
	port := 0
	for range cfg.Threads {
		fd, p, err := listen(port)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		port = p
		poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("epoll_create1: %w", err)
		}
		t := &thread{server: s, listener: fd, poll: poll, state: make(map[int32]int), buf: make([]byte, 64<<10), events: make([]syscall.EpollEvent, 256)}
		if err := t.watch(fd, syscall.EPOLLIN); err != nil {
			return nil, err
		}
		s.threads = append(s.threads, t)
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", port)
	for _, t := range s.threads {
		s.all.Go(t.serve)
	}
	return &Started{Address: s.address, Limits: fmt.Sprintf("%d threads", cfg.Threads)}, nil
}

func listen(port int) (fd, bound int, err error) {
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	for _, err := range [...]error{
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReuse, 1),
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer), // inherited by accepted sockets
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}),
		syscall.Listen(fd, 4096),
	} {
		if err != nil {
			return 0, 0, err
		}
	}
	a, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, 0, err
	}
	return fd, a.(*syscall.SockaddrInet4).Port, nil
}

// makeAnswers creates the answers to all clients.
func (s *server) makeAnswers() {
	ident := wire.MakeIdent(pattern.ID(0))
	s.answers[0] = []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	s.answers[1] = wire.AppendText(nil, []byte(`{"type":"Success","code":200,"msg":"Connected","version":"bare","time":"2026-01-01T00:00:00.000000000Z",`+
		`"expires_in":86400,"heartbeat":{"interval":20,"timeout":30},"limits":{"subscriptions":2000,"messages_per_second":20,"message_bytes":65536,"connections":8,"max_depth":0}}`))
	ack := wire.AppendText(nil, []byte(`{"type":"Subscription","code":200,"msg":"Subscribed","epoch":"e0","position":"e0:0","trades":["B10000|BENCH|24hs"],"count":{"trades":1}}`))
	state := append([]byte(`{"type":"Q",`), ident...)
	state = append(state, `,"N":1,"T":"2026-01-01T00:00:00.000000000Z","R":true,"BP":7049.5,"BZ":300,"AP":7050,"AZ":1200,"BC":4,"AC":9}`...)
	for range s.cfg.Snapshots {
		ack = wire.AppendText(ack, state)
	}
	s.answers[2] = ack
}

func (t *thread) watch(fd int, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	if err := syscall.EpollCtl(t.poll, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// serve answers clients and sends pings if enabled. Pings of a client are timed from when it was
// ready, as in a gateway.
func (t *thread) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const grain = 10 * time.Millisecond // pings that are due within it are sent together
	ping := wire.AppendText(nil, []byte(`{"action":"ping"}`))
	interval := t.server.cfg.Ping
	first := 0 // index in ready of the next ping: with one interval they stay in order
	for !t.quit.Load() {
		timeout := 100 * time.Millisecond
		if interval > 0 && len(t.ready) > 0 {
			timeout = min(timeout, max(grain, time.Until(t.due[first])))
		}
		t.turn(int(timeout / time.Millisecond))
		now := time.Now()
		for len(t.due) < len(t.ready) {
			t.due = append(t.due, now.Add(interval))
		}
		if interval <= 0 {
			continue
		}
		for n := 0; n < len(t.ready) && t.due[first].Before(now); n++ {
			_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(t.ready[first]), uintptr(unsafe.Pointer(&ping[0])), uintptr(len(ping)))
			t.due[first] = t.due[first].Add(interval)
			first = (first + 1) % len(t.ready)
		}
	}
}

// turn handles the events of epoll.
func (t *thread) turn(timeout int) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(t.poll), uintptr(unsafe.Pointer(&t.events[0])), uintptr(len(t.events)), 0, 0, 0)
	if e != 0 || n == 0 {
		n, _, e = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(t.poll), uintptr(unsafe.Pointer(&t.events[0])), uintptr(len(t.events)), uintptr(timeout), 0, 0)
	}
	if e != 0 {
		return
	}
	for i := range t.events[:n] {
		fd := t.events[i].Fd
		if int(fd) == t.listener {
			t.accept()
			continue
		}
		t.read(fd)
	}
}

func (t *thread) accept() {
	for {
		fd, _, e := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(t.listener), 0, 0, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		if e != 0 {
			return
		}
		if t.watch(int(fd), syscall.EPOLLIN) == nil {
			t.state[int32(fd)] = 0
		}
	}
}

// read reads and ignores what a client sends, because the next answer is fixed.
func (t *thread) read(fd int32) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&t.buf[0])), uintptr(len(t.buf)))
	if e == syscall.EAGAIN {
		return
	}
	state := t.state[fd]
	if e != 0 || n == 0 {
		delete(t.state, fd)
		_ = syscall.Close(int(fd))
		return
	}
	if state >= len(t.server.answers) {
		return // a pong
	}
	if state == 0 && !bytes.HasSuffix(t.buf[:n], []byte("\r\n\r\n")) {
		return
	}
	a := t.server.answers[state]
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&a[0])), uintptr(len(a)))
	t.state[fd] = state + 1
	if state+1 == len(t.server.answers) {
		t.ready = append(t.ready, fd)
	}
}

// publish ends the answering of clients, distributes the sockets evenly, and makes the threads
// write. It returns when they do.
func (s *server) publish(p pattern.Pattern) (struct{}, error) {
	if s.running {
		return struct{}{}, errors.New("publishing already")
	}
	for _, t := range s.threads {
		t.quit.Store(true)
	}
	s.all.Wait()
	var fds []int32
	for _, t := range s.threads {
		fds = append(fds, t.ready...)
		fds = append(fds, t.mine...)
		t.ready, t.mine, t.due = nil, nil, nil
	}
	for i, fd := range fds {
		t := s.threads[i*len(s.threads)/len(fds)]
		t.mine = append(t.mine, fd)
	}
	s.limit.Store(1 << 62)
	if p.Kind == pattern.Once {
		s.limit.Store(s.threads[0].n.Load() + uint64(max(1, p.Batch)))
	}
	s.running, s.start, s.times = true, time.Now(), &pattern.Times{}
	for _, t := range s.threads {
		t.quit.Store(false)
		s.all.Go(func() { t.write(p) })
	}
	return struct{}{}, nil
}

// stop makes all threads end with the same message.
func (s *server) stop() (*pattern.Published, error) {
	if !s.running {
		return nil, errors.New("nothing is published")
	}
	s.running = false
	took := time.Since(s.start).Seconds()
	if s.limit.Load() == 1<<62 {
		s.limit.Store(0)
	}
	for {
		for range s.threads {
			<-s.reached
		}
		most, least := s.threads[0].n.Load(), s.threads[0].n.Load()
		for _, t := range s.threads {
			most, least = max(most, t.n.Load()), min(least, t.n.Load())
		}
		s.limit.Store(most)
		for range s.threads {
			s.more <- most != least
		}
		if most == least {
			break
		}
	}
	s.all.Wait()
	n := s.threads[0].n.Load()
	return &pattern.Published{Last: map[string]uint32{pattern.ID(0).String(): uint32(n)}, Events: n, Seconds: took}, nil
}

// write sends messages to all sockets at the pace of p until the server stops it. Each message, or
// batch of messages, takes one system call for each socket. No server that copies to sockets can do
// less.
func (t *thread) write(p pattern.Pattern) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ident := wire.MakeIdent(pattern.ID(0))
	batch := max(1, p.Batch)
	var pace *pattern.Pacer
	if p.Kind == pattern.Rate {
		pace = pattern.NewPacer(t.server.start, p.Rate/float64(batch), t.server.times)
	}
	var frames, scratch []byte
	n := t.n.Load()
	for {
		for n >= t.server.limit.Load() {
			t.server.reached <- struct{}{}
			if !<-t.server.more {
				return
			}
		}
		if p.InStep && !t.inStep(n) {
			continue
		}
		at := int64(0)
		if pace != nil {
			at = pace.Next()
		}
		now := time.Now().UnixNano()
		if at == 0 {
			at = now
		}
		frames = frames[:0]
		for range batch {
			n++
			frames, scratch = pattern.AppendFrame(frames, scratch, ident, n, at, now)
		}
		t.begun.Store(n)
		for _, fd := range t.mine {
			r, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&frames[0])), uintptr(len(frames)))
			if e != 0 || int(r) < len(frames) {
				t.writeRest(fd, frames, int(r), e)
			}
		}
		t.n.Store(n)
	}
}

// inStep reports whether all threads have begun message n, as the shards of a server would have. If
// not, it sleeps for a short time.
func (t *thread) inStep(n uint64) bool {
	for _, other := range t.server.threads {
		if other.begun.Load() < n {
			proc.Nap(20_000)
			return false
		}
	}
	return true
}

// writeRest waits until a full socket has accepted everything.
func (t *thread) writeRest(fd int32, b []byte, done int, e syscall.Errno) {
	if e != 0 {
		done = 0
	}
	for done < len(b) {
		if e != 0 && e != syscall.EAGAIN && e != syscall.EINTR {
			return // the client has closed
		}
		p := struct {
			fd              int32
			events, revents int16
		}{fd: fd, events: pollOut}
		wait := syscall.Timespec{Nsec: 100e6} // arm64 has no poll(2)
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
		var n uintptr
		n, _, e = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[done])), uintptr(len(b)-done))
		if e == 0 {
			done += int(n)
		}
	}
}
