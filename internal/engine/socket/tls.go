package socket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/tlslimit"
)

// tlsConn is the TLS of a connection on the event loop. The handshake runs on a goroutine, because
// it is CPU work and waits for the peer. After it crypto/tls runs on the shard. This works because
// tls.Conn returns a temporary error of its transport without keeping it, once the handshake is
// over, and because its writes go to memory. TestTemporaryErrorsDoNotLatch checks this property of
// crypto/tls.
type tlsConn struct {
	conn      *tls.Conn
	transport tlsTransport

	// owner is who closes the socket: the handshake's goroutine if the shard has abandoned the
	// connection during the handshake, otherwise the shard.
	owner     atomic.Int32
	ready     chan struct{} // to the handshake: the socket is readable or writable; nil: not started
	abandoned chan struct{} // closed when the shard abandons the connection
}

const (
	ownerShard int32 = iota
	ownerHandshake
	ownerNobody // abandoned: the handshake's goroutine closes the socket
)

// tlsTransport is the net.Conn below a tls.Conn.
type tlsTransport struct {
	net.Conn  // detached, or a real one after the handoff to net/http
	conn      *tlsConn
	fd        int32
	peer      netip.AddrPort
	handedOff bool // net/http has it
	kernel    *kernel

	slots chan struct{} // Server.tlsSlots during the handshake, otherwise nil
	read  tlslimit.Handshake
	out   *[]byte // on the shard: collects encrypted output
}

// detached is the net.Conn of a socket that belongs to a shard. It does nothing.
type detached struct{ *tlsTransport }

func (detached) Read([]byte) (int, error)         { return 0, io.EOF }
func (detached) Write([]byte) (int, error)        { return 0, io.EOF }
func (detached) Close() error                     { return nil }
func (detached) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (detached) RemoteAddr() net.Addr             { return &net.TCPAddr{} } // that of tlsTransport is used
func (detached) SetDeadline(time.Time) error      { return nil }
func (detached) SetReadDeadline(time.Time) error  { return nil }
func (detached) SetWriteDeadline(time.Time) error { return nil }

// wouldBlock is the temporary error of a read that finds no input.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing to read yet" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

var _ net.Error = wouldBlock{}

// Read implements net.Conn.
func (s *tlsTransport) Read(b []byte) (int, error) {
	if s.handedOff {
		return s.Conn.Read(b)
	}
	for {
		if s.slots != nil {
			if b = b[:min(len(b), s.read.Left())]; len(b) == 0 {
				return 0, errHandshakeRead
			}
		}
		switch n := s.kernel.read(s.fd, b); {
		case n > 0:
			if s.slots != nil {
				s.read.Add(n)
			}
			return n, nil
		case n == 0:
			return 0, io.EOF
		case n == ioFailed:
			return 0, io.ErrUnexpectedEOF
		case s.slots == nil:
			return 0, wouldBlock{}
		}
		if err := s.waitReady(); err != nil {
			return 0, err
		}
	}
}

// errHandshakeRead ends a TLS handshake that needs too many bytes.
var errHandshakeRead = errors.New("the TLS handshake is too large")

// RemoteAddr implements net.Conn. A socket that was reset no longer has an address.
func (s *tlsTransport) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.peer) }

// Write implements net.Conn. It writes all of b.
func (s *tlsTransport) Write(b []byte) (int, error) {
	switch {
	case s.handedOff:
		return s.Conn.Write(b)
	case s.slots == nil:
		*s.out = append(*s.out, b...)
		return len(b), nil
	}
	for done := 0; ; {
		n := s.kernel.write(s.fd, b[done:])
		if n == ioFailed {
			return done, io.ErrUnexpectedEOF
		}
		if done += n; done == len(b) {
			return done, nil
		}
		if err := s.waitReady(); err != nil {
			return done, err
		}
	}
}

// waitReady waits for the socket and releases the handshake slot meanwhile.
func (s *tlsTransport) waitReady() error {
	<-s.slots
	defer func() { s.slots <- struct{}{} }()
	select {
	case <-s.conn.ready:
		return nil
	case <-s.conn.abandoned:
		return net.ErrClosed
	}
}

// startTLS starts TLS on a new connection. It returns false if its address makes them too fast.
func (l *eventLoop) startTLS(now time.Time, c *conn) (ok bool) {
	evict := func() { c.shard.post(input{kind: inputTLSEvicted, conn: c}) }
	if c.handshake.tlsWaiting, ok = l.shard.server.tlsLimiter.Begin(c.handshake.peer.Addr(), now, evict); !ok {
		return false
	}
	tc := &tlsConn{}
	tc.transport = tlsTransport{Conn: detached{&tc.transport}, conn: tc, fd: c.fd, peer: c.handshake.peer, kernel: l.shard.kernel}
	tc.conn = tls.Server(&tc.transport, l.tlsConfig)
	c.tls, c.handshake.tlsHandshaking = tc, true
	return true
}

