package socket

import (
	"crypto/tls"
	"net"
	"net/netip"
	"runtime/debug"
	"time"
)

const (
	// readSize is the read buffer of a netConn. Most client messages are much smaller.
	readSize = 4 << 10

	// chunkSize is the most that a netConn writes at once, so that the session sees progress on a
	// slow socket. Smaller chunks would not help: with a send buffer of 64 KiB Linux wakes a writer
	// in steps of about a third of it.
	chunkSize = 16 << 10
)

// netConn is the transport of a connection over a net.Conn, with a goroutine that reads and one
// that writes. Its fields are set before they start. For a LocalConn there is no net.Conn, and the
// goroutine of the client has the part of both.
type netConn struct {
	owner  *conn
	nc     net.Conn      // nil: a LocalConn
	client netip.Addr    // of a LocalConn
	tcp    socketOptions // below nc; nil: none
	secure bool          // nc is TLS
	early  []byte        // input that came with the handshake
	used   chan struct{} // to the reader: its buffer was used
	out    chan *[]byte  // to the writer
	done   chan struct{} // closed when the connection has ended

	waiting bool // the reader waits for used; owned by the shard
}

// socketOptions are the methods of *net.TCPConn that a netConn needs.
type socketOptions interface {
	SetNoDelay(bool) error
	SetWriteBuffer(int) error
	SetLinger(int) error
	CloseWrite() error
	Close() error
}

func newNetConn(c *conn, nc net.Conn, early []byte) *netConn {
	p := &netConn{
		owner: c, nc: nc, early: early,
		used: make(chan struct{}, 1), out: make(chan *[]byte, 1), done: make(chan struct{}),
	}
	switch t := nc.(type) {
	case socketOptions:
		p.tcp = t
	case secureConn:
		p.tcp, p.secure = optionsOf(t.NetConn()), true
	}
	return p
}

// secureConn is a *tls.Conn, or a type that contains one.
type secureConn interface {
	NetConn() net.Conn
	ConnectionState() tls.ConnectionState
}

// optionsOf returns the socket below TLS; nil if it is not known.
func optionsOf(nc net.Conn) socketOptions {
	for {
		switch t := nc.(type) {
		case socketOptions:
			return t
		case *tlsTransport:
			nc = t.Conn
		case interface{ NetConn() net.Conn }:
			nc = t.NetConn()
		default:
			return nil
		}
	}
}

// start starts the goroutines. Options fail only if the connection is closed, which the reader
// detects.
func (p *netConn) start(sendBuffer int) {
	if p.tcp != nil {
		_ = p.tcp.SetNoDelay(true)
		_ = p.tcp.SetWriteBuffer(sendBuffer)
	}
	all := &p.owner.shard.server.goroutines
	all.Go(p.read)
	all.Go(p.write)
}

// read passes input to the shard, one buffer at a time. Until the shard has used it, further input
// stays in the kernel.
func (p *netConn) read() {
	defer p.nc.Close()
	if len(p.early) > 0 && !p.deliver(p.early) {
		return
	}
	buf := make([]byte, readSize)
	for {
		n, err := p.safely(stepRead, p.nc.Read, buf)
		if n > 0 && !p.deliver(buf[:n]) {
			return
		}
		if err != nil {
			p.owner.shard.post(input{kind: inputEOF, conn: p.owner})
			<-p.done
			return
		}
	}
}

// deliver passes b to the shard and waits until it was used. It returns false if the connection has
// ended.
func (p *netConn) deliver(b []byte) bool {
	p.owner.shard.post(input{kind: inputData, conn: p.owner, data: b})
	select {
	case <-p.used:
		return true
	case <-p.done:
		return false
	}
}

// usedUp signals to the reader that its buffer was used.
func (p *netConn) usedUp() {
	if p.waiting {
		p.waiting = false
		p.used <- struct{}{} // does not block: one buffer is out at a time
	}
}

// write writes buffers of the shard and reports the progress of each.
func (p *netConn) write() {
	for {
		select {
		case buf := <-p.out:
			err := p.writeBuffer(*buf)
			p.owner.shard.server.buffers.put(buf)
			if err != nil {
				return
			}
		case <-p.done:
			return
		}
	}
}

func (p *netConn) writeBuffer(buf []byte) error {
	for len(buf) > 0 {
		n, err := p.safely(stepWrite, p.nc.Write, buf[:min(len(buf), chunkSize)])
		buf = buf[n:]
		p.owner.shard.post(input{kind: inputWrote, conn: p.owner, n: n, last: len(buf) == 0, failed: err != nil})
		if err != nil {
			return err
		}
	}
	return nil
}

// safely calls move, and turns a panic, such as one in TLS, into an error of this connection.
func (p *netConn) safely(st step, move func([]byte) (int, error), b []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			s := p.owner.shard.server
			s.panics.Add(1)
			s.cfg.Logger.Error("connection panicked", "address", p.address(), "panic", panicText(v), "stack", string(debug.Stack()))
			n, err = 0, net.ErrClosed
		}
	}()
	p.owner.shard.server.reach(p.owner, st)
	return move(b)
}

// release makes both goroutines return; the reader closes the socket. With reset, unsent output is
// discarded.
func (p *netConn) release(reset bool) {
	reset = reset && p.tcp != nil
	if reset {
		_ = p.tcp.SetLinger(0) // before done, because the reader closes the socket then
	}
	close(p.done)
	switch {
	case p.isLocal():
	case reset:
		_ = p.tcp.Close()
	default:
		_ = p.nc.SetDeadline(time.Unix(1, 0))
	}
}

// closeWrite closes the sending half, if the transport can.
func (p *netConn) closeWrite() {
	if p.tcp != nil && !p.secure {
		_ = p.tcp.CloseWrite()
	}
}

func (p *netConn) address() netip.Addr {
	if p.isLocal() {
		return p.client
	}
	if a, ok := p.nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
