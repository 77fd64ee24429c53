package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"
	"unsafe"
)

// queueEvery is the interval of reading kernel queues of slow connections; the age of a quote may
// be overestimated by it.
const queueEvery = 50 * time.Millisecond

// slowly is the state of a connection that may read slowly.
type slowly struct {
	read  uint64 // bytes
	left  uint64 // of them, those after the current message
	taken []taken

	marked uint64  // read at the last mark
	speed  float64 // bytes per second before it
	credit float64 // bytes that may be read now
}

// taken records how many bytes of a connection the server's kernel has accepted in total at a time.
type taken struct {
	at    int64 // Unix ns
	bytes uint64
}

// throttle makes slow connections read slowly or normally.
func (l *loop) throttle(args Throttle) (struct{}, error) {
	return struct{}{}, l.do(func() error {
		if err := l.isOpen(); err != nil {
			return err
		}
		if args.Conns > l.cfg.Slow {
			return fmt.Errorf("%d slow connections; %d were opened as such", args.Conns, l.cfg.Slow)
		}
		l.slow, l.part, l.slowAt = args.Conns, args.Part, time.Now()
		if args.Part >= 0 {
			return nil
		}
		l.slow, l.ending = 0, true
		for i := range l.conns[:l.cfg.Slow] {
			l.drain(&l.conns[i], math.MaxInt) // its event has passed
		}
		return nil
	})
}

// readSlow reads a little from each slow connection and checks the queues.
func (l *loop) readSlow() {
	now := time.Now()
	if now.Sub(l.queueAt) >= queueEvery {
		l.queueAt = now
		for i := range l.conns[:l.slow] {
			l.lookAtQueues(&l.conns[i])
		}
	}
	since := now.Sub(l.slowAt)
	if since < slowEvery {
		return
	}
	l.slowAt = now
	l.ending = false
	for i := range l.conns[:l.slow] {
		s := &l.slowly[i]
		s.credit += since.Seconds() * s.speed * l.part
		if s.credit >= 1 {
			s.credit = max(0, s.credit-float64(l.drain(&l.conns[i], int(s.credit))))
			s.credit = min(s.credit, s.speed*l.part) // at most one second can be saved
		}
	}
}

// markSlow records how fast connections that may read slowly have read since the last mark.
func (l *loop) markSlow(at float64) {
	for i := range l.slowly {
		s := &l.slowly[i]
		if at > l.markedAt {
			s.speed = float64(s.read-s.marked) / (at - l.markedAt)
		}
		s.marked = s.read
	}
	l.markedAt = at
}

// lookAtQueues records how much of a connection the server has passed to its kernel: bytes read
// here, in the receive queue here, and in the send queue there.
func (l *loop) lookAtQueues(c *conn) {
	if c.phase == phaseClosed {
		return
	}
	waiting, err := l.queue(c)
	if err != nil {
		if l.queueFault == nil {
			l.queueFault = err
		}
		return
	}
	s := &l.slowly[c.number]
	s.taken = append(s.taken, taken{time.Now().UnixNano(), s.read + waiting})
}

// aged records the age of a quote of a slow connection: the time from at until the server's kernel
// had accepted its bytes.
func (l *loop) aged(c *conn, at int64) {
	s := &l.slowly[c.number]
	end := s.read - s.left
	for len(s.taken) > 1 && s.taken[0].bytes < end {
		s.taken = s.taken[1:]
	}
	if len(s.taken) == 0 || s.taken[0].bytes < end || at == 0 {
		return // before the first check
	}
	l.slowAge.Add(s.taken[0].at - at)
}

// fionread is FIONREAD.
const fionread = 0x541B

// queue returns the bytes in kernel queues: the receive queue here and the server's send queue,
// which sock_diag reports.
func (l *loop) queue(c *conn) (uint64, error) {
	var in int32
	if _, _, e := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(c.fd), fionread, uintptr(unsafe.Pointer(&in))); e != 0 {
		return 0, fmt.Errorf("receive queue: %w", e)
	}
	a, err := syscall.Getsockname(int(c.fd))
	if err != nil {
		return 0, err
	}
	local, ok := a.(*syscall.SockaddrInet4)
	if !ok {
		return 0, errors.New("not an IPv4 socket")
	}
	out, err := l.sendQueue(local)
	return uint64(in) + out, err
}

// sendQueue reads the send queue of the server's end of a connection.
func (l *loop) sendQueue(client *syscall.SockaddrInet4) (uint64, error) {
	const (
		netlinkSockDiag  = 4
		sockDiagByFamily = 20
		noCookie         = 0xFFFFFFFF
		requestSize      = syscall.SizeofNlMsghdr + 56
	)
	if l.diag == 0 {
		fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, netlinkSockDiag)
		if err != nil {
			return 0, fmt.Errorf("sock_diag: %w", err)
		}
		l.diag = fd
	}
	// struct nlmsghdr, struct inet_diag_req_v2 with struct inet_diag_sockid
	q := make([]byte, 0, requestSize)
	q = binary.NativeEndian.AppendUint32(q, requestSize)
	q = binary.NativeEndian.AppendUint16(q, sockDiagByFamily)
	q = binary.NativeEndian.AppendUint16(q, syscall.NLM_F_REQUEST)
	q = append(q, make([]byte, 8)...)
	q = append(q, syscall.AF_INET, syscall.IPPROTO_TCP, 0, 0)
	q = binary.NativeEndian.AppendUint32(q, math.MaxUint32) // any state
	q = binary.BigEndian.AppendUint16(q, uint16(l.server.Port))
	q = binary.BigEndian.AppendUint16(q, uint16(client.Port))
	q = append(append(q, l.server.Addr[:]...), make([]byte, 12)...)
	q = append(append(q, client.Addr[:]...), make([]byte, 12)...)
	q = append(q, 0, 0, 0, 0) // any interface
	q = binary.NativeEndian.AppendUint32(q, noCookie)
	q = binary.NativeEndian.AppendUint32(q, noCookie)
	if err := syscall.Sendto(l.diag, q, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("sock_diag: %w", err)
	}
	var b [512]byte
	n, _, err := syscall.Recvfrom(l.diag, b[:], 0)
	if err != nil {
		return 0, fmt.Errorf("sock_diag: %w", err)
	}
	// struct inet_diag_msg: 4 bytes, 48 of sockid, expires, rqueue, wqueue
	const wqueue = syscall.SizeofNlMsghdr + 4 + 48 + 4 + 4
	if kind := binary.NativeEndian.Uint16(b[4:]); kind != sockDiagByFamily || n < wqueue+4 {
		return 0, fmt.Errorf("sock_diag answers with %d bytes of kind %d, error %d", n, kind, int32(binary.NativeEndian.Uint32(b[syscall.SizeofNlMsghdr:])))
	}
	return uint64(binary.NativeEndian.Uint32(b[wqueue:])), nil
}
