package socket

import (
	"context"
	"io"
	"net/netip"
	"os"
	"time"
)

// LocalConn is a connection inside the process, for a client of another protocol. Messages are
// passed to its session unchanged, and the client receives the session's frames without a socket.
// One goroutine uses it.
type LocalConn struct {
	p   *netConn
	buf *[]byte // result of the last Next; nil: none
}

// Open opens a connection inside the process for the client with an address. Its session reports
// positions, see [session.Peer.Positions]. The errors are ErrClosed and ErrFull.
func (s *Server) Open(client netip.Addr) (*LocalConn, error) {
	c := s.newConn(Peer{Address: client})
	if err := s.acquireSlot(c); err != nil {
		return nil, err
	}
	c.shard.load.Add(1)
	c.netConn = newNetConn(c, nil, nil)
	c.netConn.client = client
	c.shard.post(input{kind: inputStart, conn: c})
	return &LocalConn{p: c.netConn}, nil
}

// Send passes a text message to the session. It keeps msg.
func (l *LocalConn) Send(msg []byte) {
	l.p.owner.shard.post(input{kind: inputMessage, conn: l.p.owner, data: msg})
}

// Next returns the next frames of the session, the last of which may be a close frame. They are
// valid until the next call, which reports to the session that the client has them. The errors are
// io.EOF after the end, os.ErrDeadlineExceeded after a time, and that of ctx.
func (l *LocalConn) Next(ctx context.Context, until time.Time) ([]byte, error) {
	if buf := l.buf; buf != nil {
		l.buf = nil
		n := len(*buf)
		l.p.owner.shard.server.buffers.put(buf)
		l.p.owner.shard.post(input{kind: inputWrote, conn: l.p.owner, n: n, last: true})
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case l.buf = <-l.p.out:
		return *l.buf, nil
	case <-l.p.done:
		return nil, io.EOF
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the connection. Frames that were not taken are discarded.
func (l *LocalConn) Close() {
	l.p.owner.shard.post(input{kind: inputEOF, conn: l.p.owner, failed: true})
}

// isLocal reports whether the connection belongs to a LocalConn.
func (p *netConn) isLocal() bool { return p != nil && p.nc == nil }
