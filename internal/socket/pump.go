package socket

import (
	"crypto/tls"
	"net"
	"net/netip"
	"runtime/debug"
	"time"
)

const (
	// readSize is a pump's read buffer: most client messages fit many times.
	readSize = 4 << 10

	// chunkSize is the most that a pump hands to the kernel at once, so that the session
	// learns of progress on a slow socket. A finer measure would tell nothing: with
	// a 64 KiB send buffer Linux itself wakes a writer in steps of about a third of it.
	chunkSize = 16 << 10
)

// A pump is a connection over a net.Conn: one goroutine reads and one writes, and
// neither does anything but move bytes. What is here is set before they start.
type pump struct {
	conn   *conn
	net    net.Conn
	tcp    socketOptions // under net, or nil
	secure bool          // net is not the TCP connection itself: TLS
	early  []byte        // came with the handshake
	taken  chan struct{} // to the reader: its bytes are used up
	out    chan *[]byte  // to the writer
	done   chan struct{} // closed when the connection has ended

	waits bool // the reader waits for taken; of the shard
}

// socketOptions is what a pump asks of the socket under its connection: a *net.TCPConn has it.
type socketOptions interface {
	SetNoDelay(bool) error
	SetWriteBuffer(int) error
	SetLinger(int) error
	CloseWrite() error
	Close() error
}

func newPump(c *conn, nc net.Conn, early []byte) *pump {
	p := &pump{
		conn: c, net: nc, early: early,
		taken: make(chan struct{}, 1), out: make(chan *[]byte, 1), done: make(chan struct{}),
	}
	switch t := nc.(type) {
	case socketOptions:
		p.tcp = t
	case *tls.Conn:
		under := t.NetConn()
		if s, ok := under.(*shim); ok {
			under = s.Conn
		}
		p.tcp, _ = under.(socketOptions)
		p.secure = true
	}
	return p
}

// start sets the goroutines going. The options of a connection fail only where it is gone
// already, which the reader finds.
func (p *pump) start(sendBuffer int) {
	if p.tcp != nil {
		_ = p.tcp.SetNoDelay(true)
		_ = p.tcp.SetWriteBuffer(sendBuffer)
	}
	all := &p.conn.shard.server.goroutines
	all.Go(p.read)
	all.Go(p.write)
}

// read moves bytes from the socket to the shard, one buffer at a time: while the
// shard has not used one up, the peer's bytes stay in the kernel.
func (p *pump) read() {
	defer p.net.Close()
	if len(p.early) > 0 && !p.deliver(p.early) {
		return
	}
	buf := make([]byte, readSize)
	for {
		n, err := p.guard(stepRead, p.net.Read, buf)
		if n > 0 && !p.deliver(buf[:n]) {
			return
		}
		if err != nil {
			p.conn.shard.post(input{kind: inputEOF, conn: p.conn})
			<-p.done
			return
		}
	}
}

// deliver gives bytes to the shard and waits until it has used them up.
func (p *pump) deliver(b []byte) bool {
	p.conn.shard.post(input{kind: inputData, conn: p.conn, data: b})
	select {
	case <-p.taken:
		return true
	case <-p.done:
		return false
	}
}

// usedUp lets the reader go on.
func (p *pump) usedUp() {
	if p.waits {
		p.waits = false
		p.taken <- struct{}{} // has room: one buffer is out at a time
	}
}

// write moves buffers from the shard to the socket, and tells the shard of every step.
func (p *pump) write() {
	for {
		select {
		case buf := <-p.out:
			err := p.writeBuffer(*buf)
			p.conn.shard.server.buffers.put(buf)
			if err != nil {
				return
			}
		case <-p.done:
			return
		}
	}
}

func (p *pump) writeBuffer(buf []byte) error {
	for len(buf) > 0 {
		n, err := p.guard(stepWrite, p.net.Write, buf[:min(len(buf), chunkSize)])
		buf = buf[n:]
		p.conn.shard.post(input{kind: inputWrote, conn: p.conn, n: n, last: len(buf) == 0, failed: err != nil})
		if err != nil {
			return err
		}
	}
	return nil
}

// guard reads or writes. A panic in that, such as one of TLS, is an error of this connection alone.
func (p *pump) guard(st step, move func([]byte) (int, error), b []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			s := p.conn.shard.server
			s.panics.Add(1)
			s.cfg.Logger.Error("connection panicked", "address", p.address(), "panic", panicText(v), "stack", string(debug.Stack()))
			n, err = 0, net.ErrClosed
		}
	}()
	p.conn.shard.server.at(p.conn, st)
	return move(b)
}

// release makes the reader and writer return, and the reader close the socket.
// With reset, what the kernel still holds for a peer that takes nothing is
// thrown away.
func (p *pump) release(reset bool) {
	close(p.done)
	if reset && p.tcp != nil {
		_ = p.tcp.SetLinger(0)
		_ = p.tcp.Close()
		return
	}
	_ = p.net.SetDeadline(time.Unix(1, 0))
}

// closeWrite tells the peer that nothing more comes, where the transport can.
func (p *pump) closeWrite() {
	if p.tcp != nil && !p.secure {
		_ = p.tcp.CloseWrite()
	}
}

func (p *pump) address() netip.Addr {
	if a, ok := p.net.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
