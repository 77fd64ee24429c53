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
)

// A secured is the TLS of a line. Its handshake, which is work for a processor and waits for
// the peer in between, has a goroutine; after it crypto/tls runs on the shard. What makes that
// possible is that a tls.Conn takes an error of its transport that calls itself temporary as
// no more than a pause, in reading, once the handshake is over; and that its writes go to memory,
// since there no error is a pause. TestPausesDoNotLatch holds Go to it.
type secured struct {
	conn *tls.Conn
	shim shim

	// owner says who closes the socket. The handshake's goroutine does when the shard has let go of
	// the connection before it was done, and else the shard.
	owner atomic.Int32
	ready chan struct{} // to the goroutine: the socket has more, or more room; nil: it has not begun
	gone  chan struct{} // closed when the shard lets go
}

const (
	ownerShard int32 = iota
	ownerHandshake
	ownerNobody // of the two: the handshake's goroutine is to close the socket
)

// A shim is what crypto/tls takes for a net.Conn.
type shim struct {
	net.Conn // with net/http; before that detached
	line     *secured
	fd       int32
	peer     netip.AddrPort
	handed   bool // it is with net/http
	kernel   *kernel

	shakes chan struct{} // places of handshakes that are at work; set while this one is
	sealed *[]byte       // on the shard: what was written
}

// detached is the net.Conn of a socket that a shard watches, closes and reads by itself.
type detached struct{ *shim }

func (detached) Read([]byte) (int, error)         { return 0, io.EOF }
func (detached) Write([]byte) (int, error)        { return 0, io.EOF }
func (detached) Close() error                     { return nil }
func (detached) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (detached) RemoteAddr() net.Addr             { return &net.TCPAddr{} } // the shim's own counts
func (detached) SetDeadline(time.Time) error      { return nil }
func (detached) SetReadDeadline(time.Time) error  { return nil }
func (detached) SetWriteDeadline(time.Time) error { return nil }

// pause is the error of a read that finds nothing.
type pause struct{}

func (pause) Error() string   { return "nothing to read yet" }
func (pause) Timeout() bool   { return true }
func (pause) Temporary() bool { return true }

var _ net.Error = pause{}

// Read implements net.Conn.
func (s *shim) Read(b []byte) (int, error) {
	if s.handed {
		return s.Conn.Read(b)
	}
	for {
		switch n := s.kernel.read(s.fd, b); {
		case n > 0:
			return n, nil
		case n == 0:
			return 0, io.EOF
		case n == lineBroken:
			return 0, io.ErrUnexpectedEOF
		case s.shakes == nil:
			return 0, pause{}
		}
		if err := s.await(); err != nil {
			return 0, err
		}
	}
}

// RemoteAddr implements net.Conn. The socket itself has no address any more once it was reset.
func (s *shim) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.peer) }

// Write implements net.Conn. It takes everything.
func (s *shim) Write(b []byte) (int, error) {
	switch {
	case s.handed:
		return s.Conn.Write(b)
	case s.shakes == nil:
		*s.sealed = append(*s.sealed, b...)
		return len(b), nil
	}
	for done := 0; ; {
		n := s.kernel.write(s.fd, b[done:])
		if n == lineBroken {
			return done, io.ErrUnexpectedEOF
		}
		if done += n; done == len(b) {
			return done, nil
		}
		if err := s.await(); err != nil {
			return done, err
		}
	}
}

// await waits for the socket, and leaves the processor to other handshakes.
func (s *shim) await() error {
	<-s.shakes
	defer func() { s.shakes <- struct{}{} }()
	select {
	case <-s.line.ready:
		return nil
	case <-s.line.gone:
		return net.ErrClosed
	}
}

// secure puts TLS on a new line.
func (sh *shard) secure(c *conn) {
	line := &secured{}
	line.shim = shim{Conn: detached{&line.shim}, line: line, fd: c.fd, peer: c.open.peer, kernel: sh.kernel}
	line.conn = tls.Server(&line.shim, sh.door.secure)
	c.tls, c.open.shaking = line, true
}

// shake is told that the socket of a line has more, or more room, while its handshake is not over.
func (sh *shard) shake(c *conn) {
	line := c.tls
	if line.ready == nil {
		line.ready, line.gone = make(chan struct{}, 1), make(chan struct{})
		line.owner.Store(ownerHandshake)
		sh.server.goroutines.Go(func() { sh.server.handshake(c, line) })
		return
	}
	select {
	case line.ready <- struct{}{}:
	default:
	}
}

