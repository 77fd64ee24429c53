package socket

import (
	"net"
	"net/netip"
	"os"
	"sync"
)

// queuedRequests bounds the connections that wait for net/http to take them.
const queuedRequests = 1024

// requests is the listener of the connections that are not for the stream.
type requests struct {
	queue chan handed
	done  chan struct{}
	once  sync.Once
	addr  net.Addr

	kernel *kernel
}

// handed is a connection on its way to net/http.
type handed struct {
	fd    int32
	peer  netip.AddrPort
	tls   *secured // nil: in the clear
	early []byte   // was read of it
}

func newRequests(k *kernel) *requests {
	return &requests{kernel: k, queue: make(chan handed, queuedRequests), done: make(chan struct{})}
}

// Requests is the listener of those connections that [Server.Listen] took and that do not
// ask for the stream, or not in the usual form: an http.Server with this Server as
// the stream's handler serves them. What waits when it is closed is hung up on.
func (s *Server) Requests() net.Listener { return s.requests }

// offer puts a connection in the queue; false: it is full, or nobody listens any more.
func (l *requests) offer(h handed) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case l.queue <- h:
	default:
		return false
	}
	select {
	case <-l.done: // it may have been closed, and emptied, in between
		l.hangUp()
	default:
	}
	return true
}

// Accept gives the next connection.
func (l *requests) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.done:
			return nil, net.ErrClosed
		case h := <-l.queue:
			if nc, err := h.open(l.kernel); err == nil { // else there are no descriptors left
				return &handedConn{Conn: nc, peer: h.peer, early: h.early}, nil
			}
		}
	}
}

// open makes a net.Conn of a socket. That takes half a dozen calls of the system, so it is
// not for the shard to do.
func (h *handed) open(k *kernel) (net.Conn, error) {
	f := os.NewFile(uintptr(h.fd), "")
	defer func() { _ = f.Close() }() // nc has a descriptor of its own
	if errno := k.fails(callDuplicate, h.fd); errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	nc, err := net.FileConn(f)
	if err != nil || h.tls == nil {
		return nc, err
	}
	h.tls.shim.Conn, h.tls.shim.handed = nc, true
	return h.tls.conn, nil
}

// Close implements net.Listener.
func (l *requests) Close() error {
	l.once.Do(func() { close(l.done) })
	l.hangUp()
	return nil
}

func (l *requests) hangUp() {
	for {
		select {
		case h := <-l.queue:
			l.kernel.close(h.fd, false)
		default:
			return
		}
	}
}

// Addr implements net.Listener. It is nil before Listen.
func (l *requests) Addr() net.Addr { return l.addr }

// handedConn is a connection that begins with what was read of it already. It has the address that
// it was accepted with: a socket that was reset in the meantime has none to ask for.
type handedConn struct {
	net.Conn
	peer  netip.AddrPort
	early []byte
}

// RemoteAddr implements net.Conn.
func (c *handedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// Read implements net.Conn.
func (c *handedConn) Read(b []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil
	}
	return n, nil
}

// NetConn is the connection under it, whose options may be set.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending half, which net/http does before it hangs up on
// somebody who still sends.
func (c *handedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
