package socket

import (
	"container/list"
	"net"
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/internal/session"
)

const (
	// readSize is a connection's read buffer: most client messages fit many times.
	readSize = 4 << 10

	// chunkSize is the most handed to the kernel at once, so that the session
	// learns of progress on a slow socket. A finer measure would tell nothing: with
	// a 64 KiB send buffer Linux itself wakes a writer in steps of about a third of it.
	chunkSize = 16 << 10

	sendBuffer = 64 << 10 // SO_SNDBUF: the kernel must not hide a backlog
)

// phase is where a connection is in its life.
type phase uint8

const (
	phaseOpen    phase = iota // the session lives
	phaseClosing              // the session is over, the closing handshake runs
	phaseEnded                // nothing of it is used any more
)

// A conn is one connection. Its shard's goroutine owns it; a reader and a writer
// goroutine do nothing but move bytes. The fields of the first group are set
// before those start and never changed.
type conn struct {
	shard  *shard
	net    net.Conn
	tcp    *net.TCPConn // under net, or nil
	secure bool         // net is not the TCP connection itself: TLS
	peer   Peer
	key    netip.Addr    // the address as limits count it
	early  []byte        // came with the handshake
	taken  chan struct{} // to the reader: its bytes are used up
	out    chan *[]byte  // to the writer
	done   chan struct{} // closed when the connection has ended

	seat *list.Element // guarded by seats.mu

	// The rest belongs to the shard.
	sess   session.Session
	live   bool // sess is to be told of its end
	parser Parser
	phase  phase

	in      []byte // the reader's bytes not parsed yet
	reading bool   // the reader waits for taken
	deaf    bool   // input is thrown away: after a violation of framing
	eof     bool   // the peer has closed, by a frame or by its socket

	greeting []byte // the answer to the handshake, not yet with the writer
	pong     []byte // the answer to the newest ping, not yet with the writer
	farewell []byte // the last bytes of the connection, likewise, once the session is over
	before   int    // bytes with the writer that come before the session's
	own      int    // of the session
	writing  bool   // the writer has a buffer

	closeBy time.Time // the connection ends then at the latest; zero: no closing yet

	deadline time.Time // in the shard's timers
	slot     int
	dirty    bool // in the shard's list of connections to flush
}

// Peer is who is at the other end of a connection.
type Peer struct {
	Address  netip.Addr
	Client   string            // User-Agent of the handshake
	Identity *session.Identity // of the handshake's token, verified; nil: none was sent
	Mark     session.Mark      // of before it was verified
}

// Post hands a notice to the connection's shard.
func (c *conn) Post(n session.Notice) {
	c.shard.post(input{kind: inputNotice, conn: c, notice: n})
}

// read moves bytes from the socket to the shard, one buffer at a time: while the
// shard has not used one up, the peer's bytes stay in the kernel.
func (c *conn) read() {
	defer c.shard.server.goroutines.Done()
	defer c.net.Close()
	if len(c.early) > 0 && !c.deliver(c.early) {
		return
	}
	buf := make([]byte, readSize)
	for {
		n, err := c.net.Read(buf)
		if n > 0 && !c.deliver(buf[:n]) {
			return
		}
		if err != nil {
			c.shard.post(input{kind: inputEOF, conn: c})
			<-c.done
			return
		}
	}
}

// deliver gives bytes to the shard and waits until it has used them up.
func (c *conn) deliver(b []byte) bool {
	c.shard.post(input{kind: inputData, conn: c, data: b})
	select {
	case <-c.taken:
		return true
	case <-c.done:
		return false
	}
}

// write moves buffers from the shard to the socket, and tells the shard of every
// step.
func (c *conn) write() {
	defer c.shard.server.goroutines.Done()
	for {
		select {
		case buf := <-c.out:
			err := c.writeBuffer(*buf)
			c.shard.server.buffers.put(buf)
			if err != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *conn) writeBuffer(buf []byte) error {
	for len(buf) > 0 {
		n, err := c.net.Write(buf[:min(len(buf), chunkSize)])
		buf = buf[n:]
		c.shard.post(input{kind: inputWrote, conn: c, n: n, last: len(buf) == 0, failed: err != nil})
		if err != nil {
			return err
		}
	}
	return nil
}

// tune sets what the stream wants of a TCP connection. Its errors are those of a
// connection that is gone already, which the reader finds.
func (c *conn) tune() {
	if c.tcp != nil {
		_ = c.tcp.SetNoDelay(true)
		_ = c.tcp.SetWriteBuffer(sendBuffer)
	}
}

// release makes the reader and writer return, and the reader close the socket.
// With reset, what the kernel still holds for a peer that takes nothing is
// thrown away.
func (c *conn) release(reset bool) {
	close(c.done)
	if reset && c.tcp != nil {
		_ = c.tcp.SetLinger(0)
		_ = c.tcp.Close()
		return
	}
	_ = c.net.SetDeadline(time.Unix(1, 0))
}

// closeWrite tells the peer that nothing more comes, where the transport can.
func (c *conn) closeWrite() {
	if c.tcp != nil && !c.secure {
		_ = c.tcp.CloseWrite()
	}
}