// continueTLS is called when the socket is ready during the TLS handshake.
func (l *eventLoop) continueTLS(c *conn) {
	sh := l.shard
	tc := c.tls
	if tc.ready == nil {
		tc.ready, tc.abandoned = make(chan struct{}, 1), make(chan struct{})
		tc.owner.Store(ownerHandshake)
		sh.server.goroutines.Go(func() { sh.server.runTLSHandshake(c, tc) })
		return
	}
	select {
	case tc.ready <- struct{}{}:
	default:
	}
}

// runTLSHandshake runs a TLS handshake and reports its end to the shard.
func (s *Server) runTLSHandshake(c *conn, tc *tlsConn) {
	s.tlsSlots <- struct{}{}
	tc.transport.slots, tc.transport.read = s.tlsSlots, s.tlsLimiter.Handshake()
	err := s.tlsHandshake(c, tc)
	if answer := tlslimit.Plain(err); answer != nil {
		_ = s.kernel.write(tc.transport.fd, answer)
	}
	tc.transport.slots = nil
	tc.transport.read.End()
	<-s.tlsSlots
	if !tc.owner.CompareAndSwap(ownerHandshake, ownerShard) {
		s.kernel.close(tc.transport.fd, true)
		return
	}
	c.shard.post(input{kind: inputTLSDone, conn: c, failed: err != nil})
}

// tlsHandshake makes the handshake. It runs configured callbacks, such as the choice of a
// certificate, which may panic.
func (s *Server) tlsHandshake(c *conn, tc *tlsConn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panics.Add(1)
			s.cfg.Logger.Error("TLS handshake panicked", "address", tc.transport.peer.Addr(), "panic", panicText(v), "stack", string(debug.Stack()))
			err = net.ErrClosed
		}
	}()
	s.reach(c, stepTLSHandshake)
	return tc.conn.Handshake()
}

// tlsDone handles the end of a TLS handshake.
func (l *eventLoop) tlsDone(c *conn, failed bool) {
	if failed {
		l.shard.end(c, false)
		return
	}
	c.handshake.tlsHandshaking = false
	c.tls.transport.out = &l.ciphertext
	c.readPending = true // the event of earlier input was passed to the handshake
}

// abandon leaves the socket to the handshake. It returns false if that is over.
func (tc *tlsConn) abandon() bool {
	if !tc.owner.CompareAndSwap(ownerHandshake, ownerNobody) {
		return false
	}
	close(tc.abandoned)
	return true
}

// read returns what conn.read returns.
func (tc *tlsConn) read(b []byte) int {
	n, err := tc.conn.Read(b)
	switch {
	case n > 0:
		return n
	case err == nil, errors.Is(err, wouldBlock{}):
		return ioEmpty
	case errors.Is(err, io.EOF):
		return 0
	}
	return ioFailed
}

// writeTLS encrypts and writes b. It reports whether more may follow.
func (l *eventLoop) writeTLS(now time.Time, c *conn, b []byte, o writeBuffer) bool {
	sh := l.shard
	l.ciphertext = l.ciphertext[:0]
	if _, err := c.tls.conn.Write(b); err != nil {
		sh.end(c, false)
		return false
	}
	ciphertext := l.ciphertext
	l.ciphertext = ciphertext[:0]
	n := sh.kernel.write(c.fd, ciphertext)
	if n == len(ciphertext) {
		sh.reportWritten(now, c, &o, len(b))
		return c.phase != phaseEnded
	}
	o.plainBytes, o.cipherBytes = len(b), len(ciphertext)
	sh.saveUnwritten(now, c, ciphertext, n, o)
	return false
}

// plainShare returns how many bytes before encryption correspond to n more bytes after it, in
// proportion to the remaining bytes of both.
func (o *writeBuffer) plainShare(n int) int {
	if o.cipherBytes == 0 {
		return n
	}
	plain := o.plainBytes
	if n < o.cipherBytes {
		plain = plain * n / o.cipherBytes
	}
	o.plainBytes -= plain
	o.cipherBytes -= n
	return plain
}

// writeAlert writes records of TLS itself, such as an alert or a key update. While they wait for a
// full socket, no input is read that could cause more records.
func (l *eventLoop) writeAlert(now time.Time, c *conn) {
	sh := l.shard
	b := l.ciphertext
	if len(b) == 0 || c.phase == phaseEnded {
		return
	}
	l.ciphertext = b[:0]
	if o := c.out; o != nil {
		*o.buf = append(*o.buf, b...)
		o.tlsPending = true
		sh.server.backlog.bytes.Add(int64(len(b)))
		sh.reportQueued(now, c)
		return
	}
	n := sh.kernel.write(c.fd, b)
	if n == ioFailed || n == len(b) {
		return // the next read finds a broken socket
	}
	o := &writeBuffer{buf: sh.server.buffers.get(), tlsPending: true}
	*o.buf = append(*o.buf, b[n:]...)
	sh.block(c, o)
	sh.reportQueued(now, c)
}

// closeNotify ends TLS in order, if the socket accepts the record immediately.
func (l *eventLoop) closeNotify(c *conn) {
	l.ciphertext = l.ciphertext[:0]
	if c.out == nil && c.tls.conn.CloseWrite() == nil {
		_ = l.shard.kernel.write(c.fd, l.ciphertext)
	}
	l.ciphertext = l.ciphertext[:0]
}