// handshake runs on a goroutine of its own.
func (s *Server) handshake(c *conn, line *secured) {
	s.shakes <- struct{}{}
	line.shim.shakes = s.shakes
	err := s.agree(c, line)
	line.shim.shakes = nil
	<-s.shakes
	if !line.owner.CompareAndSwap(ownerHandshake, ownerShard) {
		s.kernel.close(line.shim.fd, true)
		return
	}
	c.shard.post(input{kind: inputSecured, conn: c, failed: err != nil})
}

// agree makes the handshake. What is not ours takes part in it, such as the choice of a certificate.
func (s *Server) agree(c *conn, line *secured) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panics.Add(1)
			s.cfg.Logger.Error("handshake of TLS panicked", "address", line.shim.peer.Addr(), "panic", panicText(v), "stack", string(debug.Stack()))
			err = net.ErrClosed
		}
	}()
	s.at(c, stepShake)
	return line.conn.Handshake()
}

// shaken is told that a handshake is over.
func (sh *shard) shaken(c *conn, failed bool) {
	if failed {
		sh.end(c, false)
		return
	}
	c.open.shaking = false
	c.tls.shim.sealed = &sh.sealed
	c.unread = true // the edge was the handshake's
}

// abandon leaves the socket to the handshake, if that is not over.
func (line *secured) abandon() bool {
	if !line.owner.CompareAndSwap(ownerHandshake, ownerNobody) {
		return false
	}
	close(line.gone)
	return true
}

// read gives what a line in the clear gives.
func (line *secured) read(b []byte) int {
	n, err := line.conn.Read(b)
	switch {
	case n > 0:
		return n
	case err == nil, errors.Is(err, pause{}):
		return lineEmpty
	case errors.Is(err, io.EOF):
		return 0
	}
	return lineBroken
}

// writeSecured encrypts b and writes it. It says whether there may be more to write.
func (sh *shard) writeSecured(now time.Time, c *conn, b []byte, o outlet) bool {
	sh.sealed = sh.sealed[:0]
	if _, err := c.tls.conn.Write(b); err != nil {
		sh.end(c, false)
		return false
	}
	sealed := sh.sealed
	sh.sealed = sealed[:0]
	n := sh.kernel.write(c.fd, sealed)
	if n == len(sealed) {
		sh.wrote(now, c, &o, len(b))
		return c.phase != phaseEnded
	}
	o.plain, o.sealed = len(b), len(sealed)
	sh.short(now, c, sealed, n, o)
	return false
}

// share is how many of the bytes before encryption n more of those after it stand for. What
// is left of both is left in proportion, which is as near as anybody can tell.
func (o *outlet) share(n int) int {
	if o.sealed == 0 {
		return n
	}
	plain := o.plain
	if n < o.sealed {
		plain = plain * n / o.sealed
	}
	o.plain -= plain
	o.sealed -= n
	return plain
}

// utter writes what TLS has to say by itself: an alert, or a new key. While that waits
// for room, nothing is read that could make it say more.
func (sh *shard) utter(now time.Time, c *conn) {
	b := sh.sealed
	if len(b) == 0 || c.phase == phaseEnded {
		return
	}
	sh.sealed = b[:0]
	if o := c.out; o != nil {
		*o.buf = append(*o.buf, b...)
		o.uttered = true
		sh.server.behind.bytes.Add(int64(len(b)))
		sh.tell(now, c)
		return
	}
	n := sh.kernel.write(c.fd, b)
	if n == lineBroken || n == len(b) {
		return // the reader finds that it is broken
	}
	o := &outlet{buf: sh.server.buffers.get(), uttered: true}
	*o.buf = append(*o.buf, b[n:]...)
	sh.block(c, o)
	sh.tell(now, c)
}

// farewell ends TLS in order, as far as the socket takes it at once.
func (sh *shard) farewell(c *conn) {
	sh.sealed = sh.sealed[:0]
	if c.out == nil && c.tls.conn.CloseWrite() == nil {
		_ = sh.kernel.write(c.fd, sh.sealed)
	}
	sh.sealed = sh.sealed[:0]
}
